"""What a tree's own .gitignore files ignore, asked of git without a work tree that anyone else can write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from execcritic_scaffold.files import SYMLINK
from execcritic_scaffold.plumbing import Git, GitFailure
from execcritic_scaffold.store import Store


def ignored_paths(store: Store, tree: str, paths: Iterable[str]) -> set[str]:
    """Those of the paths that the tree's .gitignore files ignore. The paths need not exist, but must lie inside."""
    asked = list(paths)
    rules = {
        path: entry
        for path, entry in store.read_tree(tree).items()
        if path.rpartition("/")[2] == ".gitignore" and entry.mode != SYMLINK
    }
    if not asked or not rules:
        return set()
    with tempfile.TemporaryDirectory(prefix="execcritic-ignore-") as folder:
        root = Path(folder)
        store.materialise(store.write_tree(rules), root / "tree")
        git = Git(store.directory, root / "index", root / "tree")
        # With `./` in front, a name that starts with a colon is not taken for pathspec magic.
        request = b"".join(b"./" + os.fsencode(path) + b"\0" for path in asked)
        try:
            answer = git.run("check-ignore", "--no-index", "-z", "--stdin", stdin=request)
        except GitFailure as failure:
            if failure.stderr:
                raise
            return set()  # exit code 1: none of them
        return {os.fsdecode(path.removeprefix(b"./")) for path in answer.split(b"\0")[:-1]}
