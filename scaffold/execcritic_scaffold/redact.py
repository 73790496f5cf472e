"""The frozen test's own text, taken out of what the Repair agent is told (HARNESS 3.6).

Code under test may read the test and quote it in an exception. What lines of the frozen files hold is replaced,
wherever it turns up. The runner's own account of a failed assertion names values, not the test's lines, and stays;
so do the lines of its literals there, because they are the difference that the agent has to see.
"""

from __future__ import annotations

import ast

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.syntax import parse

_SHORTEST = 12
"""Characters below which a line says nothing of its test (`return None`, `else:`)."""
HIDDEN = "[a line of the test]"


class Redaction:
    """What of the frozen files must not be told. `code`: their lines of code; `text`: those of data and literals."""

    def __init__(self, bundle: FrozenBundle) -> None:
        code: set[str] = set()
        text: set[str] = set()
        for path, file in bundle.changes.items():
            if file is None:
                continue
            content = file.data.decode("utf-8", "replace")
            lines = {line.strip() for line in content.splitlines()}
            module = parse(file.data) if path.endswith(".py") else None
            if module is None:
                text |= lines
                continue
            literal = _literal_lines(module, content)
            text |= literal
            code |= (lines - literal) | _asserted(module, content)
        self.code = _longest_first(code)
        self.text = _longest_first(code | text)

    def apply(self, told: str, assertion: bool) -> str:
        """The text without them. `assertion`: it is the runner's account of a failed assertion of the test."""
        for line in self.code if assertion else self.text:
            told = told.replace(line, HIDDEN)
        return told


def _longest_first(lines: set[str]) -> list[str]:
    return sorted((line for line in lines if len(line) >= _SHORTEST), key=len, reverse=True)


def _literal_lines(module: ast.Module, content: str) -> set[str]:
    """Lines inside literals that go over several lines."""
    lines = content.splitlines()
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            found |= {line.strip() for line in lines[node.lineno : (node.end_lineno or node.lineno)]}
    return found


def _asserted(module: ast.Module, content: str) -> set[str]:
    """What assertions ask, without the word in front of it."""
    asked = [ast.get_source_segment(content, n.test) for n in ast.walk(module) if isinstance(n, ast.Assert)]
    return {" ".join(text.split()) for text in asked if text}
