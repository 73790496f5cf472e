"""Patches that probably do not fix the bug, at least ten for each instance, made from what is known about it.

Each Gold hunk left out, small mutants of the lines Gold adds, reference patches of other instances, a patch that
changes white space only and one that adds a comment only. Whether a patch really is wrong is not decided here but by
running the official tests by hand (a mutant may well be as good as Gold).
"""

from __future__ import annotations

import ast
import difflib
import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from _byhand import Hand
from _realset import Instance, instances
from unidiff import PatchSet

MUTATIONS = (
    (r"==", "!="),
    (r"!=", "=="),
    (r"<=", ">"),
    (r"(?<![<=>-])<(?![<=])", ">="),
    (r"\band\b", "or"),
    (r"\bor\b", "and"),
    (r"\bnot (?!in\b)", ""),
    (r"\bis not\b", "is"),
    (r"\bis (?!not\b)", "is not "),
    (r"\bTrue\b", "False"),
    (r"\bFalse\b", "True"),
    (r"\bNone\b", "0"),
    (r"\bif (.+):", r"if not (\1):"),
    (r"\breturn (.+)", "return None"),
    (r" = (.+)", " = None"),
    (r" \+ ", " - "),
    (r"\b(\d+)\b", r"(\1 + 1)"),
    (r"'(\w+)'", r"'\1x'"),
    (r"\"(\w+)\"", r'"\1x"'),
    (r"^(\s*)\S.*", r"\1pass"),
)
"""One regular expression and its replacement each; applied at one place of one line at a time."""


@dataclass(frozen=True)
class Negative:
    """A patch and how it was made: hunk, mutant, foreign, whitespace or comment."""

    kind: str
    patch: bytes


def negatives(instance: Instance, hand: Hand, wanted: int = 12) -> list[Negative]:
    """At least `wanted` different patches that apply to Base, where Gold offers enough to mutate."""
    gold = instance["gold_patch"].encode()
    paths = [one.path for one in PatchSet(instance["gold_patch"]) if one.path.endswith(".py") and not one.is_added_file]
    base, fixed = hand.patched(b"", paths) or {}, hand.patched(gold, paths) or {}
    first = [*_left_out(instance, hand), *_no_effect(base, hand), *_foreign(instance, hand)]
    chosen: list[Negative] = []
    seen = {b"", gold}
    mutants = (Negative("mutant", hand.diff(files)) for files in _mutants(instance["instance_id"], base, fixed))
    for one in itertools.chain(first, mutants):
        if len(chosen) >= max(wanted, len(first)):
            break
        if one.patch not in seen and (one.kind == "mutant" or hand.patched(one.patch, ()) is not None):
            seen.add(one.patch)
            chosen.append(one)
    return chosen


def _left_out(instance: Instance, hand: Hand) -> Iterator[Negative]:
    """Gold without one of its hunks, for each hunk."""
    count = sum(len(one) for one in PatchSet(instance["gold_patch"]))
    for left_out in range(count if count > 1 else 0):
        patch, index = PatchSet(instance["gold_patch"]), 0
        kept = []
        for file in patch:
            for hunk in list(file):
                if index == left_out:
                    file.remove(hunk)
                index += 1
            if len(file):
                kept.append(str(file))
        yield Negative("hunk", "".join(kept).encode())


def _no_effect(base: dict[str, bytes], hand: Hand) -> Iterator[Negative]:
    for path, data in list(base.items())[:1]:
        yield Negative("whitespace", hand.diff({path: data + b"\n\n"}))
        yield Negative("comment", hand.diff({path: data + b"\n# Reviewed, no change needed.\n"}))


def _foreign(instance: Instance, hand: Hand, most: int = 3) -> Iterator[Negative]:
    """Reference patches of other bugs of the same project that apply here."""
    others = (one for one in instances().values() if one["repo"] == instance["repo"] and one is not instance)
    patches = (other["gold_patch"].encode() for other in others)
    fitting = (patch for patch in patches if hand.patched(patch, ()) is not None)
    return (Negative("foreign", patch) for patch in itertools.islice(fitting, most))


def _mutants(seed: str, base: dict[str, bytes], fixed: dict[str, bytes]) -> Iterator[dict[str, bytes]]:
    """Gold's files with one place changed: first in the lines Gold adds, then in those around. The order
    within each depends on the instance only."""
    shuffle = random.Random(seed).shuffle
    for context in (0, 3, 12):
        places = []
        for path, data in fixed.items():
            lines = data.decode(errors="surrogateescape").splitlines(keepends=True)
            for number in _near_changes(base.get(path, b"").decode(errors="surrogateescape"), lines, context):
                places += [(path, number, lines, change) for change in _changes(lines[number])]
        shuffle(places)
        for path, number, lines, change in places:
            mutant = "".join([*lines[:number], change, *lines[number + 1 :]]).encode(errors="surrogateescape")
            if _parses(mutant):
                yield {**fixed, path: mutant}


def _near_changes(base: str, lines: list[str], context: int) -> list[int]:
    """Numbers of the lines that differ from Base, or with `context`: of those at most so far from one that does."""
    blocks = difflib.SequenceMatcher(None, base.splitlines(keepends=True), lines, autojunk=False).get_opcodes()
    changed = [(first, last) for tag, _, _, first, last in blocks if tag != "equal"]
    near = {n for first, last in changed for n in range(first - context, last + context) if 0 <= n < len(lines)}
    return sorted(near)


def _changes(line: str) -> Iterator[str]:
    """The line with one mutation applied at one place."""
    if not line.strip() or line.lstrip().startswith("#"):
        return
    for pattern, replacement in MUTATIONS:
        for found in re.finditer(pattern, line):
            yield line[: found.start()] + found.expand(replacement) + line[found.end() :]


def _parses(source: bytes) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True
