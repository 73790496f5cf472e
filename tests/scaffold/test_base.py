"""Base is the checkout as it lies on disk, and nothing in the checkout is touched to find that out."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from execcritic_scaffold.base import rebuild, resolve_commit, snapshot
from execcritic_scaffold.errors import PatchError, UsageError
from execcritic_scaffold.files import EXECUTABLE, GITLINK, REGULAR, SYMLINK, Entry
from execcritic_scaffold.store import Store

Git = Callable[..., str]
Repo = Callable[..., Path]


def contents(store: Store, tree: str) -> dict[str, bytes]:
    entries = {path: entry.oid for path, entry in store.read_tree(tree).items() if entry.mode != GITLINK}
    blobs = store.read_blobs(entries.values())
    return {path: blobs[oid] for path, oid in entries.items()}


def fingerprint(folder: Path) -> dict[str, tuple[int, str]]:
    """Mode and hash of everything below a folder."""
    return {
        str(path): (path.lstat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
        for path in sorted(folder.rglob("*"))
    }


def test_a_clean_checkout_is_its_commit(repo: Repo, git: Git, store: Store) -> None:
    checkout = repo({"a.py": "x\n", "pkg/b.py": b"\xff\0", "run": "#!/bin/sh\n"})
    base = snapshot(checkout, store)
    assert (base.commit, base.tree) == (git(checkout, "rev-parse", "HEAD"), git(checkout, "rev-parse", "HEAD^{tree}"))
    assert (base.delta, base.warnings, base.environment_files) == (b"", (), {})


def test_a_dirty_checkout_is_taken_as_it_is_and_left_as_it_was(repo: Repo, git: Git, store: Store) -> None:
    checkout = repo(
        {"a.py": "x\n", "gone": "1\n", "crlf": "1\r\n", ".gitignore": "*.log\n", "swap/x": "1\n", "f": "1\n"}
    )
    (checkout / "stashed").write_text("1\n")
    git(checkout, "add", "stashed")
    git(checkout, "stash", "-q")
    (checkout / "a.py").write_bytes(b"staged\n")
    git(checkout, "add", "a.py")
    (checkout / "a.py").write_bytes(b"on disk\r\n")
    (checkout / "gone").unlink()
    (checkout / "new name.py").write_bytes(b"1")
    (checkout / "x.log").write_bytes(b"1")
    (checkout / "link").symlink_to("a.py")
    (checkout / "crlf").chmod(0o755)
    (checkout / "swap" / "x").unlink()
    (checkout / "swap").rmdir()
    (checkout / "swap").write_text("a file\n")
    (checkout / "f").unlink()
    (checkout / "f").mkdir()
    (checkout / "f" / "g").write_text("below\n")
    (checkout / ".git" / "info" / "exclude").write_text("private.txt\n")
    (checkout / "private.txt").write_text("1\n")
    before = fingerprint(checkout)

    base = snapshot(checkout, store)

    assert fingerprint(checkout) == before
    assert contents(store, base.tree) == {
        ".gitignore": b"*.log\n", "a.py": b"on disk\r\n", "crlf": b"1\r\n", "f/g": b"below\n",
        "link": b"a.py", "new name.py": b"1", "swap": b"a file\n",
    }  # fmt: skip
    modes = {path: entry.mode for path, entry in store.read_tree(base.tree).items()}
    assert (modes["link"], modes["crlf"], modes["a.py"]) == (SYMLINK, EXECUTABLE, REGULAR)
    assert store.apply(resolve_commit(checkout, store, "HEAD")[1], base.delta) == base.tree


def test_file_mode_is_what_the_disk_says(repo: Repo, git: Git, store: Store) -> None:
    checkout = repo({"run": "1\n"})
    git(checkout, "config", "core.fileMode", "false")
    (checkout / "run").chmod(0o755)
    assert store.read_tree(snapshot(checkout, store).tree)["run"].mode == EXECUTABLE


def test_a_folder_behind_a_link_is_not_followed(repo: Repo, store: Store, tmp_path: Path) -> None:
    checkout = repo({"pkg/a.py": "1\n", "b.py": "1\n"})
    (checkout / "pkg").rename(tmp_path / "elsewhere")
    (checkout / "pkg").symlink_to(tmp_path / "elsewhere")
    assert contents(store, snapshot(checkout, store).tree) == {
        "b.py": b"1\n",
        "pkg": os.fsencode(tmp_path / "elsewhere"),
    }


def test_caches_and_environments_are_no_part_of_base(repo: Repo, store: Store) -> None:
    checkout = repo({"a.py": "1\n"})
    for path in (
        "__pycache__/a.cpython-311.pyc",
        "b.pyc",
        ".pytest_cache/x",
        "env/pyvenv.cfg",
        "env/lib/x.py",
        "node_modules/x",
    ):
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text("1\n")
    assert snapshot(checkout, store).delta == b""


def test_a_plain_folder(store: Store, tmp_path: Path) -> None:
    (tmp_path / "plain" / "pkg").mkdir(parents=True)
    (tmp_path / "plain" / "pkg" / "a.py").write_text("1\n")
    (tmp_path / "plain" / ".gitignore").write_text("*.log\n")
    (tmp_path / "plain" / "x.log").write_text("1\n")
    base = snapshot(tmp_path / "plain", store)
    assert contents(store, base.tree).keys() == {"pkg/a.py", ".gitignore"}
    assert (base.commit, base.delta) == (None, b"")
    again = rebuild(tmp_path / "plain", store, tree=base.tree, commit=None, delta=b"")
    assert again is not None and again.tree == base.tree


def test_a_subfolder_of_a_repository_is_a_plain_folder(repo: Repo, store: Store) -> None:
    base = snapshot(repo({"sub/a.py": "1\n", "b.py": "1\n"}) / "sub", store)
    assert (contents(store, base.tree), base.commit) == ({"a.py": b"1\n"}, None)


def test_linked_work_trees_and_submodules_have_a_git_file(repo: Repo, git: Git, store: Store, tmp_path: Path) -> None:
    checkout = repo({"a.py": "1\n", ".gitignore": "*.log\n"})
    git(checkout, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    (tmp_path / "linked" / "new.py").write_text("2\n")
    git(tmp_path / "linked", "add", "new.py")
    git(tmp_path / "linked", "commit", "-qm", "side")
    base = snapshot(tmp_path / "linked", store)
    assert (base.commit, base.delta) == (git(checkout, "rev-parse", "side"), b"")

    outer = repo({"o.py": "1\n"}, "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(checkout), "sub")
    git(outer, "commit", "-qm", "sub")
    inner = snapshot(outer / "sub", store)
    assert (inner.commit, inner.delta) == (git(checkout, "rev-parse", "main"), b"")
    whole = snapshot(outer, store)
    assert whole.delta == b"" and store.read_tree(whole.tree)["sub"] == Entry(GITLINK, inner.commit or "")
    assert whole.warnings == (
        "sub is a submodule: its files are not part of Base; copy them into the repository if needed.",
    )


def test_a_git_directory_of_links(repo: Repo, git: Git, store: Store, tmp_path: Path) -> None:
    checkout = repo({"a.py": "1\n"})
    git(checkout, "pack-refs", "--all")
    (tmp_path / "linked" / ".git").mkdir(parents=True)
    for name in ("objects", "refs", "packed-refs", "config"):
        (tmp_path / "linked" / ".git" / name).symlink_to(checkout / ".git" / name)
    for name in ("HEAD", "index"):
        (tmp_path / "linked" / ".git" / name).write_bytes((checkout / ".git" / name).read_bytes())
    (tmp_path / "linked" / "a.py").write_text("1\n")
    base = snapshot(tmp_path / "linked", store)
    assert (base.commit, base.delta) == (git(checkout, "rev-parse", "HEAD"), b"")


def test_split_and_sparse_indexes(repo: Repo, git: Git, store: Store) -> None:
    checkout = repo({"a.py": "1\n", "in/b.py": "1\n", "out/c.py": "1\n", "out/d.py": "1\n"})
    git(checkout, "update-index", "--split-index")
    (checkout / "in" / "b.py").write_text("2\n")
    git(checkout, "add", "-A")
    assert contents(store, snapshot(checkout, store).tree).keys() == {"a.py", "in/b.py", "out/c.py", "out/d.py"}
    git(checkout, "update-index", "--no-split-index")
    git(checkout, "sparse-checkout", "set", "--cone", "--sparse-index", "in")
    base = snapshot(checkout, store)
    assert contents(store, base.tree).keys() == {"a.py", "in/b.py"}
    assert base.warnings[0].startswith("out/c.py (like 1 more) is left out by the sparse checkout")


def test_what_base_cannot_hold_is_said(repo: Repo, git: Git, store: Store) -> None:
    checkout = repo({"a.py": "1\n", "big.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n"})
    os.mkfifo(checkout / "pipe")
    (checkout / "a.py").unlink()
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.relpath(checkout / "a.py"))
    server.close()
    (checkout / "nested").mkdir()
    git(checkout / "nested", "init", "-q")
    (checkout / "nested" / "x.py").write_text("1\n")
    base = snapshot(checkout, store)
    assert base.warnings == (
        "nested is a repository of its own: its files are not part of Base; remove its .git folder to add them.",
        "big.bin is a Git LFS pointer, not the content; run `git lfs pull` if the tests need it.",
        "a.py (like 1 more) is a socket, pipe or device and is not part of Base; remove it if it is not needed.",
    )
    assert contents(store, base.tree).keys() == {"big.bin"}


def test_unborn_head(git: Git, store: Store, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q")
    (tmp_path / "new" / "a.py").write_text("1\n")
    base = snapshot(tmp_path / "new", store)
    assert (contents(store, base.tree), base.commit, base.delta) == ({"a.py": b"1\n"}, None, b"")


def test_unusable_folders_get_a_clear_answer(git: Git, store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"There is no .*missing; give"):
        snapshot(tmp_path / "missing", store)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is not a folder"):
        snapshot(tmp_path / "file", store)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no files"):
        snapshot(tmp_path / "empty", store)
    git(tmp_path, "init", "-q", "--bare", "bare")
    with pytest.raises(UsageError, match="bare repository"):
        snapshot(tmp_path / "bare", store)
    git(tmp_path, "init", "-q", "--object-format=sha256", "new")
    with pytest.raises(UsageError, match="SHA-256"):
        snapshot(tmp_path / "new", store)
    (tmp_path / "empty" / ".git").write_text("gitdir: /nonexistent\n")
    with pytest.raises(UsageError, match="not a git directory"):
        snapshot(tmp_path / "empty", store)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(repo: Repo, store: Store) -> None:
    checkout = repo({"a.py": "1\n"})
    (checkout / "a.py").chmod(0)
    with pytest.raises(UsageError, match=r"a\.py cannot be read"):
        snapshot(checkout, store)


def test_paths_that_no_tree_can_hold(store: Store, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "git~1").write_text("1\n")
    with pytest.raises(PatchError, match="git~1"):
        snapshot(tmp_path / "plain", store)
