"""A checkout whose git configuration, hooks, attributes and nested repositories would execute code: none is."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from execcritic_scaffold.base import diff_of, rebuild, resolve_commit, snapshot
from execcritic_scaffold.store import Store

Git = Callable[..., str]
Repo = Callable[..., Path]

HOOKS = (
    "post-index-change",
    "pre-commit",
    "post-checkout",
    "reference-transaction",
    "fsmonitor-watchman",
    "pre-auto-gc",
)
ATTRIBUTES = "* filter=evil diff=evil merge=evil text=auto eol=crlf ident\n"


def arm(checkout: Path, marker: Path) -> None:
    """Everything in a git directory that runs a command, set to leave `marker`."""
    trap = checkout / ".git" / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch '{marker}'\ncat\n")
    trap.chmod(0o755)
    config = checkout / ".git" / "config"
    included = checkout / ".git" / "included"
    included.write_text(f"[core]\n\tfsmonitor = {trap}\n")
    settings = f"""
[core]
	fsmonitor = {trap}
	hooksPath = {checkout / ".git" / "hooks"}
	pager = {trap}
	sshCommand = {trap}
	gitProxy = {trap}
	alternateRefsCommand = {trap}
	worktree = /
[include]
	path = {included}
[extensions]
	partialClone = evil
[remote "evil"]
	url = ext::{trap}
	promisor = true
	uploadpack = {trap}
[protocol]
	allow = always
[filter "evil"]
	clean = {trap}
	smudge = {trap}
	process = {trap}
	required = true
[diff]
	external = {trap}
[diff "evil"]
	textconv = {trap}
	command = {trap}
[merge "evil"]
	driver = {trap}
[credential]
	helper = {trap}
"""
    config.write_text(config.read_text() + settings)
    for hook in HOOKS:
        (checkout / ".git" / "hooks").mkdir(exist_ok=True)
        (checkout / ".git" / "hooks" / hook).write_text(trap.read_text())
        (checkout / ".git" / "hooks" / hook).chmod(0o755)
    (checkout / ".git" / "info").mkdir(exist_ok=True)
    (checkout / ".git" / "info" / "attributes").write_text(ATTRIBUTES)


@pytest.fixture
def hostile(repo: Repo, git: Git, tmp_path: Path) -> tuple[Path, Path]:
    """A dirty checkout with a nested repository and one that is tracked as a submodule, all armed; and the marker."""
    marker = tmp_path / "PWNED"
    checkout = repo({"a.py": "x = 1\n$Id$\n", ".gitattributes": ATTRIBUTES, ".gitignore": "ignored\n"})
    for folder in ("nested", "tracked", "ignored/deep"):
        inner = repo({"h.py": "1\n", ".gitattributes": ATTRIBUTES}, f"repo/{folder}")
        (inner / "h.py").write_text("2\n")
        arm(inner, marker)
    git(
        checkout,
        "update-index",
        "--add",
        "--cacheinfo",
        f"160000,{git(checkout / 'nested', 'rev-parse', 'HEAD')},tracked",
    )
    git(checkout, "commit", "-qm", "more")
    (checkout / "a.py").write_bytes(b"x = 2\n$Id$\n")
    (checkout / "new.py").write_bytes(b"1\r\n")
    arm(checkout, marker)
    assert not marker.exists()
    return checkout, marker


def test_nothing_is_executed_and_no_byte_changed(hostile: tuple[Path, Path], store: Store, tmp_path: Path) -> None:
    checkout, marker = hostile
    base = snapshot(checkout, store)
    commit, tree = resolve_commit(checkout, store, "HEAD")
    diff_of(checkout, store, "HEAD", None)
    diff_of(checkout, store, "HEAD", "HEAD~1")
    assert rebuild(checkout, store, tree=base.tree, commit=commit, delta=base.delta) is not None
    assert resolve_commit(checkout, store, "HEAD")[1] == store.edit(tree, {})
    assert base.ignored(["ignored/x", "b.py"]) == {"ignored/x"}
    store.materialise(base.tree, tmp_path / "out")

    assert not marker.exists()
    blobs = {
        path: store.read_blob(entry.oid) for path, entry in store.read_tree(base.tree).items() if path != "tracked"
    }
    assert blobs == {
        ".gitattributes": ATTRIBUTES.encode(),
        ".gitignore": b"ignored\n",
        "a.py": b"x = 2\n$Id$\n",
        "new.py": b"1\r\n",
    }
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir() if p.is_file()} == blobs
    assert b"-x = 1\n+x = 2\n" in base.delta


def test_the_traps_are_real(hostile: tuple[Path, Path]) -> None:
    checkout, marker = hostile
    subprocess.run(["git", "-c", "core.worktree=", "status"], cwd=checkout, capture_output=True)
    assert marker.exists()


def test_a_missing_object_is_not_fetched(hostile: tuple[Path, Path], git: Git, store: Store) -> None:
    checkout, marker = hostile
    oid = git(checkout, "--no-optional-locks", "-c", "core.fsmonitor=false", "rev-parse", "HEAD:a.py")
    (checkout / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    marker.unlink(missing_ok=True)
    assert "cannot be read in full" in snapshot(checkout, store).warnings[-1]
    assert not marker.exists()


def test_links_and_pipes_in_the_git_directory_are_not_opened(repo: Repo, store: Store) -> None:
    checkout = repo({"a.py": "1\n"})
    os.mkfifo(checkout / ".git" / "refs" / "heads" / "pipe")
    (checkout / ".git" / "refs" / "heads" / "link").symlink_to("/etc/passwd")
    (checkout / ".git" / "packed-refs").symlink_to("/dev/zero")
    assert snapshot(checkout, store).delta == b""


def test_a_checkout_of_another_owner(repo: Repo, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = repo({"a.py": "1\n"})
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    (checkout / "a.py").write_text("2\n")
    assert b"+2\n" in snapshot(checkout, store).delta
