"""Operators on constants, defaults, slices and names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from execcritic_training.factory.operators.text import Edit, Source


def off_by_one(node: ast.AST, source: Source) -> Iterator[Edit]:
    """A number one higher, or one lower."""
    if not isinstance(node, ast.Constant) or _is_default(node, source):
        return
    if type(node.value) is int and source.text(node).isdigit():
        yield source.replace(node, b"%d" % (node.value + 1))
        if node.value > 0:
            yield source.replace(node, b"%d" % (node.value - 1))


def flag(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`False` for `True` and back."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool) and not _is_default(node, source):
        yield source.replace(node, repr(not node.value).encode())


def text(node: ast.AST, source: Source) -> Iterator[Edit]:
    """A short text without its last character; docstrings are left alone."""
    if not isinstance(node, ast.Constant) or _is_default(node, source) or _is_docstring(node, source):
        return
    if isinstance(node.value, str) and 0 < len(node.value) <= 20:
        yield source.replace(node, repr(node.value[:-1]).encode())


def default(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Another default of a parameter."""
    if not isinstance(node, ast.Constant) or not _is_default(node, source):
        return
    value = node.value
    if isinstance(value, bool):
        yield source.replace(node, repr(not value).encode())
    elif isinstance(value, int):
        yield source.replace(node, repr(value + 1).encode())
    elif isinstance(value, str):
        yield source.replace(node, repr(value[:-1] if value else " ").encode())
    elif value is None:
        yield source.replace(node, b"0")


def slice_bound(node: ast.AST, source: Source) -> Iterator[Edit]:
    """A slice without its lower or its upper bound, or with a bound one further."""
    if isinstance(node, ast.Slice):
        for bound in (node.lower, node.upper):
            if bound is not None:
                yield source.replace(bound, b"")
                yield source.replace(bound, b"(" + source.text(bound) + b") + 1")


def variable(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Another parameter of the function in the place of one."""
    arguments = source.function.args
    names = [a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
    names = [name for name in names if name not in ("self", "cls")]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        for name in names:
            if name != node.id:
                yield source.replace(node, name.encode())


def _is_default(node: ast.expr, source: Source) -> bool:
    arguments = source.function.args
    return any(node is default for default in [*arguments.defaults, *arguments.kw_defaults])


def _is_docstring(node: ast.expr, source: Source) -> bool:
    return any(isinstance(found, ast.Expr) and found.value is node for found in ast.walk(source.function))
