"""A tree of files as a checkout with one commit and no history, which the harness owns."""

from __future__ import annotations

from pathlib import Path

from execcritic_scaffold.plumbing import Git, create
from execcritic_scaffold.store import Store

_BY = b"base <base> 946684800 +0000"
"""Always the same, so that the same files are the same commit on every machine."""


def write(store: Store, tree: str, directory: Path) -> None:
    """Write the tree to `directory`, new or empty, with its one commit. Raises UsageError where it cannot be."""
    store.materialise(tree, directory)
    commit(directory)


def commit(directory: Path) -> None:
    """Make a folder a git checkout with one commit of everything in it, ignored files too.

    No configuration of a user or of the files is read, and bytes are kept. A git directory that the folder has is not
    looked at: it must have none.
    """
    hidden = directory / ".git"
    create(hidden)
    git = Git(hidden, index=hidden / "index", work_tree=directory)
    git.need("add", "--all", "--force", ".")
    tree = git.need("write-tree").strip()
    body = b"tree %b\nauthor %b\ncommitter %b\n\nbase\n" % (tree, _BY, _BY)
    made = git.need("hash-object", "-t", "commit", "-w", "--stdin", stdin=body).decode().strip()
    git.need("update-ref", "HEAD", made)
    git.need("config", "--file", str(hidden / "config"), "core.bare", "false")
