"""Marks: places in a Python text that a fix has no reason to bring. Screening compares them with those of Base.

Each detector lies in a file of its own and yields marks; `hard` ones make a patch FORBIDDEN, the others are findings.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from execcritic_scaffold import detection, equality, leaving, reaching, syntax
from execcritic_scaffold.mark import Mark
from execcritic_scaffold.reading import Reading

_UNREADABLE = Mark("SOURCE_UNREADABLE", "the source cannot be read as Python, so it was not looked at", 1, False)


def marks(text: bytes, path: str, own: frozenset[str]) -> list[Mark]:
    """Every mark of the text. `own`: the repository's importable names.

    Text that is no Python, or nested deeper than can be read, is itself a mark.
    """
    module = syntax.parse(text)
    if module is None:
        return [_UNREADABLE]
    try:
        return list(_marks(module, path, own))
    except RecursionError:
        return [_UNREADABLE]


def _marks(module: ast.Module, path: str, own: frozenset[str]) -> Iterator[Mark]:
    reading = Reading(module)
    imported = {id(n) for n in syntax.at_import(module)} if _is_imported(path) else set()
    prose = {id(n.value) for n in reading.nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    for node in reading.nodes:
        if id(node) in prose:
            continue
        at_import = id(node) in imported
        yield from leaving.marks(node, reading, at_import)
        yield from reaching.marks(node, reading, own, at_import)
        yield from detection.marks(node, reading)
        yield from equality.marks(node, reading)


def _is_imported(path: str) -> bool:
    """Scripts may leave when they are run; the runner does not import them."""
    return path.rsplit("/", 1)[-1] not in ("__main__.py", "setup.py")
