"""Source that imports a test: it reads what is expected, or changes it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from execcritic_scaffold.leaving import imported
from execcritic_scaffold.reading import IMPORTING, Reading
from execcritic_scaffold.syntax import parse


def test_imports(text: bytes, frozen: Collection[str], own: Collection[str]) -> Iterator[tuple[int, str]]:
    """Line and name of every import of a conftest or of a module in `frozen` (paths), by a statement or by a call.

    Which folder is on the import path is not known, so `tests/a/test_x.py` may be `test_x`, `a.test_x` or
    `tests.a.test_x`; but `django.db.models` is not `tests/a/models.py`, and a name in `own` is that module of the
    repository's top. Relative imports are left out: they are for the package that the tests exercise.
    """
    modules = [path.removesuffix(".py").removesuffix("/__init__") for path in frozen if path.endswith(".py")]
    names = {path.replace("/", ".") for path in modules}
    module = parse(text)
    reading = Reading(module) if module else None
    for node in reading.nodes if reading else ():
        found: list[str] = []
        if isinstance(node, ast.Import | ast.ImportFrom):
            found = imported(node)
        elif isinstance(node, ast.Call) and node.args and reading and reading.origin(node.func) in IMPORTING:
            found = [reading.text(node.args[0]) or ""]
        name = next((name for name in found if name and _is_one(name, names, own)), None)
        if name is not None:
            yield getattr(node, "lineno", 1), name


def _is_one(name: str, frozen: Collection[str], own: Collection[str]) -> bool:
    parts = name.split(".")
    if "conftest" in parts:
        return True
    starts = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    if any(start in frozen for start in starts):
        return True
    unclaimed = tuple(f".{start}" for start in starts if "." in start or start not in own)
    return any(path.endswith(unclaimed) for path in frozen)
