"""Cloning: whole or not at all, no password kept, and no program of the current directory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from execcritic import clones, places
from execcritic.github.server import Server
from execcritic_scaffold import base as bases
from execcritic_scaffold import programs
from execcritic_scaffold.errors import InfrastructureError, UsageError
from execcritic_scaffold.store import Store

from .conftest import Cli, git
from .hub import TOKEN, serving_hub


def test_what_a_killed_clone_left_is_not_taken_for_the_clone(template: Path, tmp_path: Path) -> None:
    left = tmp_path / "repository.partial" / ".git"
    left.mkdir(parents=True)
    (left / "HEAD").write_text("ref: refs/heads/main\n")
    found = places.checkout(f"file://{template}", tmp_path / "repository")
    assert bases.resolve_commit(found, Store(tmp_path / "store"), "HEAD")
    assert [path.name for path in tmp_path.iterdir() if "repository" in path.name] == ["repository"]


def test_a_clone_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot be cloned"):
        clones.clone(f"file://{tmp_path}/absent", tmp_path / "repository")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_clone_is_not_there(tmp_path: Path) -> None:
    """The server takes the request and says nothing; the process is killed without any chance to clean up."""
    asked, go_on = threading.Event(), threading.Event()

    class Silent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.set()
            go_on.wait(60)

    with HTTPServer(("127.0.0.1", 0), Silent) as server:
        serving = threading.Thread(target=server.handle_request)
        serving.start()
        code = (
            "import sys, pathlib; from execcritic import clones;"
            f"clones.clone('http://127.0.0.1:{server.server_port}/r.git', pathlib.Path(sys.argv[1]))"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code, tmp_path / "repository"], start_new_session=True, stderr=subprocess.DEVNULL
        )
        assert asked.wait(60)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        go_on.set()
        serving.join()
    assert (tmp_path / "repository.partial").exists()
    assert not (tmp_path / "repository").exists()


def test_the_password_of_a_url_is_neither_kept_nor_told(template: Path, tmp_path: Path) -> None:
    clones.clone(f"file://me:secret@localhost{template}", tmp_path / "repository")
    assert b"secret" not in (tmp_path / "repository" / ".git" / "config").read_bytes()
    with pytest.raises(InfrastructureError) as raised:
        clones.clone(f"file://me:secret@localhost{tmp_path}/absent", tmp_path / "other")
    assert "secret" not in str(raised.value)


@pytest.fixture
def traps(tmp_path: Path) -> Path:
    """A stranger's repository with programs that have the names of ours, and tell when they are started."""
    for name in ("git", "unshare", "bwrap", "python3", "bash", "mount", "setpriv", "prlimit"):
        trap = tmp_path / name
        trap.write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/alarm\nexit 1\n")
        trap.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("entry", [".", "", "./"])
def test_programs_of_the_current_directory_are_not_started(cli: Cli, template: Path, traps: Path, entry: str) -> None:
    env = {"PATH": f"{entry}{os.pathsep}{os.environ['PATH']}"}
    found = {check["name"]: check["ok"] for check in cli("doctor", "--json", cwd=traps, env=env).json["checks"]}
    assert found["git"]
    code = f"import pathlib; from execcritic import clones; clones.clone('file://{template}', pathlib.Path('c'))"
    subprocess.run([sys.executable, "-P", "-c", code], cwd=traps, env=env, check=True, capture_output=True)
    nothing = ("verify", "--bundle", "absent", "--repo", ".", "--patch", "-", "--python", "python3")
    assert cli(*nothing, cwd=traps, env=env).code == 2
    assert not (traps / "alarm").exists(), (traps / "alarm").read_text()


def test_where_programs_are_looked_for(traps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(traps)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}sub{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert programs.search_path("/sbin") == "/usr/bin:/bin:/sbin"
    assert programs.find("git") not in (None, "./git", str(traps / "git"))
    assert programs.find("no-such-program") is None


class TestRevisions:
    @pytest.fixture
    def server(self, template: Path, tmp_path: Path) -> Path:
        """A bare repository: main, a branch and a tag of one name, a pull request, a commit of no branch."""
        work = shutil.copytree(template, tmp_path / "work")
        for name in ("feature", "tagged", "pull", "lost"):
            git(work, "commit", "--quiet", "--allow-empty", f"--message={name}")
            git(work, "update-ref", f"refs/made/{name}", "HEAD")
            git(work, "reset", "--quiet", "--hard", "HEAD~1")
        git(work, "branch", "feature", "refs/made/feature")
        git(work, "tag", "feature", "refs/made/tagged")
        git(work, "tag", "-m", "annotated", "v1", "refs/made/tagged")
        bare = tmp_path / "bare.git"
        git(work, "clone", "--quiet", "--bare", str(work), str(bare))
        git(work, "push", "--quiet", str(bare), "refs/made/pull:refs/pull/7/head", "refs/made/lost:refs/hidden/lost")
        git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
        return bare

    @pytest.mark.parametrize(
        ("ref", "subject"),
        [
            (None, "start"),
            ("feature", "feature"),
            ("refs/tags/feature", "tagged"),
            ("v1", "tagged"),
            ("v1~1", "start"),
            ("pull/7/head", "pull"),
            ("refs/pull/7/head", "pull"),
        ],
    )
    def test_what_a_url_has(self, server: Path, tmp_path: Path, ref: str | None, subject: str) -> None:
        clones.clone(f"file://{server}", tmp_path / "clone", ref)
        assert git(tmp_path / "clone", "log", "-1", "--format=%s", "HEAD") == subject

    def test_a_commit_that_no_branch_has(self, server: Path, tmp_path: Path) -> None:
        commit = git(server, "rev-parse", "refs/hidden/lost")
        clones.clone(f"file://{server}", tmp_path / "clone", commit)
        assert git(tmp_path / "clone", "rev-parse", "HEAD") == commit

    @pytest.mark.parametrize(
        "ref",
        ["absent", "pull/8/head", "f" * 40, "", "--upload-pack=touch alarm", "refs/heads/main:refs/heads/x", ".."],
    )
    def test_what_it_has_not(self, server: Path, tmp_path: Path, ref: str) -> None:
        with pytest.raises(UsageError, match="check --ref"):
            clones.clone(f"file://{server}", tmp_path / "clone", ref)
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(("clone", "alarm"))]

    def test_of_a_checkout_it_is_the_commit_and_not_the_files(self, server: Path, tmp_path: Path) -> None:
        checkout, store = tmp_path / "checkout", Store(tmp_path / "store")
        git(server, "clone", "--quiet", str(server), str(checkout))
        (checkout / "new.py").write_text("x = 1\n")
        base = places.snapshot(str(checkout), store, tmp_path / "unused", "HEAD")
        assert (base.commit, base.delta) == (git(checkout, "rev-parse", "HEAD"), b"")
        assert places.snapshot(str(checkout), store, tmp_path / "unused").delta
        base = places.snapshot(str(checkout), store, tmp_path / "unused", "v1")
        assert base.commit == git(checkout, "rev-parse", "v1^{commit}")
        git(checkout, "tag", "-d", "feature")
        base = places.snapshot(str(checkout), store, tmp_path / "unused", "feature")
        assert base.commit == git(checkout, "rev-parse", "origin/feature")
        with pytest.raises(UsageError, match="has no commit pull/7/head; fetch it"):
            places.snapshot(str(checkout), store, tmp_path / "unused", "pull/7/head")


@pytest.mark.parametrize(
    ("repo", "is_one"),
    [
        ("o/r", True),
        ("o/r.git", True),
        ("o", False),
        ("o/r/x", False),
        ("../r", False),
        ("o/..", False),
        ("here/r", False),
    ],
)
def test_short_names_of_repositories(repo: str, is_one: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that can be meant as a folder is one: `here` is a folder, so `here/r` is a mistyped one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    found = clones.located(repo, Server())
    assert found == ("https://github.com/o/r.git" if is_one else str(Path(repo).absolute()))


def test_a_private_repository_is_cloned_with_the_token(template: Path, tmp_path: Path) -> None:
    with serving_hub(tmp_path / "hub") as hub:
        hub.add("o/r", template)
        hub.private.add("o/r")
        with pytest.raises(InfrastructureError, match="set GITHUB_TOKEN"):
            clones.clone(f"{hub.url}/o/r.git", tmp_path / "clone", None, Server.of(hub.url, {}))
        clones.clone(f"{hub.url}/o/r.git", tmp_path / "clone", None, Server.of(None, hub.env()))
        assert hub.told == []
    record = b"".join(path.read_bytes() for path in (tmp_path / "clone").rglob("*") if path.is_file())
    assert TOKEN.encode() not in record
