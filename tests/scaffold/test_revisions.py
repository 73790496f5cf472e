"""Commits of the user's repository: resolved, diffed, and Base rebuilt from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.base import diff_of, rebuild, resolve_commit, snapshot
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.files import GITLINK
from execcritic_scaffold.store import EMPTY_TREE, Store

Git = Callable[..., str]
Repo = Callable[..., Path]


def contents(store: Store, tree: str) -> dict[str, bytes]:
    entries = {path: entry.oid for path, entry in store.read_tree(tree).items() if entry.mode != GITLINK}
    blobs = store.read_blobs(entries.values())
    return {path: blobs[oid] for path, oid in entries.items()}


def test_a_clone_without_all_objects(repo: Repo, git: Git, store: Store, tmp_path: Path) -> None:
    origin = repo({"a.py": "1\n", "b.py": "old\n"})
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{origin}", "partial")
    (tmp_path / "partial" / "a.py").write_text("1\n")
    base = snapshot(tmp_path / "partial", store)
    assert base.commit is None
    assert "cannot be read in full" in base.warnings[-1]
    with pytest.raises(UsageError, match="cannot be read in full"):
        resolve_commit(tmp_path / "partial", store, "HEAD")


def history(checkout: Path, git: Git) -> None:
    """main: 1, 2, 3; side leaves main at 2 and changes s."""
    for number in (2, 3):
        if number == 3:
            git(checkout, "checkout", "-q", "-b", "side")
            (checkout / "s").write_text("side\n")
            git(checkout, "add", "s")
            git(checkout, "commit", "-qm", "side")
            git(checkout, "checkout", "-q", "main")
        (checkout / "a").write_text(f"{number}\n")
        git(checkout, "commit", "-qam", str(number))


def test_revisions(repo: Repo, git: Git, store: Store) -> None:
    checkout = repo({"a": "1\n"})
    history(checkout, git)
    git(checkout, "tag", "-a", "-m", "v", "v1", "main~2")
    git(checkout, "pack-refs", "--all")
    git(checkout, "gc", "-q")
    for revision in ("HEAD", "main~1", "v1", "side", "@{1}", ":/side", git(checkout, "rev-parse", "--short", "main")):
        commit, tree = resolve_commit(checkout, store, revision)
        assert commit == git(checkout, "rev-parse", git(checkout, "rev-parse", revision) + "^{commit}")
        assert tree == git(checkout, "rev-parse", f"{commit}^{{tree}}")
    assert contents(store, resolve_commit(checkout, store, "v1")[1]) == {"a": b"1\n"}
    for wrong in ("nope", "--all", "HEAD:a", "", "main..side", "^main"):
        with pytest.raises(UsageError, match="has no commit"):
            resolve_commit(checkout, store, wrong)
    with pytest.raises(UsageError, match="not the top of a git checkout"):
        resolve_commit(checkout.parent, store, "HEAD")


def test_diff_of_a_commit_and_of_a_branch(repo: Repo, git: Git, store: Store, tmp_path: Path) -> None:
    checkout = repo({"a": "1\n"})
    history(checkout, git)
    tree, patch = diff_of(checkout, store, "main", None)
    assert (contents(store, tree), contents(store, store.apply(tree, patch))) == ({"a": b"2\n"}, {"a": b"3\n"})
    tree, patch = diff_of(checkout, store, "side", "main")
    assert tree == git(checkout, "rev-parse", "main~1^{tree}")
    assert contents(store, store.apply(tree, patch)) == {"a": b"2\n", "s": b"side\n"}
    assert diff_of(checkout, store, "main~2", None)[0] == EMPTY_TREE

    git(checkout, "checkout", "-q", "--orphan", "alone")
    git(checkout, "commit", "-qm", "alone")
    with pytest.raises(UsageError, match="no common history"):
        diff_of(checkout, store, "alone", "main")
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=main", f"file://{checkout}", "shallow")
    with pytest.raises(UsageError, match="shallow clone"):
        diff_of(tmp_path / "shallow", store, "HEAD", None)


def test_rebuild_from_commit_and_delta_or_not_at_all(repo: Repo, git: Git, store: Store, tmp_path: Path) -> None:
    checkout = repo({"a": "1\n", ".gitignore": "_v.py\n"})
    (checkout / "a").write_bytes(b"dirty\r\n")
    (checkout / "bin").write_bytes(bytes(range(256)))
    (checkout / "_v.py").write_text("v = 1\n")
    base = snapshot(checkout, store)
    wanted: dict[str, Any] = {"tree": base.tree, "commit": base.commit, "delta": base.delta}

    git(checkout, "stash", "-q", "-u")
    (checkout / "a").write_text("2\n")
    git(checkout, "commit", "-qam", "two")
    other = Store(tmp_path / "other")
    again = rebuild(checkout, other, **wanted)
    assert again is not None
    assert (again.tree, again.commit, again.delta) == (base.tree, base.commit, base.delta)
    assert again.environment_files == base.environment_files
    assert contents(other, again.tree)["bin"] == bytes(range(256))

    assert rebuild(checkout, store, **wanted | {"commit": "1" * 40}) is None
    assert rebuild(checkout, store, **wanted | {"delta": b"damaged"}) is None
    assert rebuild(checkout, store, **wanted | {"delta": b""}) is None
    unversioned = repo({"a": "1\n"}, "unrelated")
    assert rebuild(unversioned, store, **wanted) is None
    now = snapshot(checkout, store)
    same = rebuild(checkout, store, tree=now.tree, commit="1" * 40, delta=b"")
    assert same is not None and same.commit == now.commit
