"""Which existing tests stand nearest to the files an issue is about: by the words of the issue, and by name."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from execcritic_roles.brief.index import Document
from execcritic_roles.brief.query import Query, parts
from execcritic_roles.brief.rank import bm25
from execcritic_roles.brief.tree import Tree

SOURCES = 2
"""As many of the likeliest source files count."""
NAME = 0.25
_PLAIN = frozenset(("test", "testing", "py", "init", "src", "lib"))


def near(query: Query, tree: Tree, sources: Mapping[str, float], documents: Sequence[Document]) -> list[str]:
    """The test files, nearest first. `sources` are source files with their scores, `documents` the tests."""
    scores = bm25(query, documents)
    top = max(scores.values(), default=0.0) or 1.0
    scores = {path: score / top for path, score in scores.items()}
    words = {path: words_of(path) for path in (*tree.sources, *scores)}
    spread = Counter(word for found in words.values() for word in found)
    rarity = {word: math.log(len(words) / count) for word, count in spread.items()}
    first = list(sources.items())[:SOURCES]
    for source, score in first:
        mine = words_of(source)
        whole = sum(rarity.get(word, 0.0) for word in sorted(mine)) or 1.0
        for path in scores:
            shared = sum(rarity[word] for word in sorted(mine & words[path]))
            scores[path] += NAME * score / first[0][1] * shared / whole
    return sorted(scores, key=lambda path: (-scores[path], path))


def words_of(path: str) -> frozenset[str]:
    """The words of a path, without those that every test or module has."""
    return frozenset(parts(path)) - _PLAIN
