"""Reading Python text with `ast`, never executing it: what the static rules share."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parse(text: bytes) -> ast.Module | None:
    """None for text that is no Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def functions(module: ast.Module) -> Iterator[tuple[tuple[str, ...], Function]]:
    """Every function at module or class level with the names of the classes around it."""
    stack: list[tuple[tuple[str, ...], ast.AST]] = [((), module)]
    while stack:
        owner, node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield owner, child
            elif isinstance(child, ast.ClassDef):
                stack.append(((*owner, child.name), child))
            elif isinstance(child, ast.If | ast.Try | ast.With):
                stack.append((owner, child))


def locate(module: ast.Module, names: Sequence[str]) -> Function | None:
    """The function with this chain of names (`Class`, `method`), or the only one with the last name."""
    if not names:
        return None
    found = [f for owner, f in functions(module) if (*owner, f.name)[-len(names) :] == tuple(names)]
    found = found or [f for _, f in functions(module) if f.name == names[-1]]
    return found[-1] if found else None


def constant(node: ast.expr) -> bool | None:
    """The truth of an expression made of literals only; None for any other."""
    if any(isinstance(n, ast.Name | ast.Call | ast.Attribute | ast.Subscript | ast.Await) for n in ast.walk(node)):
        return None
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = constant(node.operand)
        return None if value is None else not value
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.Is | ast.NotEq):
        try:
            same = bool(ast.literal_eval(node.left) == ast.literal_eval(node.comparators[0]))
        except (ValueError, TypeError):
            return None
        return same if not isinstance(node.ops[0], ast.NotEq) else not same
    return None


def dotted(node: ast.AST) -> str:
    """`a.b.c` of nested attributes, "" for anything else at the root."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
