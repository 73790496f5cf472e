"""Taking tests out of test files by text: what is left is valid, and says nothing of what was there."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from execcritic_scaffold import syntax
from execcritic_scaffold.syntax import Function


def hidden(data: bytes, nodes: Collection[str]) -> bytes | None:
    """The file without the test functions of these node ids; empty where no function or class is left.

    None where one of them cannot be found in this file (inherited from another one, made by a program, a doctest), or
    where the file is not UTF-8, or what is left is no code.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return None  # a row holds its patches as text
    module = syntax.parse(data)
    wanted = {tuple(node.split("[")[0].split("::")[1:]) for node in nodes}
    if module is None or not wanted:
        return None
    found = {(*owner, function.name): function for owner, function in syntax.functions(module)}
    if not wanted <= found.keys():
        return None
    taken = {id(found[name]) for name in wanted}
    lines = data.splitlines(keepends=True)
    names = {name.id for name in ast.walk(module) if isinstance(name, ast.Name)}
    for first, last, text in sorted(_cuts(module.body, module, taken, names, lines), reverse=True):
        lines[first:last] = [text] if text else []
    left = b"".join(lines)
    after = syntax.parse(left)
    if after is None:
        return None
    return left if any(isinstance(one, Function | ast.ClassDef) for one in ast.walk(after)) else b""


def _cuts(
    body: list[ast.stmt], parent: ast.AST, taken: set[int], names: set[str], lines: list[bytes]
) -> Iterator[tuple[int, int, bytes]]:
    """Lines to take out, with what stands there instead: first and one past the last, from 0."""
    gone = [one for one in body if id(one) in taken or _emptied(one, taken, names)]
    floor = getattr(parent, "lineno", 0)
    for one in body:
        if one in gone:
            first = _first(one, lines, floor)
            last = one.end_lineno or one.lineno
            # A block needs a statement; a module does not.
            empty = one is gone[-1] and len(gone) == len(body) and not isinstance(parent, ast.Module)
            indent = lines[one.lineno - 1][: one.col_offset]
            yield first, last, indent + b"pass\n" if empty else b""
        else:
            for field in ("body", "orelse", "finalbody"):
                block = getattr(one, field, None)
                if isinstance(block, list) and block and not isinstance(one, Function):
                    yield from _cuts(block, one, taken, names, lines)
        floor = one.end_lineno or one.lineno


def _emptied(node: ast.stmt, taken: set[int], names: set[str]) -> bool:
    """A class of which nothing but its docstring is left, and that nobody names."""
    return (
        isinstance(node, ast.ClassDef)
        and node.name not in names
        and any(id(one) in taken for one in node.body)
        and all(id(one) in taken or _is_text(one) for one in node.body)
    )


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _first(node: ast.stmt, lines: list[bytes], floor: int) -> int:
    """Index of the first line that goes: decorators, comments right above, and the blank lines before; not above
    `floor`, where another statement ends."""
    decorators = node.decorator_list if isinstance(node, Function | ast.ClassDef) else []
    first = min([node.lineno, *(one.lineno for one in decorators)]) - 1
    while first > floor and lines[first - 1].strip().startswith(b"#"):
        first -= 1
    while first > floor and not lines[first - 1].strip():
        first -= 1
    return first
