"""The real console script in a subprocess, on real repositories, in a clean environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.sandbox import registry
from execcritic_scaffold.store import EMPTY_TREE, Store

SCRIPT = Path(sys.executable).parent / "execcritic"
SAMPLE = resources.files("execcritic") / "sample"

TEST_FILE = b"""from spans import merge


def test_contained():
    assert merge([(1, 10), (2, 3)]) == [(1, 10)]


def test_touching():
    assert merge([(1, 2), (2, 4)]) == [(1, 4)]
"""
NODE = "tests/test_contained.py::test_contained"
COMPANION = "tests/test_contained.py::test_touching"


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Standard output, which must be exactly one JSON object."""
        body = json.loads(self.out)
        assert isinstance(body, dict)
        return body

    def sentence(self) -> str:
        """The one line on stderr of a command that failed; no traceback, nothing else."""
        lines = self.err.strip().splitlines()
        assert "Traceback" not in self.err
        assert lines, "nothing was said"
        return lines[-1]


Cli = Callable[..., Ran]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    return {
        "PATH": os.environ["PATH"],
        "VIRTUAL_ENV": os.environ["VIRTUAL_ENV"],
        "HOME": str(home),
        "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")),
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
    }


def run(
    environment: Mapping[str, str],
    cwd: Path,
    *arguments: object,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> Ran:
    """Run the console script to its end."""
    done = subprocess.run(
        [SCRIPT, *map(str, arguments)],
        cwd=cwd,
        env={**environment, **(env or {})},
        input=stdin,
        capture_output=True,
        timeout=300,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def cli(tmp_path: Path, environment: Mapping[str, str]) -> Cli:
    """Run the console script; keyword arguments: `cwd`, `env` (added), `stdin` (bytes)."""

    def call(*arguments: object, cwd: Path | None = None, **more: Any) -> Ran:
        return run(environment, cwd or tmp_path, *arguments, **more)

    return call


@pytest.fixture(scope="session")
def engine() -> str:
    """The name of the best sandbox that works here; `local` where none isolates."""
    best, _ = registry.best()
    if best is None:
        return "local"
    best.close()
    return best.name


def git(repo: Path, *arguments: str) -> str:
    """Run git in a test's own repository."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.hooksPath=/dev/null"]
    done = subprocess.run(["git", "-C", repo, *identity, *arguments], check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample repository as a git checkout with one commit; tests work on copies."""
    folder = tmp_path_factory.mktemp("template") / "repo"
    store = Store(folder.with_name("store"))
    store.materialise(store.apply(EMPTY_TREE, (SAMPLE / "repository.patch").read_bytes()), folder)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=start")
    return folder


@pytest.fixture
def repo(template: Path, tmp_path: Path) -> Path:
    return shutil.copytree(template, tmp_path / "repo")


@pytest.fixture(scope="session")
def frozen(template: Path, environment: Mapping[str, str], engine: str) -> Path:
    """A frozen bundle of the sample, made once by the real command."""
    folder = template.parent
    (folder / "issue.md").write_bytes((SAMPLE / "issue.md").read_bytes())
    (folder / "test.diff").write_bytes(diff(template, {"tests/test_contained.py": TEST_FILE}))
    ran = run(
        environment,
        folder,
        *("qualify", "--repo", template, "--issue", "issue.md", "--test-patch", "test.diff", "--node", NODE),
        *("--companion", COMPANION, "--sandbox", engine, "--repeats", 1, "--out", "bundle"),
    )
    assert ran.code == 0, ran
    return folder / "bundle"


@pytest.fixture
def bundle(frozen: Path, tmp_path: Path) -> Path:
    return shutil.copytree(frozen, tmp_path / "bundle")


@pytest.fixture
def issue(tmp_path: Path) -> Path:
    path = tmp_path / "issue.md"
    path.write_bytes((SAMPLE / "issue.md").read_bytes())
    return path


def diff(repo: Path, changes: Mapping[str, bytes]) -> bytes:
    """The patch that makes these files, relative to HEAD; the checkout is left clean."""
    for path, data in changes.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_bytes(data)
    git(repo, "add", "--all")
    patch = subprocess.run(["git", "-C", repo, "diff", "--cached", "--binary"], check=True, capture_output=True).stdout
    git(repo, "reset", "--hard", "--quiet")
    return patch


@pytest.fixture
def test_patch(repo: Path, tmp_path: Path) -> Path:
    path = tmp_path / "test.diff"
    path.write_bytes(diff(repo, {"tests/test_contained.py": TEST_FILE}))
    return path


def fixed(repo: Path) -> bytes:
    """spans/merge.py without the bug."""
    return (
        (repo / "spans/merge.py")
        .read_bytes()
        .replace(b"(merged[-1][0], end)", b"(merged[-1][0], max(merged[-1][1], end))")
    )


def call(role: str, name: str, **arguments: Any) -> dict[str, Any]:
    """A recorded reply that calls one tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": "c", "type": "function", "function": function}]
    return {"role_name": role, "role": "assistant", "content": "", "tool_calls": calls}


def recording(path: Path, *replies: Mapping[str, Any]) -> str:
    """Write a recording; returns its model specification."""
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return f"replay:{path}"
