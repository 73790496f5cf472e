"""Operators on statements: branches, steps and exceptions that are missing or others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from execcritic_training.factory.operators.text import Edit, Source

_OTHER_EXCEPTION = {
    "ValueError": b"TypeError", "TypeError": b"ValueError", "KeyError": b"IndexError", "IndexError": b"KeyError",
    "AttributeError": b"KeyError", "StopIteration": b"ValueError", "RuntimeError": b"ValueError",
    "OverflowError": b"ValueError", "NotImplementedError": b"ValueError", "ZeroDivisionError": b"ValueError",
}  # fmt: skip


def missing_branch(node: ast.AST, source: Source) -> Iterator[Edit]:
    """The body of an `if` that has no other branch, or of an `else`, does nothing."""
    if isinstance(node, ast.If):
        chained = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
        if not node.orelse and not _is_pass(node.body):
            yield source.block(node.body, b"pass")
        elif node.orelse and not chained and not _is_pass(node.orelse):
            yield source.block(node.orelse, b"pass")


def dropped_statement(node: ast.AST, source: Source) -> Iterator[Edit]:
    """A call made for its effect, or a change of an attribute, an item or a sum, is left out."""
    if (
        (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
        or isinstance(node, ast.AugAssign | ast.Delete)
        or (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript))
    ):
        yield source.replace(node, b"pass")


def returned(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Nothing is returned, or the opposite of a condition."""
    if isinstance(node, ast.Return) and node.value is not None:
        if isinstance(node.value, ast.Compare | ast.BoolOp):
            yield source.replace(node.value, b"not (" + source.text(node.value) + b")")
        elif not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield source.replace(node.value, b"None")


def exception(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Another exception is raised, or caught."""
    raised = node.exc if isinstance(node, ast.Raise) else node.type if isinstance(node, ast.ExceptHandler) else None
    named = raised.func if isinstance(raised, ast.Call) else raised
    for name in named.elts if isinstance(named, ast.Tuple) else [named]:
        if isinstance(name, ast.Name) and name.id in _OTHER_EXCEPTION:
            yield source.replace(name, _OTHER_EXCEPTION[name.id])


def loop_exit(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`break` for `continue` and back."""
    if isinstance(node, ast.Break | ast.Continue):
        yield source.replace(node, b"continue" if isinstance(node, ast.Break) else b"break")


def _is_pass(body: list[ast.stmt]) -> bool:
    return all(isinstance(one, ast.Pass) for one in body)
