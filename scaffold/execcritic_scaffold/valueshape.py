"""Does a failing expression of a test consume a value that source under test returned? (HARNESS B3, `value-shape`)

`result = parse(text)` and then `result.name` on a None is the defect showing itself one step late; `reslt.name` is
a mistake of the test. The test's text is read with `ast`, never executed: a name counts as *derived* when it was
bound, at the latest on the failing line, from a call of something imported from the repository, of a fixture or
argument, of `self`, or of something derived; the failure counts when the faulting expression uses a derived name or
makes such a call itself. A helper of the test's file counts as what it calls, its arguments as what it was given.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from execcritic_scaffold.outcome import Failure, Frame
from execcritic_scaffold.syntax import Function, parse

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
# A call that never began returned nothing that could be consumed.
_BINDING = re.compile(
    r"missing \d+ required|takes .*(?:positional )?arguments?\b|takes no arguments"
    r"|unexpected keyword argument|multiple values for|expected (?:at (?:most|least) )?\d+ arguments?"
)


def consumes_result(failure: Failure, frame: Frame, text: bytes, tops: Iterable[str]) -> bool:
    """True when the failure in the test's own frame is such a one. `tops`: the repository's top-level names.

    False for text that does not parse.
    """
    if not failure.is_a(*CONSUMING):
        return False
    if failure.is_a("builtins.TypeError") and _BINDING.search(failure.message):
        return False
    if failure.is_a("builtins.AttributeError") and failure.message.startswith("module '"):
        return False
    module = parse(text)
    return module is not None and _Derivation(module, set(tops)).at(failure, frame, called=False)


def concerns_source(failure: Failure, frame: Frame, text: bytes, tops: Iterable[str]) -> bool:
    """Whether the faulting expression reaches for something of the repository itself: an attribute of what is
    imported from it or made by it, a keyword of a call of either. False for text that does not parse."""
    module = parse(text)
    return module is not None and _Derivation(module, set(tops)).at(failure, frame, called=True)


class _Derivation:
    """Which names of a test's file stand for source under test (`callables`) or for what it returned (`values`)."""

    def __init__(self, module: ast.Module, tops: set[str]) -> None:
        self.module = module
        self.imported = _imported(module, tops)
        self.callables = self.imported | {"self", "cls"}
        self.values: set[str] = set()
        top = [n for s in module.body if not isinstance(s, Function | ast.ClassDef) for n in ast.walk(s)]
        self._helpers()
        for node in _ordered(top):
            self._bind(node)

    def at(self, failure: Failure, frame: Frame, called: bool) -> bool:
        """Whether the expression that failed in this frame consumes (or, for `called`, reaches into) such a name."""
        known = self.callables  # what the test itself is given: fixtures, which can be asked for things
        for place in [f for f in failure.frames if f.inside and f.path == frame.path] or [frame]:
            function = _enclosing(self.module, place.line)
            if function is None:
                continue
            known |= _arguments(function)
            for node in _ordered(n for n in ast.walk(function) if getattr(n, "lineno", place.line + 1) <= place.line):
                self._bind(node)
            known = self.values if self._given_derived(function, place) else set()
        within = _enclosing(self.module, frame.line)
        if within is None and not called:
            return False
        faulting = _faulting(within or self.module, frame)
        return any(self._reaches(n) if called else self.uses(n) for n in faulting)

    def uses(self, node: ast.AST) -> bool:
        """Whether an expression holds a derived value or a call of something that makes one."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load) and inner.id in self.values:
                return True
            if isinstance(inner, ast.Call) and _root(inner.func) in self.callables | self.values:
                return True
        return False

    def _reaches(self, node: ast.AST) -> bool:
        known = self.callables | self.values
        if isinstance(node, ast.Call | ast.Attribute):
            return _root(node) in known
        return any(_root(n) in known for n in ast.walk(node) if isinstance(n, ast.Call | ast.Attribute))

    def _given_derived(self, function: Function, place: Frame) -> bool:
        """Whether the call that led out of `function` handed something derived on."""
        calls = [n for f in _faulting(function, place) for n in ast.walk(f) if isinstance(n, ast.Call)]
        return any(self.uses(a) for c in calls for a in [*c.args, *(k.value for k in c.keywords)]) or any(
            _root(c.func) in ("self", "cls") for c in calls
        )

    def _helpers(self) -> None:
        """Functions and classes of the file that use source are as good as it."""
        made = [n for n in self.module.body if isinstance(n, Function | ast.ClassDef)]
        while more := {n.name for n in made if n.name not in self.callables and self.uses(n)}:
            self.callables |= more

    def _bind(self, node: ast.AST) -> None:
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
        if self.uses(value):
            self.values |= {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}


def _enclosing(module: ast.Module, line: int) -> Function | None:
    around = [n for n in ast.walk(module) if isinstance(n, Function) and n.lineno <= line <= (n.end_lineno or n.lineno)]
    return max(around, key=lambda n: n.lineno, default=None)


def _imported(module: ast.Module, tops: set[str]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            if node.level or (node.module or "").split(".")[0] in tops:
                names |= {a.asname or a.name for a in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.asname or a.name.split(".")[0] for a in node.names if a.name.split(".")[0] in tops}
    return names


def _arguments(function: Function) -> set[str]:
    spec = function.args
    return {a.arg for a in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]}


def _ordered(nodes: Iterable[ast.AST]) -> list[ast.AST]:
    return sorted(nodes, key=lambda n: (getattr(n, "lineno", 0), getattr(n, "col_offset", 0)))


def _root(node: ast.AST) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _faulting(function: ast.AST, frame: Frame) -> Sequence[ast.AST]:
    """The expression the interpreter was evaluating where it says so, else the statements of that line."""
    on_line = [n for n in ast.walk(function) if isinstance(n, ast.expr) and n.lineno == frame.line]
    if frame.column is not None and frame.end_column is not None:
        exact = [n for n in on_line if (n.col_offset, n.end_col_offset) == (frame.column, frame.end_column)]
        # A target that cannot be unpacked into stands for the statement whose value it was given.
        if exact and not any(isinstance(getattr(n, "ctx", None), ast.Store) for n in exact):
            return exact
    statements = [
        n
        for n in ast.walk(function)
        if isinstance(n, ast.stmt)
        and not isinstance(n, Function | ast.ClassDef)
        and n.lineno <= frame.line <= (n.end_lineno or n.lineno)
    ]
    statements.sort(key=lambda n: (n.end_lineno or n.lineno) - n.lineno)
    return list(statements[:1]) or list(on_line)
