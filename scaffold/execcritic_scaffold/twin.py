"""The inverted twin: the frozen test with its assertions falsified must fail where the real one passes (HARNESS 3.4).

Code under test runs in the process of the tests and can reach whatever reports them. A patch that makes tests pass by
rewriting outcomes, assertion methods or equality makes the twin pass as well, unless it reads the test's text to tell
the two apart. So a second look is taken: same path, same node ids, every assertion turned so that it fails exactly
when the original holds. `a == b` becomes a comparison of each side with a fresh object, and with another value of the
other side's type: what is equal to one of those is equal to everything, or to everything of a type.

Only text is rewritten, with `ast`; nothing is executed here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from execcritic_scaffold import syntax
from execcritic_scaffold.files import Changes
from execcritic_scaffold.rewriting import rewritten
from execcritic_scaffold.syntax import Function

_STRANGER = "_execcritic_stranger"
_NEVER = "_execcritic_never"
_EITHER = "_execcritic_either"
_EQUAL = "_execcritic_equal"
_INSIDE = "_execcritic_inside"
_PRELUDE = f"""
{_STRANGER} = object()
class {_NEVER}(Warning):
    pass
def _execcritic_other(value):
    kind = type(value)
    if kind is bool:
        return not value
    if kind in (int, float, complex):
        other = value * 2 + 7919
    elif kind in (str, bytes):
        other = value + (b"~" if kind is bytes else "~")
    elif kind in (list, tuple):
        other = value + kind([{_STRANGER}])
    elif kind in (set, frozenset):
        other = value | {{{_STRANGER}}}
    elif kind is dict:
        other = {{**value, {_STRANGER}: 0}}
    else:
        return {_STRANGER}
    return {_STRANGER} if other == value or other != other else other
def {_EITHER}(check, one, two, *more, **named):
    other = _execcritic_other
    for left, right in ((one, other(two)), (other(one), two), (one, {_STRANGER}), ({_STRANGER}, two)):
        try:
            check(left, right, *more, **named)
        except Exception:
            continue
        return True
    raise AssertionError("neither is equal to something else")
def _execcritic_hold(left, right):
    if not left == right:
        raise AssertionError
def _execcritic_hold_in(left, right):
    if left not in right:
        raise AssertionError
def {_EQUAL}(one, two):
    return {_EITHER}(_execcritic_hold, one, two)
def {_INSIDE}(one, many):
    plain = type(many) in (list, tuple, set, frozenset)
    others = [other for other in map(_execcritic_other, many) if other not in many] if plain else []
    for left, right in ((one, others), ({_STRANGER}, many), (one, [{_STRANGER}])):
        try:
            _execcritic_hold_in(left, right)
        except Exception:
            continue
        return True
    raise AssertionError("it holds nothing else")
"""
_EXPECTING = ("raises", "warns", "assertRaises", "assertWarns", "assertRaisesRegex", "assertWarnsRegex")
_NEGATED = ("assertTrue", "assertFalse", "assert_", "failUnless", "failIf")
_STRANGE_FIRST = ("assertIsNone", "assertIsInstance", "assertIn", "assertRegex", "assertIs")
_EQUALITY = ("assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual")


def falsified(changes: Changes, paths: Iterable[str]) -> Changes | None:
    """The same changes with the assertions of these test files falsified; None where a file cannot be rewritten."""
    return rewritten(changes, paths, _turned_module)


def _turned_module(module: ast.Module) -> ast.Module:
    turned: ast.Module = _Falsify().visit(module)
    _insert_prelude(turned)
    return turned


def certain(changes: Changes, nodes: Mapping[str, tuple[str, Sequence[str]]]) -> frozenset[str]:
    """Nodes (id to file and names of class and function) that cannot pass without running an assertion of their own:
    one stands unconditionally in the function's body, and nothing returns before it."""
    found = set()
    for node, (path, names) in nodes.items():
        file = changes.get(path)
        module = syntax.parse(file.data) if file else None
        function = syntax.locate(module, names) if module else None
        if function is not None and _asserts_for_sure(function):
            found.add(node)
    return frozenset(found)


def _asserts_for_sure(function: Function) -> bool:
    statements = list(function.body)
    while statements:
        statement = statements.pop(0)
        if any(isinstance(n, ast.Return | ast.Yield | ast.YieldFrom) for n in ast.walk(statement)):
            return False
        if isinstance(statement, ast.Assert):
            return not _lenient_equality(statement.test)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            if _name(statement.value) in (*_EQUALITY, *_NEGATED, *_STRANGE_FIRST):
                return not any(_lenient_equality(a) for a in statement.value.args)
        elif isinstance(statement, ast.With):
            if any(_expects(item) for item in statement.items):
                return True
            if not any(_suppresses(item) for item in statement.items):
                statements = [*statement.body, *statements]
    return False


_LENIENT = re.compile(r"ANY$|approx|Any|Approx|Is[A-Z]|Wild|Dirty|\w*(?:Like|Match(?:er|es)?|Contain(?:s|ing))$")
"""Names of values that are meant to be equal to many things."""


def _lenient_equality(test: ast.expr) -> bool:
    """Whether the test itself uses something equal to many things: that a stranger is too says nothing then."""
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    names |= {n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute)}
    return any(_LENIENT.match(name) for name in names)


def _suppresses(item: ast.withitem) -> bool:
    """A context that may skip the rest of its block without failing the test."""
    return not isinstance(item.context_expr, ast.Call) or _name(item.context_expr) not in (
        "subTest",
        "catch_warnings",
        "open",
        "override_settings",
        "settings",
        "mock_patch",
    )


def _name(call: ast.Call) -> str:
    return syntax.dotted(call.func).rsplit(".", 1)[-1]


def _expects(item: ast.withitem) -> bool:
    return isinstance(item.context_expr, ast.Call) and _name(item.context_expr) in _EXPECTING


def _insert_prelude(module: ast.Module) -> None:
    """After the docstring and `from __future__` lines, which have to come first."""
    place = 0
    for statement in module.body:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not docstring and not future:
            break
        place += 1
    module.body[place:place] = ast.parse(_PRELUDE).body


class _Falsify(ast.NodeTransformer):
    """Turns every asserting statement so that it fails when the original would hold."""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        node.test = _turned(node.test)
        return node

    def visit_With(self, node: ast.With) -> ast.stmt:
        self.generic_visit(node)
        for item in node.items:
            if _expects(item) and isinstance(item.context_expr, ast.Call):
                _expect_never(item.context_expr)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        call = node.value
        if not isinstance(call, ast.Call):
            return node
        name = _name(call)
        if name in _EXPECTING:
            _expect_never(call)
        elif name in _NEGATED and call.args:
            call.args[0] = ast.UnaryOp(ast.Not(), call.args[0])
        elif name in _EQUALITY and len(call.args) >= 2:
            return _either(call)
        elif name in _STRANGE_FIRST and call.args:
            call.args[0] = _stranger()
        elif name.lower().startswith("assert"):
            return _inverted(node)
        return node


def _turned(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.In):
        helper = _EQUAL if isinstance(test.ops[0], ast.Eq) else _INSIDE
        return ast.Call(ast.Name(helper, ast.Load()), [test.left, test.comparators[0]], [])
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return ast.BoolOp(test.op, [_turned(part) for part in test.values])
    return ast.UnaryOp(ast.Not(), test)


def _either(call: ast.Call) -> ast.stmt:
    """Passes only where one side is equal to something else than the other."""
    return ast.Expr(ast.Call(ast.Name(_EITHER, ast.Load()), [call.func, *call.args], call.keywords))


def _inverted(statement: ast.Expr) -> ast.stmt:
    """Fails where an assertion helper, whatever it asks, is content."""
    attempt = ast.parse("try:\n    pass\nexcept AssertionError:\n    pass\nelse:\n    raise AssertionError\n").body[0]
    assert isinstance(attempt, ast.Try)
    attempt.body = [statement]
    return attempt


def _expect_never(call: ast.Call) -> None:
    if call.args:
        call.args[0] = ast.Name(_NEVER, ast.Load())
    for keyword in call.keywords:
        if keyword.arg in ("expected_exception", "exception", "expected_warning"):
            keyword.value = ast.Name(_NEVER, ast.Load())


def _stranger() -> ast.expr:
    return ast.Name(_STRANGER, ast.Load())
