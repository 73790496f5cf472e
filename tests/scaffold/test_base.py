"""Base is the checkout as it lies on disk, and nothing in the checkout is touched to find that out."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.base import diff_of, rebuild, resolve_commit, snapshot
from execcritic_scaffold.errors import PatchError, UsageError
from execcritic_scaffold.files import EXECUTABLE, GITLINK, REGULAR, SYMLINK, Entry, File
from execcritic_scaffold.store import EMPTY_TREE, Store

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


def test_environment_files(repo: Repo, store: Store) -> None:
    taken = {"pkg/_version.py", "pkg/fast.so", "pkg.egg-info/PKG-INFO", "generated/deep/parser.py"}
    left = {
        ".env", "pkg/data.bin", "pkg/local_settings.py", "secrets.py", "pkg/__pycache__/x.py", "build/lib/x.py",
        ".tox/x.py", "venv/pyvenv.cfg", "venv/lib/x.py", "node_modules/x.py", "dist/x.py", "generated/.hidden.py",
        "ssh/credentials.py", "generated/clone/.git/HEAD", "generated/clone/x.py",
    }  # fmt: skip
    rules = (
        ".env\n*.bin\n_version.py\n*.so\n*.egg-info\n/generated/\n*settings.py\nsecrets.py\nbuild\ndist\n.tox\nvenv\n"
    )
    checkout = repo({"pkg/a.py": "1\n", ".gitignore": rules + "node_modules\nssh\n__pycache__\n"})
    for path in taken | left:
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text(path)
    (checkout / "generated" / "link.py").symlink_to("/etc/passwd")
    base = snapshot(checkout, store)
    assert base.environment_files == {path: File(path.encode()) for path in taken}
    assert base.delta == b""
    assert base.ignored(["x.so", "pkg/b.py", ":x.bin", "generated/new.py"]) == {"x.so", ":x.bin", "generated/new.py"}


def test_environment_files_are_bounded(repo: Repo, store: Store) -> None:
    checkout = repo({".gitignore": "gen\n"})
    (checkout / "gen").mkdir()
    for number in range(2001):
        (checkout / "gen" / f"m{number:04}.py").touch()
    base = snapshot(checkout, store)
    assert len(base.environment_files) == 2000
    assert "gen/m2000.py" in base.warnings[0]


def test_environment_files_need_no_gitignore(repo: Repo, store: Store) -> None:
    checkout = repo({"a.py": "1\n"})
    (checkout / ".git" / "info" / "exclude").write_text("local.py\n")
    (checkout / "local.py").write_text("1\n")
    base = snapshot(checkout, store)
    assert base.environment_files.keys() == {"local.py"}
    assert base.ignored(["local.py", "other.py"]) == {"local.py"}


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


def test_paths_that_no_tree_can_hold(store: Store, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "git~1").write_text("1\n")
    with pytest.raises(PatchError, match="git~1"):
        snapshot(tmp_path / "plain", store)
