"""Does a failing expression of a test consume a value that source under test returned? (HARNESS B3, `value-shape`)

`result = parse(text)` and then `result.name` on a None is the defect showing itself one step late; `reslt.name` is
a mistake of the test. The test's text is read with `ast`, never executed: a name counts as *derived* when it was
bound, at the latest on the failing line, from a call of something imported from the repository, of a fixture or
argument, of `self`, or of something derived; the failure counts when the faulting expression uses a derived name or
makes such a call itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from execcritic_scaffold.outcome import Failure, Frame

# What consuming a value of the wrong kind raises. Everything else in a test body is the test's own mistake.
CONSUMING = (
    "builtins.AttributeError",
    "builtins.TypeError",
    "builtins.KeyError",
    "builtins.IndexError",
    "builtins.LookupError",
    "builtins.ValueError",
    "builtins.StopIteration",
    "builtins.ArithmeticError",
    "builtins.RecursionError",
)


def consumes_result(failure: Failure, frame: Frame, text: bytes, tops: Iterable[str]) -> bool:
    """True when the failure in the test's own frame is such a one. `tops`: the repository's top-level names.

    False for text that does not parse.
    """
    if not failure.is_a(*CONSUMING):
        return False
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    function = _enclosing(module, frame.line)
    if function is None:
        return False
    derived = _imported(module, set(tops)) | _arguments(function) | {"self", "cls"}
    callables = set(derived)
    values: set[str] = set()
    for statement in _before(function, frame.line):
        _bind(statement, callables, values, frame.line)
    return any(_uses(node, callables, values) for node in _faulting(function, frame))


def _enclosing(module: ast.Module, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    found: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    for node in ast.walk(module):
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
            node.lineno <= line <= (node.end_lineno or node.lineno)
        )
        if inside and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            outer = found is None or node.lineno >= found.lineno
            found = node if outer else found
    return found


def _imported(module: ast.Module, tops: set[str]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            if node.level or (node.module or "").split(".")[0] in tops:
                names |= {a.asname or a.name for a in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.asname or a.name.split(".")[0] for a in node.names if a.name.split(".")[0] in tops}
    return names


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    spec = function.args
    return {a.arg for a in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]}


def _before(function: ast.AST, line: int) -> list[ast.AST]:
    nodes = [n for n in ast.walk(function) if getattr(n, "lineno", line + 1) <= line]
    return sorted(nodes, key=lambda n: (getattr(n, "lineno", 0), getattr(n, "col_offset", 0)))


def _bind(node: ast.AST, callables: set[str], values: set[str], line: int) -> None:
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
        targets, value = [node.target], node.value
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        targets, value = [node.target], node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        targets, value = [node.optional_vars], node.context_expr
    else:
        return
    if not _uses(value, callables, values):
        return
    for target in targets:
        values |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}


def _uses(node: ast.AST, callables: set[str], values: set[str]) -> bool:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load) and inner.id in values:
            return True
        if isinstance(inner, ast.Call) and _root(inner.func) in callables | values:
            return True
    return False


def _root(node: ast.AST) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _faulting(function: ast.AST, frame: Frame) -> list[ast.AST]:
    """The expression the interpreter was evaluating where it says so, else the statements of that line."""
    on_line = [n for n in ast.walk(function) if isinstance(n, ast.expr) and n.lineno == frame.line]
    if frame.column is not None and frame.end_column is not None:
        exact = [n for n in on_line if (n.col_offset, n.end_col_offset) == (frame.column, frame.end_column)]
        if exact:
            return list(exact)
    statements = [
        n
        for n in ast.walk(function)
        if isinstance(n, ast.stmt)
        and not isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and n.lineno <= frame.line <= (n.end_lineno or n.lineno)
    ]
    statements.sort(key=lambda n: (n.end_lineno or n.lineno) - n.lineno)
    return list(statements[:1]) or list(on_line)
