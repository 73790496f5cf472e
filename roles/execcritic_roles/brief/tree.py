"""Base as the brief reads it: its paths by kind, and the text of its Python files, from the harness's git store.

Nothing of the repository is executed, and the live checkout is not looked at. What is read is bounded in files, bytes
a file and bytes together, whatever the repository holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from execcritic_scaffold.files import GITLINK, SYMLINK, Entry
from execcritic_scaffold.paths import Discovery, PathKind
from execcritic_scaffold.store import Store

FILES = 100_000
"""Python files of each kind that are looked at; in a larger repository those of its packages come first."""
FILE_BYTES = 1 << 20
"""Larger files are generated, or data."""
ALL_BYTES = 96 << 20
"""Read for each kind."""

Reader = Callable[[Sequence[str]], Iterator[tuple[str, bytes]]]
"""Path and bytes of those of the paths that can be read, in the order given, one file in memory at a time."""


@dataclass(frozen=True)
class Tree:
    """What is known of a repository without reading its files. Paths that cannot be shown safely are left out."""

    paths: frozenset[str]
    """All regular files."""
    sources: tuple[str, ...]
    """Python files that are neither tests nor configuration, those of the packages first."""
    tests: tuple[str, ...]
    """Files that the runner collects tests from."""
    packages: tuple[str, ...]
    """Folders and modules that are imported from the checkout, as paths: `src/flask/`, `spans.py`."""
    roots: tuple[str, ...]
    """Prefixes of the import roots, "" for the repository's own folder."""
    read: Reader

    def in_packages(self, path: str) -> bool:
        return path.startswith(self.packages)


def read_base(
    store: Store, tree: str, discovery: Discovery, roots: Iterable[str], tops: Iterable[str] = ()
) -> Tree:  # fmt: skip
    """The tree `tree` of `store`; `roots` are its import roots ("." is the top), `tops` the names imported from it."""
    entries = {p: e for p, e in store.read_tree(tree).items() if e.mode not in (SYMLINK, GITLINK) and can_be_shown(p)}
    prefixes = tuple(dict.fromkeys("" if root == "." else root.rstrip("/") + "/" for root in (*roots, ".")))
    packages = [prefix + top + end for prefix in prefixes for top in sorted(tops) for end in ("/", ".py")]
    packages = [p for p in packages if p in entries or (p.endswith("/") and p + "__init__.py" in entries)]
    kinds: dict[PathKind, list[str]] = {PathKind.SOURCE: [], PathKind.TEST: []}
    for path in entries:
        if path.endswith((".py", ".pyx", ".pyi")):
            kinds.get(discovery.kind(path), []).append(path)
    first = tuple(packages)
    return Tree(
        paths=frozenset(entries),
        sources=tuple(sorted(kinds[PathKind.SOURCE], key=lambda p: (not p.startswith(first), p))[:FILES]),
        tests=tuple(sorted(kinds[PathKind.TEST])[:FILES]),
        packages=first,
        roots=prefixes,
        read=_reader(store, entries),
    )


def can_be_shown(path: str) -> bool:
    """Whether a path can stand in a prompt as it is: one printable line of moderate length, without mark-up."""
    return len(path) <= 200 and path.isprintable() and not set(path) & set("`<>")


def _reader(store: Store, entries: Mapping[str, Entry]) -> Reader:
    def read(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        asked = [path for path in paths if path in entries]
        sizes = store.git.sizes(entries[path].oid for path in asked)
        chosen, total = [], 0
        for path in asked:
            size = sizes[entries[path].oid]
            if size <= FILE_BYTES and total + size <= ALL_BYTES:
                chosen.append(path)
                total += size
        return zip(chosen, store.git.blobs([entries[path].oid for path in chosen]), strict=True)

    return read
