"""Over-pinning: literals that a test demands and that neither the issue, nor the repository, nor its own input holds.

A right fix would have to guess such a literal: the wording of a message, the seventh digit of a float. Short
texts and whole numbers are passed over; they are mostly computed from the input. Text is read, nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from execcritic_scaffold import assertions, syntax
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.contract import fold
from execcritic_scaffold.runners.ids import function_of
from execcritic_scaffold.selection.score import Signal
from execcritic_scaffold.syntax import Function

SHORTEST = 4
"""Characters of a text, or digits of a float, from which on it has to come from somewhere."""


def demanded(bundle: FrozenBundle) -> dict[str, bool]:
    """The literals that the reproducing nodes assert, folded, and whether the test's own input holds them."""
    found: dict[str, bool] = {}
    wanted = {function_of(node) for node in bundle.reproducing}
    for path, file in bundle.changes.items():
        module = syntax.parse(file.data) if file is not None and path.endswith(".py") else None
        for names in wanted if module is not None else ():
            assert module is not None
            function = syntax.locate(module, names)
            if function is not None:
                asserted = set(_expected(function))
                given = " ".join(_texts(function, asserted)).casefold()
                found |= {text: text.casefold() in given for node in asserted if (text := _text(node))}
    return found


def pinning(literals: dict[str, bool], unknown: Iterable[str]) -> Signal | None:
    """The share of demanded literals that come from somewhere; None where none is demanded. `unknown`: those that
    neither the issue nor the repository holds. Observations: the literals."""
    if not literals:
        return None
    pinned = sum(not literals[text] for text in unknown)
    return Signal(1 - pinned / len(literals), len(literals))


def _expected(function: Function) -> Iterator[ast.Constant]:
    """Constants on the expected side: compared with, or named by an expecting call; not those inside a call, which
    are input."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            for compared in ast.walk(node.test):
                if isinstance(compared, ast.Compare):
                    for side in (compared.left, *compared.comparators):
                        yield from _constants(side)
    for call in assertions.asserting_calls(function):
        for argument in (*call.args, *(k.value for k in call.keywords if k.arg != "msg")):
            yield from _constants(argument)


def _constants(node: ast.expr) -> Iterator[ast.Constant]:
    if isinstance(node, ast.Constant):
        yield node
    elif isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict | ast.JoinedStr | ast.BinOp | ast.UnaryOp):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _constants(child)


def _texts(function: Function, asserted: set[ast.Constant]) -> Iterator[str]:
    """The function's other literals: its input."""
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and node not in asserted and (text := _text(node)):
            yield text


def _text(node: ast.Constant) -> str | None:
    value = node.value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, float):
        value = repr(value)
        return value if sum(c.isdigit() for c in value.partition("e")[0].lstrip("0.")) >= SHORTEST else None
    if not isinstance(value, str):
        return None
    text = fold(value)
    return text if len(text) >= SHORTEST else None
