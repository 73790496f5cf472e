"""What asserts in a test: statements, framework calls, expecting contexts, and helpers of the same file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from execcritic_scaffold.syntax import Function, dotted

_EXPECTING = ("raises", "warns", "deprecated_call")
_TRUTHS = ("assertTrue", "assertFalse", "assertIsNotNone", "assertIsNone", "assert_")
_DEEPEST = 20
_MATCHERS = ("fnmatch_lines", "re_match_lines", "no_fnmatch_line", "no_re_match_line", "fail")


def asserting_calls(function: ast.AST) -> Iterator[ast.Call]:
    """Calls that assert: `self.assertX`, `assert_x`, `pytest.raises` and the like."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            name = last_name(node)
            if name.lower().startswith("assert") or name in _EXPECTING or name in _MATCHERS:
                yield node


def is_expecting(item: ast.withitem) -> bool:
    """A context that fails the test where its block raises or warns nothing."""
    call = item.context_expr
    return isinstance(call, ast.Call) and (
        last_name(call) in _EXPECTING or last_name(call).startswith(("assertRaises", "assertWarns"))
    )


def called_helpers(function: ast.AST, module: ast.Module | None) -> list[Function]:
    """Functions of the same file that this one calls, directly or through each other; itself left out."""
    if module is None:
        return []
    known = {n.name: n for n in ast.walk(module) if isinstance(n, Function)}
    found: dict[str, Function] = {}
    pending = [function]
    while pending:
        for node in ast.walk(pending.pop()):
            name = last_name(node) if isinstance(node, ast.Call) else ""
            helper = known.get(name)
            if helper is not None and helper is not function and name not in found:
                found[name] = helper
                pending.append(helper)
    return list(found.values())


def visible(function: Function, module: ast.Module | None = None) -> bool:
    """Whether the function, or a helper of its file that it calls, shows an assertion."""
    return any(
        any(isinstance(n, ast.Assert) for n in ast.walk(f)) or any(asserting_calls(f))
        for f in [function, *called_helpers(function, module)]
    )


def of_behaviour(function: Function, module: ast.Module | None = None, absent: bool = False) -> bool:
    """Whether an assertion asks for more than that something is there (`hasattr(m, "f")`, `callable(m.f)`).

    `absent`: what is asserted on was not there on Base, so that its being true (`assert f`) is no more than that.
    """
    for each in [function, *called_helpers(function, module)]:
        made = {n.id for n in ast.walk(each) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        made |= {a.arg for a in ast.walk(each) if isinstance(a, ast.arg)} - {"self", "cls"}
        asked = [n.test for n in ast.walk(each) if isinstance(n, ast.Assert)]
        for call in asserting_calls(each):
            if last_name(call) not in _TRUTHS or not call.args:
                return True
            asked.append(call.args[0])
        if not all(_is_presence(test, made, absent) for test in asked):
            return True
    return False


def last_name(call: ast.Call) -> str:
    """The last part of what is called, whatever it is called on."""
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else dotted(func)


def _is_presence(test: ast.expr, made: set[str], absent: bool, depth: int = 0) -> bool:
    if depth > _DEEPEST:
        return False
    if isinstance(test, ast.Constant):
        return True
    if isinstance(test, ast.Name | ast.Attribute):
        root = dotted(test).split(".")[0]
        return absent and root != "" and root not in made
    if isinstance(test, ast.Call):
        return dotted(test.func) in ("hasattr", "callable") or (absent and dotted(test.func) == "getattr")
    if isinstance(test, ast.UnaryOp):
        return _is_presence(test.operand, made, absent, depth + 1)
    if isinstance(test, ast.BoolOp):
        return all(_is_presence(v, made, absent, depth + 1) for v in test.values)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.IsNot):
        looked_up = isinstance(test.left, ast.Call) and dotted(test.left.func) == "getattr"
        nothing = all(isinstance(c, ast.Constant) and c.value is None for c in test.comparators)
        return nothing and (looked_up or _is_presence(test.left, made, absent, depth + 1))
    return False
