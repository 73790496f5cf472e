"""Operators on comparisons, conditions and what is computed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from execcritic_training.factory.operators.text import Edit, Source

Table = Mapping[type[ast.AST], tuple[bytes, bytes]]

_OPPOSITE: Table = {
    ast.Eq: (b"==", b"!="),
    ast.NotEq: (b"!=", b"=="),
    ast.In: (b"in", b"not in"),
    ast.NotIn: (b"not in", b"in"),
    ast.Is: (b"is", b"is not"),
    ast.IsNot: (b"is not", b"is"),
}
_BOUNDARY: Table = {
    ast.Lt: (b"<", b"<="),
    ast.LtE: (b"<=", b"<"),
    ast.Gt: (b">", b">="),
    ast.GtE: (b">=", b">"),
}
_DIRECTION: Table = {
    ast.Lt: (b"<", b">"),
    ast.LtE: (b"<=", b">="),
    ast.Gt: (b">", b"<"),
    ast.GtE: (b">=", b"<="),
}
_ARITHMETIC: Table = {
    ast.Add: (b"+", b"-"),
    ast.Sub: (b"-", b"+"),
    ast.Mult: (b"*", b"+"),
    ast.Div: (b"/", b"*"),
    ast.FloorDiv: (b"//", b"/"),
    ast.Mod: (b"%", b"//"),
    ast.Pow: (b"**", b"*"),
    ast.BitAnd: (b"&", b"|"),
    ast.BitOr: (b"|", b"&"),
    ast.LShift: (b"<<", b">>"),
    ast.RShift: (b">>", b"<<"),
}


def _compared(node: ast.AST, source: Source, table: Table) -> Iterator[Edit]:
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for number, op in enumerate(node.ops):
            if type(op) in table:
                yield from source.between(operands[number], operands[number + 1], *table[type(op)])


def comparison(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`==` for `!=`, `in` for `not in`, `is` for `is not`, and back."""
    return _compared(node, source, _OPPOSITE)


def boundary(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`<` for `<=`, `>` for `>=`, and back."""
    return _compared(node, source, _BOUNDARY)


def direction(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`<` for `>` and back."""
    return _compared(node, source, _DIRECTION)


def arithmetic(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Another arithmetic or bit operator; texts are left alone."""
    if not isinstance(node, ast.BinOp) or type(node.op) not in _ARITHMETIC:
        return
    if not any(_is_text(side) for side in (node.left, node.right)):
        yield from source.between(node.left, node.right, *_ARITHMETIC[type(node.op)])


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def augmented(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`-=` for `+=` and the like; a plain assignment for what has no opposite."""
    if isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        old, new = _ARITHMETIC[type(node.op)]
        other = new + b"=" if isinstance(node.op, ast.Add | ast.Sub | ast.BitAnd | ast.BitOr) else b"="
        yield from source.between(node.target, node.value, old + b"=", other)


def connective(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`and` for `or` and back; one of several, so that it still stands without brackets."""
    if isinstance(node, ast.BoolOp):
        old, new = (b"and", b"or") if isinstance(node.op, ast.And) else (b"or", b"and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from source.between(left, right, old, new)


def operand(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`a` for `a or b`: the last operand is missing."""
    if isinstance(node, ast.BoolOp):
        yield source.replace(node, source.data[source.start(node.values[0]) : source.end(node.values[-2])])


def negation(node: ast.AST, source: Source) -> Iterator[Edit]:
    """A condition turned round: `not` put before it, or taken away."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        if isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not):
            yield source.replace(node.test, source.text(node.test.operand))
        else:
            yield source.replace(node.test, b"not (" + source.text(node.test) + b")")


def ternary(node: ast.AST, source: Source) -> Iterator[Edit]:
    """`b if c else a` for `a if c else b`."""
    if isinstance(node, ast.IfExp):
        parts = source.text(node.orelse), source.text(node.test), source.text(node.body)
        yield source.replace(node, b"(%b) if (%b) else (%b)" % parts)
