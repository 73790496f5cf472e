"""From an agent's workspace to a patch, whatever the agent did to git."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from execcritic_scaffold.base import Base, snapshot
from execcritic_scaffold.disk import Disk
from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.extract import Extraction, extract
from execcritic_scaffold.files import Entry
from execcritic_scaffold.store import Store

Git = Callable[..., str]
Repo = Callable[..., Path]
Manifest = Callable[[Path], dict[str, Entry]]
Workspace = tuple[Base, Path]
Extract = Callable[[Base, Path], Extraction]


@pytest.fixture
def extraction(manifest: Manifest) -> Callable[[Base, Path], Extraction]:
    """`extraction(base, folder)`: the patch from a folder that stands for a session's workspace."""

    def call(base: Base, workspace: Path) -> Extraction:
        disk = Disk(workspace)

        def read(path: str, limit: int) -> bytes:
            file = disk.file(path)
            if file is None:
                raise FileNotFoundError(path)
            return file.data

        return extract(base.store, base.tree, manifest(workspace), read, base.ignored)

    return call


@pytest.fixture
def workspace(repo: Repo, git: Git, tmp_path: Path, store: Store) -> Workspace:
    """Base, and a copy of it for the agent with a git directory of its own."""
    files = {
        "gauge/span.py": "x = 1\n",
        "gauge/tool": "#!/bin/sh\n",
        ".gitignore": "*.log\n/scratch/\n",
        "docs/.gitignore": "_build\n",
    }
    base = snapshot(repo(files), store)
    base.store.materialise(base.tree, tmp_path / "work")
    git(tmp_path / "work", "init", "-q")
    git(tmp_path / "work", "add", "-A")
    git(tmp_path / "work", "commit", "-qm", "base")
    return base, tmp_path / "work"


def write(folder: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def test_commits_index_and_branches_do_not_matter(
    workspace: Workspace, git: Git, extraction: Extract, manifest: Manifest
) -> None:
    base, work = workspace
    write(work, {"committed.py": b"1\n"})
    git(work, "add", "-A")
    git(work, "commit", "-qm", "mine")
    write(work, {"staged.py": b"2\n", "untracked.py": b"3\n", "gauge/span.py": b"x = 2\r\n"})
    git(work, "add", "staged.py")
    git(work, "checkout", "-q", "-b", "other")
    git(work, "config", "core.fileMode", "false")
    (work / "gauge" / "tool").chmod(0o755)
    (work / "link").symlink_to("gauge/span.py")
    (work / "docs" / ".gitignore").unlink()

    got = extraction(base, work)

    assert base.store.apply(base.tree, got.patch) == got.tree
    changed = base.store.changes(base.tree, got.tree)
    assert changed.keys() == {
        "committed.py", "staged.py", "untracked.py", "gauge/span.py", "gauge/tool", "link", "docs/.gitignore"
    }  # fmt: skip
    assert base.store.read_tree(got.tree) == manifest(work)
    assert got.dropped == ()


def test_an_untouched_workspace_is_an_empty_patch(workspace: Workspace, extraction: Extract) -> None:
    base, work = workspace
    assert extraction(base, work) == Extraction(base.tree, b"", ())


def test_ignored_files_and_leftovers_are_dropped_and_listed(workspace: Workspace, extraction: Extract) -> None:
    base, work = workspace
    leftovers = {
        "run.log", "scratch/try.py", "docs/_build/index.html", "gauge/__pycache__/span.cpython-311.pyc", "gauge/x.pyc",
        ".pytest_cache/README.md", "gauge.egg-info/PKG-INFO", ".coverage", "build/lib/gauge/span.py", "gauge/fast.so",
        "gauge/span.py.orig", "env/pyvenv.cfg", "env/lib/x.py", "node_modules/x/index.js",
    }  # fmt: skip
    write(work, dict.fromkeys(leftovers, b"x\n"))
    write(work, {"new.py": b"x\n", "gauge/build/lib.py": b"x\n", "docs/build.rst": b"x\n"})

    got = extraction(base, work)

    assert set(got.dropped) == leftovers
    assert base.store.changes(base.tree, got.tree).keys() == {"new.py", "gauge/build/lib.py", "docs/build.rst"}


def test_tracked_files_stay_although_they_are_ignored(
    repo: Repo, store: Store, tmp_path: Path, extraction: Extract
) -> None:
    base = snapshot(repo({"keep.log": "1\n", "build/lib/x.py": "1\n", ".gitignore": "*.log\n"}), store)
    store.materialise(base.tree, tmp_path / "work")
    write(tmp_path / "work", {"keep.log": b"2\n", "build/lib/x.py": b"2\n"})
    assert store.changes(base.tree, extraction(base, tmp_path / "work").tree).keys() == {"keep.log", "build/lib/x.py"}


def test_an_agent_cannot_change_what_is_ignored(workspace: Workspace, extraction: Extract) -> None:
    base, work = workspace
    write(work, {".gitignore": b"*\n", "kept.py": b"1\n", ".git/info/exclude": b"*\n"})
    assert base.store.changes(base.tree, extraction(base, work).tree).keys() == {".gitignore", "kept.py"}


@pytest.mark.parametrize("folder", ["vendor/helper", "gauge"])
def test_a_nested_repository_is_refused_by_name(
    workspace: Workspace, folder: str, git: Git, extraction: Extract
) -> None:
    base, work = workspace
    write(work, {f"{folder}/helper.py": b"1\n"})
    git(work / folder, "init", "-q")
    with pytest.raises(PatchError, match=f"{folder} is a nested repository"):
        extraction(base, work)


def test_a_nested_repository_in_ignored_places_is_dropped(workspace: Workspace, git: Git, extraction: Extract) -> None:
    base, work = workspace
    write(work, {"scratch/clone/helper.py": b"1\n"})
    git(work / "scratch" / "clone", "init", "-q")
    assert extraction(base, work) == Extraction(base.tree, b"", ("scratch/clone",))


def test_submodules_of_base_stay_and_cannot_be_filled(
    repo: Repo, store: Store, tmp_path: Path, git: Git, extraction: Extract
) -> None:
    checkout = repo({"a": "1\n"})
    git(checkout, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    base = snapshot(checkout, store)
    store.materialise(base.tree, tmp_path / "work")
    assert extraction(base, tmp_path / "work").patch == b""
    write(tmp_path / "work", {"sub/x.py": b"1\n"})
    with pytest.raises(PatchError, match="sub is a nested repository"):
        extraction(base, tmp_path / "work")


def test_only_what_differs_is_read(workspace: Workspace, manifest: Manifest) -> None:
    base, work = workspace
    write(work, {"gauge/span.py": b"x = 2\n"})
    asked: list[str] = []

    def read(path: str, limit: int) -> bytes:
        asked.append(path)
        return (work / path).read_bytes()

    extract(base.store, base.tree, manifest(work), read, base.ignored)
    assert asked == ["gauge/span.py"]


@pytest.mark.parametrize("path", ["../out", "/etc/x", ".git/hooks/x", "a/../../x"])
def test_a_lying_manifest_cannot_leave_the_tree(workspace: Workspace, path: str, manifest: Manifest) -> None:
    base, work = workspace
    entries = manifest(work) | {path: Entry("100644", "1" * 40)}
    with pytest.raises(PatchError, match="only paths inside"):
        extract(base.store, base.tree, entries, lambda *_: b"x", base.ignored)


def test_files_that_vanish_and_odd_modes_get_a_clear_answer(workspace: Workspace, manifest: Manifest) -> None:
    base, work = workspace
    with pytest.raises(PatchError, match=r"gone\.py vanished"):
        extract(base.store, base.tree, {"gone.py": Entry("100644", "1" * 40)}, missing, base.ignored)
    with pytest.raises(PatchError, match="mode 040000"):
        extract(base.store, base.tree, manifest(work) | {"d": Entry("040000", "1" * 40)}, lambda *_: b"", base.ignored)


def test_changed_files_are_bounded_in_all_and_the_surplus_is_not_read(workspace: Workspace, manifest: Manifest) -> None:
    base, work = workspace
    write(work, {f"data/{name}": b"x" * 400 for name in ("a", "b", "c")})
    limits: list[int] = []

    def read(path: str, limit: int) -> bytes:
        limits.append(limit)
        if (work / path).stat().st_size > limit:
            raise OSError(errno.EFBIG, "too large", path)
        return (work / path).read_bytes()

    with pytest.raises(PatchError, match="With data/c the changed files hold more than"):
        extract(base.store, base.tree, dict(sorted(manifest(work).items())), read, base.ignored, limit=1000)
    assert limits == [1000, 600, 200]


def missing(path: str, limit: int) -> bytes:
    return Path("/nonexistent", path).read_bytes()
