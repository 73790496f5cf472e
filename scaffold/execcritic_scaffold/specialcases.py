"""Source that branches on a value of the frozen test: the inputs recognised instead of the behaviour repaired."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.syntax import parse


def test_literals(bundle: FrozenBundle) -> frozenset[str]:
    """The distinctive literals of the frozen files, as `repr` has them."""
    found: set[str] = set()
    for path, file in bundle.changes.items():
        module = parse(file.data) if file is not None and path.endswith(".py") else None
        for node in ast.walk(module) if module else ():
            if isinstance(node, ast.Constant) and _distinctive(node.value):
                found.add(repr(node.value))
    return frozenset(found)


def special_cases(old: Iterable[bytes], new: bytes, literals: frozenset[str]) -> Iterator[tuple[int, object]]:
    """Line and value of comparisons of the new text, in none of the old ones, with one of the literals."""
    had = {repr(value) for text in old for _, value in _compared(text)}
    for line, value in _compared(new):
        if repr(value) in literals and repr(value) not in had:
            yield line, value


def _compared(text: bytes) -> Iterator[tuple[int, object]]:
    """Distinctive literals that code branches on: compared, matched, or looked up as keys; with their lines."""
    module = parse(text)
    for node in ast.walk(module) if module else ():
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Dict):
            parts = list(node.keys)
        for inner in (n for part in parts if part is not None for n in ast.walk(part)):
            if isinstance(inner, ast.Constant) and _distinctive(inner.value):
                yield inner.lineno, inner.value


def _distinctive(value: object) -> bool:
    """Worth noticing when it turns up twice: not 0, 1, True, a one-letter string."""
    if isinstance(value, str | bytes):
        return len(value) >= 3
    return isinstance(value, int | float | complex) and not isinstance(value, bool) and abs(value) > 2
