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
    """An `if` that has no other branch is left out, or an `else`."""
    for one, alone in _statements(node):
        if isinstance(one, ast.If) and not _is_pass(one.body):
            if not one.orelse:
                yield _left_out(one, alone, source)
            elif not isinstance(one.orelse[0], ast.If):
                yield Edit(source.end(one.body[-1]), source.end(one.orelse[-1]), b"")


def dropped_statement(node: ast.AST, source: Source) -> Iterator[Edit]:
    """A call made for its effect, or a change of an attribute, an item or a sum, is left out."""
    for one, alone in _statements(node):
        call = isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)
        inside = isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Attribute | ast.Subscript)
        if call or inside or isinstance(one, ast.AugAssign | ast.Delete):
            yield _left_out(one, alone, source)


def _statements(node: ast.AST) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements right inside a node, and whether one is alone in its block."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            yield from ((one, len(block) == 1) for one in block if isinstance(one, ast.stmt))


def _left_out(node: ast.stmt, alone: bool, source: Source) -> Edit:
    """Without a trace where it can be; a block needs a statement, and a line may hold several."""
    start, end = source.start(node), source.end(node)
    first = source.data.rfind(b"\n", 0, start) + 1
    last = source.data.find(b"\n", end) + 1
    if alone or not last or (source.data[first:start] + source.data[end:last]).strip():
        return Edit(start, end, b"pass")
    return Edit(first, last, b"")


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
