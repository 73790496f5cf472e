"""Which source files an issue is about: BM25 over three fields of each file, and the files it names outright.

BM25F (Robertson, Zaragoza, Taylor 2004): the occurrences in the fields are added up with a weight each, then saturated
and weighed by how rare the term is. The weights are for kinds of evidence, none for a repository.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from execcritic_roles.brief.index import Document
from execcritic_roles.brief.query import Query
from execcritic_roles.brief.tree import Tree

K1, B = 2.0, 0.6
PATH, NAMES, TEXT = 6.0, 4.0, 1.0
IDENTIFIER, WORD, DEFINED = 2.0, 1.0, 4.0
OUTSIDE = 0.5
"""Files outside the packages: examples, scripts, documentation."""


def bm25(query: Query, documents: Sequence[Document]) -> dict[str, float]:
    """Score of each file by path, at least 0."""
    terms = {name: IDENTIFIER * weight for name, weight in query.identifiers.items()}
    terms |= {f" {word}": WORD * weight for word, weight in query.words.items()}
    # That a name is defined here is a term of its own: a name that is used everywhere is still defined in one place.
    terms |= {f"{name} defined": DEFINED * weight for name, weight in query.identifiers.items()}
    mean = sum(document.size for document in documents) / max(len(documents), 1) or 1.0
    found: dict[str, list[tuple[str, float]]] = {}
    for document in documents:
        length = 1 - B + B * document.size / mean
        for term in document.in_path.keys() | document.in_names.keys() | document.in_text.keys():
            in_file = NAMES * document.in_names[term] + TEXT * document.in_text[term]
            found.setdefault(term, []).append((document.path, PATH * document.in_path[term] + in_file / length))
        for name, _ in document.defines:
            found.setdefault(f"{name} defined", []).append((document.path, 1.0))
    scores = {document.path: 0.0 for document in documents}
    for term in sorted(found):
        rarity = math.log(1 + (len(documents) - len(found[term]) + 0.5) / (len(found[term]) + 0.5))
        for path, count in found[term]:
            scores[path] += terms[term] * rarity * count * (K1 + 1) / (K1 + count)
    return scores


def named(query: Query, tree: Tree) -> dict[str, float]:
    """Files that the issue names, by path or as a module: 1 for a path, less for a bare file name or a module."""
    by_name: dict[str, list[str]] = {}
    for path in tree.paths:
        by_name.setdefault(path.rsplit("/", 1)[-1], []).append(path)
    scores: dict[str, float] = {}
    for written in query.paths:
        if found := _tail(written, tree):
            scores[found] = 1.0
        elif len(only := by_name.get(written, [])) == 1:
            scores[only[0]] = 0.7
    for dotted in query.dotted:
        if found := _module(dotted, tree):
            scores[found] = max(scores.get(found, 0.0), 0.7)
    return scores


def _tail(written: str, tree: Tree) -> str | None:
    """The file that the end of a written path names, two components at least."""
    components = [c for c in written.split("/") if c not in ("", ".", "..")][-12:]
    for start in range(len(components) - 1):
        tail = "/".join(components[start:])
        for root in tree.roots:
            if root + tail in tree.paths:
                return root + tail
    return None


def _module(dotted: str, tree: Tree) -> str | None:
    """The module that a dotted name begins with, two components at least."""
    components = dotted.split(".")[:12]
    for end in range(len(components), 1, -1):
        head = "/".join(components[:end])
        for root in tree.roots:
            for path in (f"{root}{head}.py", f"{root}{head}/__init__.py"):
                if path in tree.paths:
                    return path
    return None


def rank(query: Query, tree: Tree, documents: Sequence[Document]) -> Mapping[str, float]:
    """The source files with their scores, best first; those with no score are left out."""
    scores = bm25(query, documents)
    top = max(scores.values(), default=0.0) or 1.0
    outright = named(query, tree)
    total = {}
    for path, score in scores.items():
        whole = (score / top) * (1.0 if tree.in_packages(path) else OUTSIDE) + outright.get(path, 0.0)
        if whole > 0:
            total[path] = whole
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))
