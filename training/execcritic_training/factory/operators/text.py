"""Edits of Python text by the positions of its syntax tree: what all operators share."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from execcritic_scaffold.syntax import Function


@dataclass(frozen=True, order=True)
class Edit:
    """Bytes `start` to `end` of a file become `text`."""

    start: int
    end: int
    text: bytes


@dataclass(frozen=True)
class Source:
    """A file with the function that is changed in it. The bytes are UTF-8."""

    data: bytes
    function: Function

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(map(len, self.data.splitlines(keepends=True)))]

    def start(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def text(self, node: ast.expr | ast.stmt) -> bytes:
        return self.data[self.start(node) : self.end(node)]

    def line(self, offset: int) -> int:
        """The number of the line, from 1, that holds a byte."""
        return self.data.count(b"\n", 0, offset) + 1

    def replace(self, node: ast.expr | ast.stmt, text: bytes) -> Edit:
        return Edit(self.start(node), self.end(node), text)

    def between(self, left: ast.expr, right: ast.expr, old: bytes, new: bytes) -> Iterator[Edit]:
        """The operator between two operands; none where a comment stands there as well."""
        first, last = self.end(left), self.start(right)
        gap = self.data[first:last]
        word = rb"(?<!\w)" + re.sub(rb" ", rb"\\s+", re.escape(old).replace(rb"\ ", b" ")) + rb"(?!\w)"
        found = re.search(word, gap)
        if found and b"#" not in gap:
            yield Edit(first + found.start(), first + found.end(), new)

    def nodes(self) -> Iterator[ast.AST]:
        """The function's nodes, without what f-strings hold (their positions are not those of the file)."""
        stack: list[ast.AST] = [self.function]
        while stack:
            node = stack.pop()
            yield node
            if not isinstance(node, ast.JoinedStr):
                stack += reversed(list(ast.iter_child_nodes(node)))


Operator = Callable[[ast.AST, Source], Iterable[Edit]]
"""The edits that one family makes at one node; most nodes have none."""


def applied(data: bytes, edits: Iterable[Edit]) -> bytes:
    """The text with edits that do not overlap."""
    for edit in sorted(edits, reverse=True):
        data = data[: edit.start] + edit.text + data[edit.end :]
    return data
