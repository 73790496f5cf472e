"""Reading Python text with `ast`, never executing it: what the static rules share."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST = 60
_OPERATORS: Mapping[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.Is: operator.eq,
    ast.NotEq: operator.ne,
    ast.IsNot: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


def parse(text: bytes) -> ast.Module | None:
    """None for text that is no Python, or that is nested too deep to be read."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def same_code(old: bytes, new: bytes) -> bool:
    """Whether two texts parse to the same code; False where that cannot be told."""
    before, after = parse(old), parse(new)
    try:
        return before is not None and after is not None and ast.dump(before) == ast.dump(after)
    except RecursionError:
        return False


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


def at_import(module: ast.Module) -> Iterator[ast.AST]:
    """Nodes that run while the module is imported: not the bodies of functions, not the `__main__` block."""
    stack: list[ast.AST] = list(module.body)
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.Lambda | Function):
            stack += [d for d in [*node.args.defaults, *node.args.kw_defaults] if d is not None]
            if isinstance(node, Function):
                annotations = [a.annotation for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]
                stack += [*node.decorator_list, *(a for a in [*annotations, node.returns] if a is not None)]
        elif isinstance(node, ast.If) and _is_main(node.test):
            stack += node.orelse
        else:
            stack += list(ast.iter_child_nodes(node))


def _is_main(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq) or len(test.ops) > 1:
        return False
    sides = [test.left, test.comparators[0]]
    return any(isinstance(s, ast.Name) and s.id == "__name__" for s in sides) and any(
        isinstance(s, ast.Constant) and s.value == "__main__" for s in sides
    )


def literals(function: Function) -> dict[str, ast.expr]:
    """Local names that are bound exactly once, to a literal."""
    bound: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            bound.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.arg):
            bound.setdefault(node.arg, []).append(None)
    stored = [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    once = {n: v[0] for n, v in bound.items() if len(v) == 1 and stored.count(n) == 1}
    return {n: v for n, v in once.items() if v is not None and isinstance(v, ast.Constant)}


def constant(node: ast.expr, known: Mapping[str, ast.expr] | None = None, depth: int = 0) -> bool | None:
    """The truth of an expression that depends on literals only (`known`: names that stand for one); None for any
    other."""
    known = known or {}
    if depth > _DEEPEST:
        return None
    if isinstance(node, ast.Name) and node.id in known:
        return constant(known[node.id], {}, depth + 1)
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return bool(node.elts) if not any(isinstance(e, ast.Starred) for e in node.elts) else None
    if isinstance(node, ast.Dict):
        return bool(node.keys) if None not in node.keys else None
    if isinstance(node, ast.Lambda):
        return True
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = constant(node.operand, known, depth + 1)
        return None if value is None else not value
    if isinstance(node, ast.BoolOp):
        values = [constant(v, known, depth + 1) for v in node.values]
        decisive = isinstance(node.op, ast.Or)
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node.left, node.ops[0], node.comparators[0], known)
    return None


def _compared(left: ast.expr, how: ast.cmpop, right: ast.expr, known: Mapping[str, ast.expr]) -> bool | None:
    if any(_is_fresh(side) for side in (left, right)) and not isinstance(how, ast.In | ast.NotIn):
        return {ast.Eq: False, ast.Is: False, ast.NotEq: True, ast.IsNot: True}.get(type(how))
    one, other = (known.get(s.id, s) if isinstance(s, ast.Name) else s for s in (left, right))
    try:
        return bool(_OPERATORS[type(how)](ast.literal_eval(one), ast.literal_eval(other)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _is_fresh(node: ast.expr) -> bool:
    """`object()` is equal to nothing else."""
    return isinstance(node, ast.Call) and dotted(node.func) == "object" and not node.args


def dotted(node: ast.AST) -> str:
    """`a.b.c` of nested attributes, "" for anything else at the root."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
