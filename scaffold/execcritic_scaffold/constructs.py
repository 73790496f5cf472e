"""A5: what decides a test's outcome without the behaviour under test, read with `ast` and never executed.

Constant assertions, an unconditional failure or skip (in the test or in a helper of its file), a failure that is
swallowed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from execcritic_scaffold.assertions import asserting_calls, is_expecting
from execcritic_scaffold.qualification import Refusal
from execcritic_scaffold.syntax import Function, constant, dotted, literals, locate

_ENDINGS = (
    "pytest.fail",
    "pytest.skip",
    "pytest.xfail",
    "pytest.exit",
    "self.fail",
    "self.skipTest",
    "sys.exit",
    "exit",
)
_CATCH_ALL = ("AssertionError", "Exception", "BaseException")
_SILENT = ("print", "pass", "repr", "str")


@dataclass(frozen=True)
class Located:
    """A declared node's function in its file; `module` is the whole file, where it is known."""

    node: str
    path: str
    function: Function
    module: ast.Module | None = None


def hard(located: Located) -> Refusal | None:
    """Why this function can fail, pass or be skipped without the behaviour under test; None where it cannot."""
    where = f"{located.path}:{{line}}"
    function = located.function
    if ending := _ending(function, located.module, ()):
        line = where.format(line=ending[1])
        return Refusal(
            "CONSTANT_OUTCOME", f"{line}: the test {ending[0]}", "Assert on what the code under test returns or raises."
        )
    known = literals(function)
    asserts = [n for n in ast.walk(function) if isinstance(n, ast.Assert)]
    if asserts and all(constant(a.test, known) is not None for a in asserts) and not any(asserting_calls(function)):
        line = where.format(line=asserts[0].lineno)
        return Refusal(
            "CONSTANT_OUTCOME",
            f"{line}: the test asserts only constants",
            "Assert on what the code under test returns.",
        )
    for node in ast.walk(function):
        if isinstance(node, ast.Try) and _swallows(node, function):
            line = where.format(line=node.lineno)
            return Refusal(
                "SWALLOWED_FAILURE",
                f"{line}: a failing assertion would be caught and forgotten",
                "Let the assertion fail; use pytest.raises for an expected exception.",
            )
    return None


def _ending(function: Function, module: ast.Module | None, above: tuple[str, ...]) -> tuple[str, int] | None:
    """What ends the function whatever the code under test does, and the line where it does."""
    known = literals(function)
    for statement in _unconditional(function.body):
        if isinstance(statement, ast.Return):
            return None
        if isinstance(statement, ast.Raise):
            return "raises unconditionally", statement.lineno
        if isinstance(statement, ast.Assert) and constant(statement.test, known) is False:
            return "asserts a constant that is false", statement.lineno
        call = statement.value if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else None
        name = dotted(call.func) if call else ""
        if name in _ENDINGS:
            return f"calls {name} unconditionally", statement.lineno
        names = name.removeprefix("self.").split(".")
        helper = locate(module, names) if module and name and len(names) == 1 and name not in above else None
        if helper is not None and helper is not function and not helper.decorator_list:
            inner = _ending(helper, module, (*above, name))
            if inner:
                return f"calls {name}, which {inner[0]}", statement.lineno
    return None


def _unconditional(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run whenever the body does: also those of `with` blocks, and of `try` that catch nothing."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.With | ast.AsyncWith):
            if not any(is_expecting(i) or _suppresses(i) for i in statement.items):
                yield from _unconditional(statement.body)
        elif isinstance(statement, ast.Try):
            if not statement.handlers:
                yield from _unconditional(statement.body)
            yield from _unconditional(statement.finalbody)


def _suppresses(item: ast.withitem) -> bool:
    """A context that may be left by an exception without failing the test, as far as its name tells."""
    name = dotted(item.context_expr.func) if isinstance(item.context_expr, ast.Call) else dotted(item.context_expr)
    return any(word in name.lower() for word in ("suppress", "raise", "ignor", "expect"))


def _swallows(node: ast.Try, function: Function) -> bool:
    if not any(isinstance(n, ast.Assert) for statement in node.body for n in ast.walk(statement)):
        return False
    for handler in node.handlers:
        kinds = [handler.type] if not isinstance(handler.type, ast.Tuple) else handler.type.elts
        catches = handler.type is None or any(k is not None and dotted(k) in _CATCH_ALL for k in kinds)
        inner = [n for statement in handler.body for n in ast.walk(statement)]
        acts = any(
            isinstance(n, ast.Raise | ast.Assert) or (isinstance(n, ast.Call) and dotted(n.func) in _ENDINGS)
            for n in inner
        )
        if catches and not acts and not (_records(handler) and _asserts_after(function, node)):
            return True
    return False


def _records(handler: ast.ExceptHandler) -> bool:
    """The handler keeps something for later: it binds a name, or hands one to more than a print."""
    for statement in handler.body:
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
            return True
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            name = dotted(statement.value.func)
            if statement.value.args and name not in _SILENT and not name.startswith(("log", "warnings.")):
                return True
    return False


def _asserts_after(function: Function, node: ast.Try) -> bool:
    end = node.end_lineno or node.lineno
    later = [n for n in ast.walk(function) if getattr(n, "lineno", 0) > end]
    return any(isinstance(n, ast.Assert | ast.Raise) or any(asserting_calls(n)) for n in later)
