"""Where in the issue its quotes stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from execcritic_scaffold.contract import fold

_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Piece:
    """A piece of the issue: the quotes it belongs to, and those that begin with it, both by number from 1."""

    text: str
    quotes: tuple[int, ...] = ()
    begins: tuple[int, ...] = ()


def marked(issue: str, quotes: Sequence[str]) -> list[Piece]:
    """The issue in pieces, in order and without loss. White space does not count in the comparison."""
    spans = {number: span for number, quote in enumerate(quotes, 1) if (span := _find(issue, quote))}
    edges = sorted({0, len(issue), *(edge for span in spans.values() for edge in span)})
    pieces = []
    for start, end in pairwise(edges):
        inside = tuple(n for n, (a, b) in spans.items() if a <= start < b)
        pieces.append(Piece(issue[start:end], inside, tuple(n for n in inside if spans[n][0] == start)))
    return pieces


def _find(issue: str, quote: str) -> tuple[int, int] | None:
    wanted = fold(quote)
    if not wanted:
        return None
    places: list[int] = []
    folded: list[str] = []
    for word in _WORD.finditer(issue):
        if folded:
            folded.append(" ")
            places.append(word.start())
        folded.append(word.group())
        places.extend(range(word.start(), word.end()))
    at = "".join(folded).find(wanted)
    return None if at < 0 else (places[at], places[at + len(wanted) - 1] + 1)
