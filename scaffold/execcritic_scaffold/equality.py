"""Values that are equal to whatever a test compares them with."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from execcritic_scaffold.mark import Mark
from execcritic_scaffold.reading import Reading
from execcritic_scaffold.syntax import Function, constant, literals

COMPARISONS = frozenset(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__"))
_OF_VALUE = COMPARISONS | frozenset(
    """__add__ __radd__ __sub__ __rsub__ __abs__ __round__ __int__ __float__ __index__ __divmod__ __mod__""".split()
)
_OF_TYPES = COMPARISONS | {"__instancecheck__", "__subclasscheck__"}


def marks(node: ast.AST, reading: Reading) -> Iterator[Mark]:
    """Comparison methods whose every outcome is true, however they get into a class."""
    line = getattr(node, "lineno", 0)
    for name, value in _methods(node, reading):
        if name in COMPARISONS and _always_true(value):
            yield Mark("ALWAYS_EQUAL", f"{name} answers True whatever it is compared with", line, True)
        elif name in _OF_VALUE and isinstance(value, Function | ast.Lambda) and _forgets_itself(value):
            yield Mark("IGNORES_ITSELF", f"{name} does not look at the object itself", line, False)
    if isinstance(node, ast.ClassDef) and any(_is_type(reading.origin(base)) for base in node.bases):
        for inner in node.body:
            if isinstance(inner, Function) and inner.name in _OF_TYPES:
                text = f"a metaclass defines {inner.name}"
                yield Mark("COMPARES_CLASSES", text, inner.lineno, False)
    origin = reading.origin(node) if isinstance(node, ast.Attribute | ast.Name) else ""
    if origin in ("unittest.mock.ANY", "mock.ANY"):
        yield Mark("ALWAYS_EQUAL_VALUE", "source uses mock.ANY, which is equal to everything", line, False)


def _methods(node: ast.AST, reading: Reading) -> Iterator[tuple[str, ast.AST]]:
    """Names with what is bound to them: definitions, assignments, `setattr`, and the items of a dictionary."""
    if isinstance(node, Function):
        yield node.name, node
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name):
                yield target.id, node.value
            elif isinstance(target, ast.Attribute):
                yield target.attr, node.value
            elif isinstance(target, ast.Subscript):
                yield reading.text(target.slice) or "", node.value
    elif isinstance(node, ast.Call):
        if reading.origin(node.func) in ("builtins.setattr", "builtins.type.__setattr__") and len(node.args) == 3:
            yield reading.text(node.args[1]) or "", node.args[2]
        for keyword in node.keywords:
            yield keyword.arg or "", keyword.value
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            yield (reading.text(key) or "") if key is not None else "", value


def _is_type(origin: str) -> bool:
    name = origin.rsplit(".", 1)[-1]
    return origin == "builtins.type" or name.endswith(("Meta", "MetaClass", "Metaclass"))


def _always_true(node: ast.AST) -> bool:
    if isinstance(node, ast.Lambda):
        return _is_true(node.body, {}, _arguments(node.args))
    if not isinstance(node, Function):
        return False
    inner = [n for statement in node.body for n in ast.walk(statement)]
    returned = [n.value for n in inner if isinstance(n, ast.Return)]
    raises = any(isinstance(n, ast.Raise | ast.Yield) for n in inner)
    known, arguments = literals(node), _arguments(node.args)
    return bool(returned) and not raises and all(r and _is_true(r, known, arguments) for r in returned)


def _forgets_itself(node: Function | ast.Lambda) -> bool:
    """It may answer True, and never reads its first argument."""
    first = [*node.args.posonlyargs, *node.args.args][:1]
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    inner = [n for part in body for n in ast.walk(part)]
    values = [node.body] if isinstance(node, ast.Lambda) else [n.value for n in inner if isinstance(n, ast.Return)]
    never = [v is None or getattr(v, "value", 0) is False or getattr(v, "id", "") == "NotImplemented" for v in values]
    read = {n.id for n in inner if isinstance(n, ast.Name)}
    return bool(first) and not all(never) and first[0].arg not in read and "super" not in read


def _is_true(value: ast.expr, known: dict[str, ast.expr], arguments: set[str]) -> bool:
    """True as a constant, or as a comparison of an argument with a literal that only that literal fails."""
    if constant(value, known):
        return True
    if isinstance(value, ast.Compare) and len(value.ops) == 1 and isinstance(value.ops[0], ast.IsNot | ast.NotEq):
        sides = [value.left, value.comparators[0]]
        named = [s for s in sides if isinstance(s, ast.Name) and s.id in arguments]
        return len(named) == 1 and any(isinstance(s, ast.Constant) for s in sides)
    return False


def _arguments(spec: ast.arguments) -> set[str]:
    return {a.arg for a in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]}
