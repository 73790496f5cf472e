"""The repository brief: what an agent is told about a repository before its first turn, made without a model.

`tree` is Base as it is read; `query` what the issue names; `index` counts it in the files; `rank` orders the source
files, `near` the tests; `excerpt` takes a test to imitate; `text` writes it all within a budget of tokens. `running` is
how one test is run by hand. Everything is read, nothing executed, and the same input gives the same brief.
"""

from __future__ import annotations

from dataclasses import dataclass

from execcritic_roles.brief import near, query, rank, text
from execcritic_roles.brief.excerpt import Excerpt, excerpt
from execcritic_roles.brief.index import scan
from execcritic_roles.brief.tree import Tree, read_base

__all__ = ["Brief", "Tree", "read_base", "write"]

SOURCES = 10
TESTS = 5


@dataclass(frozen=True)
class Brief:
    """`sources` and `tests` are the paths that `text` names, likeliest first. `example` is the test to imitate."""

    text: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    example: Excerpt | None


def write(tree: Tree, issue: str, tokens: int) -> Brief:
    """The brief for an issue, of at most `tokens` tokens; 0 gives an empty text. Never raises for what files hold."""
    asked = query.read(issue)
    documents = scan(asked, tree.read(tree.sources))
    ranked = rank.rank(asked, tree, documents)
    by_path = {document.path: document for document in documents}
    likely = [by_path[path] for path in list(ranked)[:SOURCES]]
    tests = near.near(asked, tree, ranked, scan(asked, tree.read(tree.tests)))[:TESTS]
    example = next((e for path, data in tree.read(tests) if (e := excerpt(path, data, asked))), None)
    body, sources, named = text.write(tree, likely, tests, example, tokens)
    return Brief(body, tuple(sources), tuple(named), example)
