"""One existing test to imitate: the imports it uses and one function, short, from a file near to the issue."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from execcritic_roles.brief.query import Query
from execcritic_scaffold import syntax

PARSED_BYTES = 400_000
LINES = (2, 30)
"""Shortest and longest function that is shown."""
CHARACTERS = 1_600
FUNCTIONS = 300
"""Of a file that are considered."""


@dataclass(frozen=True)
class Excerpt:
    """`names` are the classes and the function, outermost first; `text` is printable and ends without a newline."""

    path: str
    names: tuple[str, ...]
    text: str


def excerpt(path: str, data: bytes, query: Query) -> Excerpt | None:
    """The test function of a file that names most of what the issue names; None where there is none that is short
    enough, or where the file cannot be read as Python."""
    data = data.replace(b"\r\n", b"\n")
    module = syntax.parse(data) if len(data) <= PARSED_BYTES and b"\r" not in data else None
    if module is None:
        return None
    lines = data.split(b"\n")
    imports = [node for node in module.body if isinstance(node, ast.Import | ast.ImportFrom)]
    best: tuple[float, Excerpt] | None = None
    for owner, function in islice(_tests(module), FUNCTIONS):
        text = _shown(lines, imports, owner, function)
        if text is None:
            continue
        score = sum(weight for name, weight in query.identifiers.items() if name in text)
        if best is None or score > best[0]:
            names = (*([owner.name] if owner else []), function.name)
            best = score, Excerpt(path, names, text)
    return best[1] if best else None


def printable(text: str) -> str:
    """Text without what moves a terminal's cursor or cannot be sent: such characters become U+FFFD."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _tests(module: ast.Module) -> Iterator[tuple[ast.ClassDef | None, syntax.Function]]:
    for node in module.body:
        if isinstance(node, syntax.Function) and node.name.startswith("test"):
            yield None, node
        elif isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, syntax.Function) and child.name.startswith("test"):
                    yield node, child


def _shown(
    lines: list[bytes],
    modules: list[ast.Import | ast.ImportFrom],
    owner: ast.ClassDef | None,
    function: syntax.Function,
) -> str | None:
    first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
    last = function.end_lineno or function.lineno
    if not LINES[0] <= last - first + 1 <= LINES[1]:
        return None
    used = {
        n.id for node in (function, *(owner.bases if owner else ())) for n in ast.walk(node) if isinstance(n, ast.Name)
    }
    chosen = [_import(node, used) for node in modules]
    imports = [line for line in chosen if line]
    body = [b"\n".join(lines[first - 1 : last]).decode("utf-8", "replace")]
    head = [f"class {owner.name}({', '.join(map(ast.unparse, owner.bases))}):"] if owner else []
    text = printable("\n".join([*imports, *([""] if imports else []), *head, *body]))
    return text if len(text) <= CHARACTERS else None


def _import(node: ast.Import | ast.ImportFrom, used: set[str]) -> str | None:
    """The import, of those names only that are used; None where none is."""
    names = [a for a in node.names if (a.asname or a.name.split(".")[0]) in used]
    if not names:
        return None
    shown = ", ".join(f"{a.name} as {a.asname}" if a.asname else a.name for a in names)
    if isinstance(node, ast.Import):
        return f"import {shown}"
    return f"from {'.' * node.level}{node.module or ''} import {shown}"
