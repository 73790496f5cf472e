"""The mutants of one function: which edits there are, and which are taken. Nothing is executed here."""

from __future__ import annotations

import ast
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from execcritic_scaffold import syntax
from execcritic_scaffold.syntax import Function
from execcritic_training.factory.operators import FAMILIES, REWRITES
from execcritic_training.factory.operators.text import Edit, Operator, Source, applied
from execcritic_training.factory.suite import Target, first_line

LARGEST = 1 << 20
"""Bytes of a file beyond which it is generated rather than written."""


@dataclass(frozen=True)
class Mutant:
    """One file with a function changed. `edits` are to the original, `line` is that of the first of them."""

    family: str
    edits: tuple[Edit, ...]
    line: int
    data: bytes

    def overlaps(self, other: Mutant) -> bool:
        """Whether the two touch the same text, or lines that a diff would put together anyhow."""
        return any(a.start <= b.end and b.start <= a.end for a in self.edits for b in other.edits)


def mutants(data: bytes, target: Target, families: Collection[str], count: int, seed: int) -> list[Mutant]:
    """At most `count` mutants, from as many families as there are, the same for the same seed and text."""
    return _take(data, target, {name: FAMILIES[name] for name in sorted(families)}, count, seed)


def rewrites(data: bytes, target: Target, count: int, seed: int) -> list[Mutant]:
    """At most `count` changes that ought to change nothing."""
    return _take(data, target, REWRITES, count, seed)


def together(data: bytes, one: Mutant, other: Mutant) -> Mutant | None:
    """Both changes at once; None where that is no code."""
    edits = tuple(sorted((*one.edits, *other.edits)))
    text = applied(data, edits)
    family = "+".join(sorted((one.family, other.family)))
    return Mutant(family, edits, min(one.line, other.line), text) if syntax.parse(text) else None


def find(data: bytes, target: Target) -> Source | None:
    """The function's place in a file; None where the file is not UTF-8, too large or no longer has it."""
    module = syntax.parse(data) if len(data) <= LARGEST else None
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    every = syntax.functions(module) if module else ()
    found = [function for _, function in every if first_line(function) == target.line]
    return Source(data, found[0]) if found and not data.startswith(b"\xef\xbb\xbf") else None


def _take(data: bytes, target: Target, table: Mapping[str, Operator], count: int, seed: int) -> list[Mutant]:
    source = find(data, target)
    if source is None:
        return []
    chance = random.Random(f"{seed}:{target.key}")
    queues = [list(_edits(source, name, operator)) for name, operator in table.items()]
    queues = [queue for queue in queues if queue]
    chance.shuffle(queues)
    for queue in queues:
        chance.shuffle(queue)
    taken: list[Mutant] = []
    seen = {_dump(data, source)}
    while queues and len(taken) < count:
        for queue in list(queues):
            name, edit = queue.pop()
            if not queue:
                queues.remove(queue)
            text = applied(data, [edit])
            dump = _dump(text, source)
            if dump is None or dump in seen or syntax.parse(text) is None:
                continue
            seen.add(dump)
            taken.append(Mutant(name, (edit,), source.line(edit.start), text))
    return taken[:count]


def _edits(source: Source, name: str, operator: Operator) -> Iterator[tuple[str, Edit]]:
    for node in source.nodes():
        for edit in operator(node, source):
            yield name, edit


def _dump(text: bytes, source: Source) -> str | None:
    """The function as a tree, None where it is no code. The rest of the file is not parsed: it may be large."""
    lines = text.splitlines(keepends=True)
    after = len(source.data.splitlines()) - (source.function.end_lineno or 0)
    first = first_line(source.function)
    body = b"".join(lines[first - 1 : len(lines) - after])
    module = syntax.parse(b"class Holder:\n" + body if source.function.col_offset else body)
    return ast.dump(module) if module and any(isinstance(n, Function) for n in ast.walk(module)) else None
