"""Base: the checkout as it is now, as a tree in a store, without history.

Base is what is tracked plus what is untracked and not ignored, with the bytes and modes that lie on disk; a dirty
checkout is taken as it is. The bundle records it as commit + delta (HARNESS 2C), so that whoever has the commit can
rebuild it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from execcritic_scaffold.checkout import Checkout, open_checkout
from execcritic_scaffold.disk import Disk
from execcritic_scaffold.errors import PatchError, UsageError
from execcritic_scaffold.files import GITLINK, Entry, File
from execcritic_scaffold.generated import environment_files
from execcritic_scaffold.ignore import ignored_paths
from execcritic_scaffold.leftovers import CACHE_FILES, CACHE_FOLDERS, environments, is_below
from execcritic_scaffold.plumbing import GitFailure
from execcritic_scaffold.store import EMPTY_TREE, Store, parse_entry

_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"


@dataclass(frozen=True)
class Base:
    """A snapshot. `delta` is the binary diff from the tree of `commit` to `tree`, empty when Base is exactly the
    commit or has none. `warnings` are clear sentences for the user about what Base does not hold."""

    store: Store = field(repr=False)
    tree: str
    commit: str | None
    delta: bytes = field(repr=False)
    environment_files: Mapping[str, File] = field(repr=False)
    warnings: tuple[str, ...]

    def ignored(self, paths: Iterable[str]) -> set[str]:
        """Those of some paths that Base's own .gitignore files ignore, or that are environment files."""
        asked = set(paths)
        return ignored_paths(self.store, self.tree, asked) | (asked & self.environment_files.keys())


def snapshot(repo: Path, store: Store) -> Base:
    """The checkout at `repo` as it is now. Nothing in it is changed, and nothing it says is executed.

    Raises UsageError where `repo` is not a folder with files, or has files that cannot be read.
    """
    with open_checkout(repo) as checkout:
        return _snapshot(checkout, store)


def resolve_commit(repo: Path, store: Store, revision: str) -> tuple[str, str]:
    """Commit id and tree (in the store) of a revision, any `git rev-parse` expression.

    Raises UsageError where the repository has no such commit or lacks some of its objects.
    """
    with open_checkout(repo) as checkout:
        commit = _need_commit(checkout, revision)
        return commit, _import(checkout, store, commit)


def diff_of(repo: Path, store: Store, head: str, base: str | None) -> tuple[str, bytes]:
    """What the commit `head` changes: the tree it starts from, and the diff from there to it.

    It starts from its merge base with `base`, as in a pull request; without `base`, from its first parent.
    Raises UsageError where a revision is unknown, or the two have no common history here.
    """
    with open_checkout(repo) as checkout:
        commit = _need_commit(checkout, head)
        start = _parent(checkout, commit) if base is None else _merge_base(checkout, base, commit)
        tree = _import(checkout, store, start) if start else EMPTY_TREE
        return tree, store.diff(tree, _import(checkout, store, commit))


def rebuild(repo: Path, store: Store, *, tree: str, commit: str | None, delta: bytes) -> Base | None:
    """The recorded Base: from its commit and delta, or from the checkout where that is exactly it now.

    None where this repository does not have that Base.
    """
    with open_checkout(repo) as checkout:
        if commit is not None and _from_commit(checkout, store, commit, delta) == tree:
            files, warnings = environment_files(checkout)
            return Base(store, tree, commit, delta, files, warnings)
        base = _snapshot(checkout, store)
        return base if base.tree == tree else None


def _from_commit(checkout: Checkout, store: Store, commit: str, delta: bytes) -> str | None:
    try:
        return store.apply(_import(checkout, store, _need_commit(checkout, commit)), delta)
    except UsageError:  # no such commit, or a delta that is not made for it
        return None


def _snapshot(checkout: Checkout, store: Store) -> Base:
    tracked, submodules, sparse = _tracked(checkout)
    untracked, nested = _untracked(checkout)
    disk = Disk(checkout.root)
    modes: dict[str, str] = {}
    pointers: list[str] = []

    def contents() -> Iterator[bytes]:
        for path in sorted({*tracked, *untracked, *submodules}):
            file = disk.file(path)
            if file is None:
                continue
            modes[path] = file.mode
            if file.data.startswith(_LFS_POINTER):
                pointers.append(path)
            yield file.data

    oids = store.write_blobs(contents())
    entries = {path: Entry(mode, oid) for (path, mode), oid in zip(modes.items(), oids, strict=True)}
    kept_out = {path: oid for path, oid in submodules.items() if path not in entries}
    entries |= {path: Entry(GITLINK, oid) for path, oid in kept_out.items()}
    if not entries:
        raise UsageError(f"{checkout.root} holds no files; give the folder of the repository.")
    tree = store.write_tree(entries)
    special = [path for folder in {p.rpartition("/")[0] for p in entries} for path in disk.special(folder)]
    files, warnings = environment_files(checkout)
    warnings += _warnings(kept_out, nested, pointers, [p for p in sparse if p not in entries], special)

    commit, delta = checkout.commit("HEAD") if checkout.versioned else None, b""
    if commit is not None:
        try:
            delta = store.diff(_import(checkout, store, commit), tree)
        except UsageError as error:
            commit = None
            warnings += (f"Base is recorded without its commit: {error}",)
    return Base(store, tree, commit, delta, files, warnings)


def _tracked(checkout: Checkout) -> tuple[set[str], dict[str, str], list[str]]:
    """Tracked paths, submodules with their commit ids, and paths that a sparse checkout leaves out."""
    tracked: set[str] = set()
    submodules: dict[str, str] = {}
    sparse: list[str] = []
    listing = checkout.git.need("ls-files", "-z", "--cached", "--stage", "-t") if checkout.versioned else b""
    for record in listing.split(b"\0")[:-1]:
        head, _, raw = record.partition(b"\t")
        tag, mode, oid, _ = head.decode().split(" ")
        path = os.fsdecode(raw)
        if mode == GITLINK:
            submodules[path] = oid
        else:
            tracked.add(path)
        if tag == "S":
            sparse.append(path)
    return tracked, submodules, sparse


def _untracked(checkout: Checkout) -> tuple[set[str], list[str]]:
    """Untracked paths that are neither ignored nor caches nor environments, and nested repositories."""
    caches = [f"--exclude={name}/" for name in CACHE_FOLDERS] + [f"--exclude={name}" for name in CACHE_FILES]
    listing = checkout.git.need("ls-files", "-z", "--others", "--exclude-standard", *caches)
    paths = [os.fsdecode(path) for path in listing.split(b"\0")[:-1]]
    outside = environments(paths)
    paths = [path for path in paths if not is_below(path, outside)] if outside else paths
    nested = [path.rstrip("/") for path in paths if path.endswith("/")]
    return {path for path in paths if not path.endswith("/")}, nested


def _warnings(
    submodules: Collection[str],
    nested: Collection[str],
    pointers: Collection[str],
    sparse: Collection[str],
    special: Collection[str],
) -> tuple[str, ...]:
    sentences = (
        (submodules, "{} is a submodule: its files are not part of Base; copy them into the repository if needed."),
        (nested, "{} is a repository of its own: its files are not part of Base; remove its .git folder to add them."),
        (pointers, "{} is a Git LFS pointer, not the content; run `git lfs pull` if the tests need it."),
        (
            sparse,
            "{} is left out by the sparse checkout, so Base lacks it; `git sparse-checkout disable` adds it.",
        ),
        (special, "{} is a socket, pipe or device and is not part of Base; remove it if it is not needed."),
    )
    return tuple(sentence.format(_some(paths)) for paths, sentence in sentences if paths)


def _some(paths: Collection[str]) -> str:
    first = sorted(paths)[0]
    return first if len(paths) == 1 else f"{first} (like {len(paths) - 1} more)"


def _need_commit(checkout: Checkout, revision: str) -> str:
    if not checkout.versioned:
        raise UsageError(f"{checkout.root} is not the top of a git checkout; give a checkout that has {revision}.")
    commit = checkout.commit(revision)
    if commit is None:
        raise UsageError(f"{checkout.root} has no commit {revision}; fetch it (`git fetch`) or name another.")
    return commit


def _parent(checkout: Checkout, commit: str) -> str | None:
    parent = checkout.commit(f"{commit}^")
    if parent is None and (checkout.git.directory / "shallow").is_file():
        raise UsageError(f"The parent of {commit[:12]} is not in this shallow clone; run `git fetch --deepen=1`.")
    return parent


def _merge_base(checkout: Checkout, base: str, head: str) -> str:
    try:
        found = checkout.git.run("merge-base", _need_commit(checkout, base), head)
    except GitFailure:
        raise UsageError(
            f"{base} and {head[:12]} have no common history here; fetch more of it (`git fetch --unshallow`)."
        ) from None
    return found.decode().split()[0]


def _import(checkout: Checkout, store: Store, commit: str) -> str:
    """Copy a commit's files into the store; their tree. The id differs from the commit's own only for old odd modes."""
    try:
        listing = checkout.git.run("ls-tree", "-r", "-z", "--full-tree", commit)
        entries = dict(parse_entry(record) for record in listing.split(b"\0")[:-1])
        absent = store.git.missing(entry.oid for entry in entries.values() if entry.mode != GITLINK)
        if store.write_blobs(checkout.git.blobs(absent)) != absent:
            raise KeyError("a damaged object")
        return store.write_tree(entries)
    except (GitFailure, KeyError, PatchError) as error:
        what = error.complaint if isinstance(error, GitFailure) else error.args[0]
        raise UsageError(
            f"The commit {commit[:12]} cannot be read in full from {checkout.root} ({what}); "
            "use a full clone (`git fetch --refetch --filter=blob:none` is not one)."
        ) from None
