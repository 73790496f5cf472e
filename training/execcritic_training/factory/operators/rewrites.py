"""Rewrites that ought to change nothing: candidates that may well be right. The tests decide."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from execcritic_training.factory.operators.text import Edit, Source

_MIRRORED = {ast.Eq: b"==", ast.NotEq: b"!=", ast.Lt: b">", ast.LtE: b">=", ast.Gt: b"<", ast.GtE: b"<="}


def mirrored(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`b > a` for `a < b`."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _MIRRORED:
        right, left = source.text(node.comparators[0]), source.text(node.left)
        yield source.replace(node, b"(%b) %b (%b)" % (right, _MIRRORED[type(node.ops[0])], left))


def doubly_negated(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`if not not c` for `if c`."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield source.replace(node.test, b"not (not (" + source.text(node.test) + b"))")


def named_result(node: ast.AST, source: Source) -> Iterator[Edit]:
    """What is returned gets a name first."""
    if isinstance(node, ast.Return) and node.value is not None:
        start = source.start(node)
        indent = source.data[source.data.rfind(b"\n", 0, start) + 1 : start]
        if not indent.strip():
            value = source.text(node).removeprefix(b"return").strip()
            yield source.replace(node, b"result = (" + value + b")\n" + indent + b"return result")


def unfolded(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`a = a + b` for `a += b`, where `a` is a number or a text."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and isinstance(node.op, ast.Add):
        name = source.text(node.target)
        yield source.replace(node, b"%b = %b + (%b)" % (name, name, source.text(node.value)))
