"""Mutants of a patch: would the test notice if the fix were another one?

Two kinds, for files of Python: a hunk taken back (a patch of several hunks without one of them), and one expression in
a changed line turned (another comparison, `and` for `or`, a number one higher, …). A mutant that parses to the same
code as the patch or as Base is none. Only text is rewritten; nothing is executed here.
"""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

from execcritic_scaffold import syntax
from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.files import File
from execcritic_scaffold.store import Store

T = TypeVar("T")

LARGEST = 1 << 20
"""Bytes of a file beyond which it is generated rather than written, and takes long to compare."""
_OPPOSITE: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "startswith": "endswith", "endswith": "startswith"}


def of_patch(store: Store, base: str, patch: bytes, limit: int) -> list[bytes]:
    """At most `limit` Base-relative patches: hunks taken back first, then turned expressions, from all over the patch.

    Empty for a patch that does not apply, or that changes no Python source that can be read.
    """
    try:
        tree = store.apply(base, patch)
    except PatchError:
        return []
    before, changes = store.read_tree(base), store.changes(base, tree)
    texts: list[tuple[str, bytes, File]] = []
    for path, file in changes.items():
        if file is not None and path.endswith(".py") and len(file.data) <= LARGEST:
            texts.append((path, store.read_blob(before[path].oid) if path in before else b"", file))
    made: list[tuple[str, File]] = []
    for make in (reverted, mutated):
        found = [(p, File(data, file.mode)) for p, old, file in texts for data in make(old, file.data, limit)]
        made += _spread(found, limit - len(made))
    return [store.diff(base, store.edit(tree, {path: file})) for path, file in made]


def reverted(old: bytes, new: bytes, limit: int) -> list[bytes]:
    """The new text with one hunk of it as it was, at most `limit` times; never for the only hunk, which would give the
    old text."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    hunks = _hunks(before, after)
    if len(hunks) < 2:
        return []
    texts = (b"".join([*after[:j1], *before[i1:i2], *after[j2:]]) for i1, i2, j1, j2 in _spread(hunks, limit))
    return _only_mutants(texts, old, new)


def mutated(old: bytes, new: bytes, limit: int) -> list[bytes]:
    """The new text with one expression of a changed line turned, at most `limit` times, in the order of the text."""
    module = syntax.parse(new)
    if module is None:
        return []
    lines = new.splitlines(keepends=True)
    changed = {n for *_, j1, j2 in _hunks(old.splitlines(keepends=True), lines) for n in range(j1 + 1, j2 + 1)}
    starts = [0, *accumulate(map(len, lines))]
    edits: list[tuple[int, int, bytes]] = []
    for node in ast.walk(module):
        if not isinstance(node, ast.expr | ast.Return) or node.lineno not in changed:
            continue
        # Columns count bytes of UTF-8. Where they do not fit (another encoding, inside an f-string) nothing is turned.
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or node.col_offset)
        if _stands_at(node, new[start:end]):
            edits += [(start, end, other.encode()) for turn in _TURNS if (other := turn(node)) is not None]
    texts = (new[:start] + other + new[end:] for start, end, other in _spread(sorted(edits), limit))
    return _only_mutants(texts, old, new)


def _stands_at(node: ast.AST, text: bytes) -> bool:
    try:
        module = ast.parse(b"(" + text + b")" if isinstance(node, ast.expr) else b"def f():\n return " + text[6:])
        found = module.body[0]
        inner: ast.AST = found
        if isinstance(found, ast.Expr):
            inner = found.value
        elif isinstance(found, ast.FunctionDef):
            inner = found.body[0]
        return ast.dump(inner) == ast.dump(node)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _hunks(before: Sequence[bytes], after: Sequence[bytes]) -> list[tuple[int, int, int, int]]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [(i1, i2, j1, j2) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"]


def _only_mutants(texts: Iterable[bytes], old: bytes, new: bytes) -> list[bytes]:
    """Those that are code, and other code than both."""
    return [t for t in texts if syntax.parse(t) is not None and not any(syntax.same_code(t, o) for o in (old, new))]


def _spread(found: Sequence[T], limit: int) -> list[T]:
    """At most `limit` of them, from all over the list."""
    if len(found) <= limit:
        return list(found)
    return [found[index * len(found) // limit] for index in range(max(0, limit))]


def _comparison(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or type(node.ops[0]) not in _OPPOSITE:
        return None
    return _written(ast.Compare(node.left, [_OPPOSITE[type(node.ops[0])]()], node.comparators))


def _boolean(node: ast.AST) -> str | None:
    if isinstance(node, ast.BoolOp):
        return _written(ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _written(node.operand)
    return None


def _arithmetic(node: ast.AST) -> str | None:
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _written(ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right))
    return None


def _constant(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Constant):
        return None
    if isinstance(node.value, bool):
        return repr(not node.value)
    return repr(node.value + 1) if isinstance(node.value, int) else None


def _called(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name not in _CALLED:
        return None
    other = copy.deepcopy(node)
    if isinstance(other.func, ast.Attribute):
        other.func.attr = _CALLED[name]
    elif isinstance(other.func, ast.Name):
        other.func.id = _CALLED[name]
    return _written(other)


def _returned(node: ast.AST) -> str | None:
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        return "return None"
    return None


def _written(node: ast.expr) -> str:
    """In brackets: what stands around it must not bind differently. Always one line."""
    return f"({ast.unparse(node)})"


_TURNS: tuple[Callable[[ast.AST], str | None], ...] = (
    _comparison,
    _boolean,
    _arithmetic,
    _constant,
    _called,
    _returned,
)
