"""What two versions of a module have in common is taken out of both, so that only what differs has to be read.

Whole functions and classes at the top of the module whose text is the same become blank lines; everything else, imports
and assignments above all, stays, and so do line numbers.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter

from execcritic_scaffold import syntax

_Block = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def common_out(old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Both texts without their common blocks; as they are where one does not parse."""
    before, after = _blocks(old), _blocks(new)
    if before is None or after is None:
        return old, new
    shared = Counter(text for _, _, text in before) & Counter(text for _, _, text in after)
    return _blank(old, before, shared), _blank(new, after, shared)


@functools.lru_cache(maxsize=256)  # the same Base files come again at every check
def _blocks(data: bytes) -> list[tuple[int, int, bytes]] | None:
    """First line, last line and text of each block; lines as Python counts them."""
    module = syntax.parse(data)
    if module is None or b"\r" in data or b"\x0c" in data:
        return None
    lines = data.split(b"\n")
    found = []
    for node in module.body:
        if isinstance(node, _Block):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
            last = node.end_lineno or node.lineno
            found.append((first, last, b"\n".join(lines[first:last])))
    return found


def _blank(data: bytes, blocks: list[tuple[int, int, bytes]], shared: Counter[bytes]) -> bytes:
    left = Counter(shared)
    lines = data.split(b"\n")
    for first, last, text in blocks:
        if left[text] > 0:
            left[text] -= 1
            lines[first:last] = [b""] * (last - first)
    return b"\n".join(lines)
