"""What a failing test did, as code that stands alone: what it looked at with what leads there, no assertion."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from execcritic_scaffold.syntax import Function

MOST_LINES = 25
_EQUAL = frozenset(
    """assertEqual assertEquals assertListEqual assertDictEqual assertTupleEqual assertSetEqual assertSequenceEqual
    assertMultiLineEqual assertIs assertCountEqual assertAlmostEqual""".split()
)
_COMPARED: Mapping[str, type[ast.cmpop]] = {
    "assertIn": ast.In, "assertNotIn": ast.NotIn, "assertNotEqual": ast.NotEq, "assertIsNot": ast.IsNot,
    "assertGreater": ast.Gt, "assertGreaterEqual": ast.GtE, "assertLess": ast.Lt, "assertLessEqual": ast.LtE,
}  # fmt: skip
_TRUE, _FALSE = frozenset(("assertTrue",)), frozenset(("assertFalse",))
_RAISES = frozenset(("assertRaises", "assertRaisesRegex", "raises"))


@dataclass(frozen=True)
class Snippet:
    """`code` ends with what was looked at. `expected` is code too, None where the failing statement does not say.
    `raises` is the exception that was waited for. `subject` is what is called, something imported where there is."""

    code: str
    expected: str | None
    raises: str | None
    subject: str


def of(module: ast.Module, function: Function, line: int) -> Snippet | None:
    """The snippet of the statement of a test function at a line; None where it holds no call of the package's."""
    path = _path(function.body, line)
    if not path:
        return None
    looked, expected, raises = _parts(path[-1], path)
    if not looked:
        return None
    code = _sliced(function.body, path, list(looked), _loads([expected] if expected else []))
    for one in reversed(module.body):
        if (kept := _used(one, _loads(code))) is not None:
            code = [kept, *code]
    text = "\n".join(ast.unparse(ast.fix_missing_locations(one)) for one in code)
    called = [name for one in [*looked, *reversed(code)] for name in _called(one)]
    if not called or text.count("\n") >= MOST_LINES:
        return None
    imported = {name for one in code if isinstance(one, ast.Import | ast.ImportFrom) for name in _imported(one)}
    subject = next((name for name in called if name.split(".")[0] in imported), called[0])
    free = {a.arg for a in function.args.args} & _loads([expected] if expected else [])
    return Snippet(text, None if free else _text(expected), _text(raises), subject)


def _text(node: ast.expr | None) -> str | None:
    return None if node is None else ast.unparse(node)


def _path(body: list[ast.stmt], line: int) -> list[ast.stmt]:
    """The statements around a line, outermost first."""
    for one in body:
        if one.lineno <= line <= (one.end_lineno or one.lineno):
            for field in ("body", "orelse", "finalbody"):
                inner = getattr(one, field, None)
                if isinstance(inner, list) and inner and (found := _path(inner, line)):
                    return [one, *found]
            return [one]
    return []


def _parts(statement: ast.stmt, path: list[ast.stmt]) -> tuple[list[ast.stmt], ast.expr | None, ast.expr | None]:
    """(what was looked at, what it should have been, the exception it should have raised)."""
    within = next((one for one in reversed(path) if isinstance(one, ast.With) and _waits(one)), None)
    if within is not None:
        return list(within.body), None, _waits(within)
    if isinstance(statement, ast.Assert):
        test = statement.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.Is):
            return [ast.Expr(test.left)], test.comparators[0], None
        return [ast.Expr(test)], ast.Constant(True), None
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call, name = statement.value, _last(statement.value.func)
        if name in _EQUAL and len(call.args) > 1:
            one, other = call.args[:2]
            if not _calls(one) and _calls(other):
                one, other = other, one  # the expected value stands first in some suites
            return [ast.Expr(one)], other, None
        if name in _TRUE | _FALSE and call.args:
            return [ast.Expr(call.args[0])], ast.Constant(name in _TRUE), None
        if name in _COMPARED and len(call.args) > 1:
            made = ast.Compare(call.args[0], [_COMPARED[name]()], [call.args[1]])
            return [ast.Expr(made)], ast.Constant(True), None
        if name in _RAISES and len(call.args) > 1:
            waited = ast.Call(call.args[1], call.args[2:], call.keywords)
            return [ast.Expr(waited)], None, call.args[0]
        if name.startswith("assert"):
            return [ast.Expr(one) for one in call.args[:2]], None, None
    return ([statement] if isinstance(statement, ast.Expr | ast.Assign) else []), None, None


def _waits(node: ast.With) -> ast.expr | None:
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and _last(call.func) in _RAISES and len(call.args) == 1:
            return call.args[0]
    return None


def _sliced(body: list[ast.stmt], path: list[ast.stmt], looked: list[ast.stmt], further: set[str]) -> list[ast.stmt]:
    """The looked-at statements behind what binds their names (and `further` ones), inside the loops that do."""
    if path[0] not in body:
        return looked
    inside = getattr(path[0], "body", []) if len(path) > 1 else []
    code = _sliced(inside, path[1:], looked, further) if len(path) > 1 else looked
    if isinstance(path[0], ast.For) and len(path) > 1 and _stores(path[0].target) & (_loads(code) | further):
        code = [ast.For(path[0].target, path[0].iter, code, [])]
    for one in reversed(body[: body.index(path[0])]):
        if (_stores(one) | _changes(one)) & (_loads(code) | further):
            code = [one, *code]
    return code


def _changes(node: ast.stmt) -> set[str]:
    """The variable that a call made for its effect is on (`items.append(1)`)."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        root = node.value.func.value
        return {root.id} - {"self"} if isinstance(root, ast.Name) else set()
    return set()


def _used(node: ast.stmt, names: set[str]) -> ast.stmt | None:
    """What of a statement of the module is needed: of an import only the names that are."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        kept = [a for a in node.names if (a.asname or a.name).split(".")[0] in names]
        if not kept:
            return None
        if isinstance(node, ast.ImportFrom):
            return ast.ImportFrom(node.module, kept, node.level)
        return ast.Import(kept)
    helper = isinstance(node, ast.Assign | Function | ast.ClassDef) and not getattr(node, "decorator_list", [])
    short = (node.end_lineno or node.lineno) - node.lineno < MOST_LINES // 2
    return node if helper and short and _stores(node) & names else None


def _imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    return {(alias.asname or alias.name).split(".")[0] for alias in node.names}


def _stores(node: ast.AST) -> set[str]:
    if isinstance(node, Function | ast.ClassDef):
        return {node.name}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _loads(code: Iterable[ast.AST]) -> set[str]:
    return {n.id for one in code for n in ast.walk(one) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _calls(node: ast.expr) -> bool:
    return any(_called(node))


def _called(node: ast.AST) -> Iterator[str]:
    """Outermost first, without what the language brings."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call):
            name = ast.unparse(one.func)
            if not hasattr(builtins, name) and all(part.isidentifier() for part in name.split(".")):
                yield name


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
