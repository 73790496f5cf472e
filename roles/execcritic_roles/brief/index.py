"""What each file says of a query: how often, in its path, in the names it defines, and in its text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from execcritic_roles.brief.query import Query, parts

DEFINITIONS = 5_000
"""Of one file that are looked at; one with more is generated."""

_DEFINED = re.compile(rb"(?:def|class) +(\w+)\s*[(:]")
# What is no part of a name becomes a blank; the second also takes names apart and makes them lower case.
_NAMES = bytes(c if (chr(c).isalnum() and c < 128) or c == ord("_") else 32 for c in range(256))
_WORDS = bytes(ord(chr(c).lower()) if chr(c).isalnum() and c < 128 else 32 for c in range(256))


@dataclass(frozen=True)
class Document:
    """One file: occurrences of a query's terms (identifiers as they are, words with a blank before) by field."""

    path: str
    size: int
    in_path: Counter[str]
    in_names: Counter[str]
    in_text: Counter[str]
    defines: tuple[tuple[str, int], ...]
    """Those of the query's identifiers that this file defines as a class or function, with the line."""


class Scanner:
    """Counts one query's terms in files, at tens of megabytes a second."""

    def __init__(self, query: Query) -> None:
        self._names = {name.encode(): name for name in query.identifiers}
        self._words = {form.encode(): f" {word}" for word in query.words for form in (word, f"{word}s")}
        self._parts: dict[bytes, tuple[str, ...]] = {}

    def scan(self, path: str, data: bytes) -> Document:
        """What the file says of the query. Any bytes will do."""
        text: Counter[str] = Counter()
        for known, table in ((self._names, _NAMES), (self._words, _WORDS)):
            for token in filter(known.__contains__, data.translate(table).split()):
                text[known[token]] += 1
        names: Counter[str] = Counter()
        defined = [found[1] for found in islice(_DEFINED.finditer(data), DEFINITIONS)]
        for name in defined:
            for term in self._of(name):
                names[term] += 1
        mine = self._lines(data) if not self._names.keys().isdisjoint(defined) else {}
        in_path = Counter(term for part in path.encode().translate(_NAMES).split() for term in self._of(part))
        return Document(path, len(data), in_path, names, text, tuple(mine.items()))

    def _lines(self, data: bytes) -> dict[str, int]:
        """The line on which the file first defines each of the query's identifiers that it does define."""
        lines: dict[str, int] = {}
        line, seen = 1, 0
        for found in islice(_DEFINED.finditer(data), DEFINITIONS):
            if name := self._names.get(found[1]):
                line, seen = line + data.count(b"\n", seen, found.start()), found.start()
                lines.setdefault(name, line)
        return lines

    def _of(self, name: bytes) -> tuple[str, ...]:
        """The query's terms that a name holds: itself, and its words."""
        known = self._parts.get(name)
        if known is None:
            words = (self._words.get(word.encode()) for word in parts(name.decode("ascii", "replace")))
            known = (*([self._names[name]] if name in self._names else []), *(word for word in words if word))
            self._parts[name] = known
        return known


def scan(query: Query, files: Iterable[tuple[str, bytes]]) -> list[Document]:
    """Every file, in the order given."""
    scanner = Scanner(query)
    return [scanner.scan(path, data) for path, data in files]
