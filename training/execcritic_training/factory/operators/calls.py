"""Operators on calls: their arguments, and calls that are missing or another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from execcritic_training.factory.operators.text import Edit, Source

_WRAPPERS = frozenset("list tuple sorted set frozenset str int float bool abs reversed iter dict".split())
_OPPOSITE = {
    b"min": b"max", b"any": b"all", b"startswith": b"endswith", b"lstrip": b"rstrip", b"lower": b"upper",
    b"append": b"extend", b"find": b"rfind", b"floor": b"ceil", b"split": b"rsplit", b"partition": b"rpartition",
    b"union": b"intersection", b"index": b"rindex", b"update": b"setdefault",
}  # fmt: skip
_OPPOSITE |= {other: one for one, other in _OPPOSITE.items()}


def swapped_arguments(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Two neighbouring positional arguments in each other's place."""
    if isinstance(node, ast.Call):
        for one, other in zip(node.args, node.args[1:], strict=False):
            if not isinstance(one, ast.Starred) and not isinstance(other, ast.Starred):
                gap = source.data[source.end(one) : source.start(other)]
                yield Edit(source.start(one), source.end(other), source.text(other) + gap + source.text(one))


def dropped_argument(node: ast.AST, source: Source) -> Iterator[Edit]:
    """The last of several arguments is not handed over."""
    if isinstance(node, ast.Call):
        given: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        given.sort(key=source.start)
        if len(given) > 1:
            yield Edit(source.end(given[-2]), source.end(given[-1]), b"")


def dropped_call(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`x` for `list(x)` or for `x.strip()`."""
    if isinstance(node, ast.Call) and not node.keywords:
        if isinstance(node.func, ast.Name) and node.func.id in _WRAPPERS and len(node.args) == 1:
            yield source.replace(node, b"(" + source.text(node.args[0]) + b")")
        elif isinstance(node.func, ast.Attribute) and not node.args:
            yield source.replace(node, source.text(node.func.value))


def opposite_call(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`max` for `min`, `endswith` for `startswith` and the like."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        name = (node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id).encode()
        end = source.end(node.func)
        if name in _OPPOSITE and source.data[end - len(name) : end] == name:
            yield Edit(end - len(name), end, _OPPOSITE[name])


def dropped_filter(node: ast.AST, source: Source) -> Iterator[Edit]:
    """A comprehension without its condition."""
    if isinstance(node, ast.comprehension):
        for condition in node.ifs:
            yield source.replace(condition, b"True")
