"""Test files rewritten for a second look: read with `ast`, turned, written out again. Nothing is executed here."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from execcritic_scaffold import syntax
from execcritic_scaffold.files import Changes, File


def rewritten(changes: Changes, paths: Iterable[str], turn: Callable[[ast.Module], ast.Module]) -> Changes | None:
    """The same changes with these files turned; None where one is missing, is no Python, or nests too deeply."""
    out = dict(changes)
    for path in paths:
        file = changes.get(path)
        module = syntax.parse(file.data) if file else None
        if file is None or module is None:
            return None
        try:
            text = ast.unparse(ast.fix_missing_locations(turn(module)))
        except RecursionError:
            return None
        out[path] = File(text.encode("utf-8", "surrogateescape") + b"\n", file.mode)
    return out
