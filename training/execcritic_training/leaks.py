"""Whether an episode saw what it must not see: lines of the reference patch, names of the hidden tests."""

from __future__ import annotations

import re
from collections.abc import Iterable

from execcritic.batch.instance import Gold
from execcritic_scaffold import patch as patches
from execcritic_scaffold.errors import PatchError

DISTINCTIVE = 25
"""Characters from which a line is hardly written twice by chance."""
NAME = 8
_DEFINED = re.compile(rb"\s*(?:async\s+)?(?:def|class)\s+([A-Za-z_]\w*)")


class LeakCheck:
    """Holds what only the gold of an instance says: lines that its patch adds, and tests that its test patch defines.

    What the issue says too, and what stood in the patches' files before, is no secret. A model that finds a long line
    of the fix by itself is taken for one that saw it: what is dropped in vain costs less than what is learnt by heart.
    """

    def __init__(self, gold: Gold, issue: str) -> None:
        known = _squeezed(issue)
        self._lines = {line for line in _added(gold.patch) if len(line) >= DISTINCTIVE and line not in known}
        names = {
            match[1].decode() for line in _new_lines(gold.test_patch) if (match := _DEFINED.match(line)) is not None
        }
        self._names = {name for name in names if len(name) >= NAME and name not in issue}
        words = "|".join(sorted(map(re.escape, self._names)))
        self._named = re.compile(rf"\b(?:{words})\b") if words else None

    def find(self, texts: Iterable[str]) -> str | None:
        """What of the gold occurs in the texts, in a few words; None where nothing does."""
        for text in texts:
            if self._named is not None and (name := self._named.search(text)):
                return f"the hidden test {name[0]}"
            if self._lines:
                squeezed = _squeezed(text)
                if any(line in squeezed for line in self._lines):
                    return "a line of the reference patch"
        return None


def _added(patch: bytes) -> set[str]:
    """Lines that a patch adds and that it shows nowhere as they were before."""
    try:
        read = patches.parse(patch)
    except PatchError:
        return set()
    new: set[str] = set()
    old: set[str] = set()
    for section in read.sections:
        for line in section.body:
            text = _squeezed(line[1:].decode("utf-8", "replace"))
            (new if line[:1] == b"+" else old).add(text)
    return new - old


def _new_lines(patch: bytes) -> list[bytes]:
    try:
        return [line[1:] for s in patches.parse(patch).sections for line in s.body if line[:1] == b"+"]
    except PatchError:
        return []


def _squeezed(text: str) -> str:
    # Escaped line ends: calls carry what they write as a JSON string.
    return " ".join(text.replace("\\n", " ").replace('\\"', '"').split())
