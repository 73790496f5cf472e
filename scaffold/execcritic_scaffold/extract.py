"""Extraction: from what an agent left in its workspace to a Base-relative, cumulative patch.

Git is not asked what changed: the agent may have committed, staged, stashed or rewritten the configuration. The
workspace's manifest is compared with Base, files that differ are read, and the patch is made in the store.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.files import EXECUTABLE, GITLINK, REGULAR, SYMLINK, Entry, File
from execcritic_scaffold.leftovers import environments, is_below, is_leftover
from execcritic_scaffold.store import Store

LIMIT = 64 << 20
"""Bytes of changed files in all; a workspace may hold gigabytes, and this process holds what it reads."""


@dataclass(frozen=True)
class Extraction:
    """The tree as the agent left it, the patch from Base to it (empty where nothing changed), and the new paths that
    were left out because they are ignored or left over from running and building."""

    tree: str
    patch: bytes
    dropped: tuple[str, ...]


def extract(
    store: Store,
    base_tree: str,
    manifest: Mapping[str, Entry],
    read: Callable[[str, int], bytes],
    ignored: Callable[[Iterable[str]], set[str]],
    limit: int = LIMIT,
) -> Extraction:
    """The patch from `base_tree` to the workspace described by `manifest` (`Session.manifest`, `Session.read`).

    `ignored` says which of some new paths are ignored (`Base.ignored`). Applying the patch to `base_tree` gives
    `tree` exactly. Raises PatchError for a nested repository, for a path that git refuses, for files that vanish
    while they are read, and for more than `limit` bytes of changed files, before they are all read.
    """
    _refuse_outside(manifest)
    base = store.read_tree(base_tree)
    submodules = {path for path, entry in base.items() if entry.mode == GITLINK}
    changed = {path: entry for path, entry in manifest.items() if base.get(path) != entry}
    dropped = _dropped([path for path in changed if path not in base], ignored)
    kept = {path: entry for path, entry in changed.items() if path not in dropped}
    _refuse_repositories(kept, submodules)

    changes: dict[str, File | None] = {path: None for path in base if path not in manifest and path not in submodules}
    left = limit
    for path, entry in kept.items():
        try:
            data = read(path, left)
        except FileNotFoundError:
            raise PatchError(
                f"{path} vanished while the workspace was read; stop background processes that write there, then retry."
            ) from None
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            raise PatchError(
                f"With {path} the changed files hold more than {limit >> 20} MB; remove or ignore what is no source."
            ) from None
        left -= len(data)
        changes[path] = File(data, entry.mode)
    tree = store.edit(base_tree, changes)
    return Extraction(tree, store.diff(base_tree, tree), tuple(sorted(dropped)))


def _refuse_outside(paths: Iterable[str]) -> None:
    """The manifest was made where an agent can lie; git refuses such paths too, but only those that are kept."""
    for path in paths:
        if any(part in ("", ".", "..") or part.lower() == ".git" for part in path.split("/")):
            raise PatchError(f"{path!r} is no path of a patch; use only paths inside the repository and outside .git.")


def _dropped(new: list[str], ignored: Callable[[Iterable[str]], set[str]]) -> set[str]:
    outside = environments(new)
    dropped = {path for path in new if is_leftover(path) or is_below(path, outside)}
    return dropped | ignored(path for path in new if path not in dropped)


def _refuse_repositories(kept: Mapping[str, Entry], submodules: set[str]) -> None:
    for path, entry in sorted(kept.items()):
        above = next((folder for folder in submodules if path.startswith(folder + "/")), None)
        if entry.mode == GITLINK or above:
            raise PatchError(
                f"{above or path} is a nested repository, whose files a patch cannot carry; "
                "remove its .git folder, or move the change out of it."
            )
        if entry.mode not in (REGULAR, EXECUTABLE, SYMLINK):
            raise PatchError(f"{path} has the mode {entry.mode}; leave only files and symbolic links.")
