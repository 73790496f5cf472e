"""The brief as the agents read it, within its budget. What comes from files is fenced, or shown as a bare path."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from execcritic_roles.brief.excerpt import Excerpt
from execcritic_roles.brief.index import Document
from execcritic_roles.brief.tree import Tree

BYTES_PER_TOKEN = 3
"""Of code and paths a token holds about three and a half; the estimate is on the safe side, for any script."""
SHOWN = 6
"""Packages and test folders that the layout names."""
DEFINITIONS = 4
HEAD = "A program put this together from the files and the words of the issue. It is a place to start, not a finding."


def write(
    tree: Tree, sources: Sequence[Document], tests: Sequence[str], example: Excerpt | None, tokens: int
) -> tuple[str, list[str], list[str]]:
    """The text, of at most `tokens` tokens, and the source and test files that it names, in order. Where room is
    short, the layout comes before the source files, these before the tests, and the excerpt last."""
    room = _Room(tokens * BYTES_PER_TOKEN)
    room.add(f"{HEAD}\n\n{_layout(tree)}")
    listed = room.add_list("Source files that have most in common with the issue:", [_source(d) for d in sources])
    near = room.add_list("Existing tests nearest to it:", [f"- {path}" for path in tests])
    if example is not None:
        fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", example.text))])
        room.add(f"One test of {example.path}, for its style:\n{fence}python\n{example.text}\n{fence}")
    return room.text, [d.path for d in sources[:listed]], list(tests[:near])


class _Room:
    """Blocks of text that are added while there is room for them."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.text = ""

    def add(self, block: str) -> None:
        """Add a block if it fits."""
        if _size(block) <= self._left:
            self._left -= _size(block)
            self.text += ("\n\n" if self.text else "") + block

    def add_list(self, head: str, items: Sequence[str]) -> int:
        """Add as many of the items as fit below their heading; how many. Without room for one, nothing is added."""
        left = self._left - _size(head)
        count = 0
        for item in items:
            left -= len(item.encode()) + 1
            if left < 0:
                break
            count += 1
        if count:
            self.add("\n".join([head, *items[:count]]))
        return count


def _size(block: str) -> int:
    return len(block.encode()) + 2  # the blank line between blocks


def _source(document: Document) -> str:
    found = ", ".join(f"{name} (line {line})" for name, line in document.defines[:DEFINITIONS])
    return f"- {document.path}" + (f": defines {found}" if found else "")


def _layout(tree: Tree) -> str:
    homes = Counter(next((p for p in tree.packages if path.startswith(p)), _top(path)) for path in tree.sources)
    packages = {p: homes[p] for p in tree.packages} or homes
    tests = Counter(_top(path) for path in tree.tests)
    return (
        f"Layout: {len(tree.paths)} files. Python source by folder: {_counted(packages)}. "
        f"Test files by folder: {_counted(tests)}."
    )


def _counted(counts: Counter[str] | dict[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} {count}" for name, count in ranked[:SHOWN])
    more = len(ranked) - SHOWN
    return (shown + (f", and {more} more" if more > 0 else "")) or "none"


def _top(path: str) -> str:
    """The folder of the first level that a path lies in; "." for a file at the top."""
    head, slash, _ = path.partition("/")
    return head + slash if slash else "."
