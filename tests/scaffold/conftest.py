"""Fixtures of the scaffold's tests: real git repositories, made without the user's configuration."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from execcritic_scaffold.disk import Disk
from execcritic_scaffold.files import GITLINK, Entry
from execcritic_scaffold.store import Store, blob_id
from tests.scaffold.harness import Lab, open_lab


@pytest.fixture(autouse=True)
def no_user_configuration(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git as called by tests sees an empty HOME and a fixed identity."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "tester")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "tester@invalid")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def git() -> Callable[..., str]:
    """`git(folder, *arguments)`: the user's own git, as they would call it; its output, stripped."""

    def call(folder: Path, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
        return done.stdout.decode().strip()

    return call


@pytest.fixture
def repo(tmp_path: Path, git: Callable[..., str]) -> Callable[..., Path]:
    """`repo({path: bytes or text})`: a git checkout with these files in one commit."""

    def make(files: Mapping[str, bytes | str], name: str = "repo") -> Path:
        root = tmp_path / name
        for path, data in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data.encode() if isinstance(data, str) else data)
        git(root, "init", "-q", "-b", "main")
        git(root, "add", "-A", "-f")
        git(root, "commit", "-qm", "base")
        return root

    return make


@pytest.fixture
def manifest() -> Callable[[Path], dict[str, Entry]]:
    """`manifest(folder)`: what `Session.manifest` gives for a workspace: every file and link with mode and blob id,
    a nested repository by its path alone."""

    def walk(workspace: Path) -> dict[str, Entry]:
        disk = Disk(workspace)
        entries: dict[str, Entry] = {}
        for above, folders, names in os.walk(workspace):
            relative = Path(above).relative_to(workspace)
            if ".git" in folders + names and above != str(workspace):
                entries[str(relative)] = Entry(GITLINK, "0" * 40)
                folders.clear()
                continue
            folders[:] = [name for name in folders if name != ".git"]
            for path in (str(relative / name) for name in names + folders):
                if (file := disk.file(path)) is not None:
                    entries[path] = Entry(file.mode, blob_id(file.data))
        return entries

    return walk


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Where the harness's tests open their repositories."""
    with open_lab(tmp_path_factory.mktemp("lab")) as opened:
        yield opened
