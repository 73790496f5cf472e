"""Public bug reports (../shared/bugcases) about extracting and applying patches, and about git on the host."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.base import snapshot
from execcritic_scaffold.disk import Disk
from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.extract import extract
from execcritic_scaffold.files import Entry
from execcritic_scaffold.store import Store

CASES = Path(__file__).resolve().parents[3] / "shared" / "bugcases"

Case = dict[str, Any]

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="../shared/bugcases is not here")


def load(*stages: str) -> list[Any]:
    cases = [json.loads(file.read_text()) for file in sorted(CASES.glob("*/case.json"))]
    chosen = [case for case in cases if case["stage"] in stages]
    return [pytest.param(case, id=case["id"]) for case in chosen]


@pytest.fixture
def checkout(case: Case, tmp_path: Path, git: Callable[..., str]) -> Path:
    """The case's repository with one commit."""
    tree = tmp_path / "repo"
    shutil.copytree(CASES / case["id"] / case["repo"], tree, symlinks=True)
    git(tree, "init", "-q")
    git(tree, "add", "-A", "-f")
    git(tree, "commit", "-qm", "base")
    return tree


def setup(case: Case, checkout: Path) -> None:
    if "setup" in case:
        subprocess.run(["bash", CASES / case["id"] / case["setup"]], cwd=checkout, check=True, capture_output=True)


def patch(case: Case) -> bytes:
    return Path(CASES, case["id"], case["patch"]).read_bytes()


@pytest.mark.parametrize("case", load("extract", "hostgit"))
def test_extraction_gives_the_tree(
    case: Case,
    checkout: Path,
    store: Store,
    git: Callable[..., str],
    manifest: Callable[[Path], dict[str, Entry]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = snapshot(checkout, store)
    setup(case, checkout)
    if "patch" in case:
        git(checkout, "-c", "apply.whitespace=nowarn", "apply", "--binary", str(CASES / case["id"] / case["patch"]))
    for name, value in case.get("env", {}).items():
        monkeypatch.setenv(name, value)

    def read(path: str, limit: int) -> bytes:
        file = Disk(checkout).file(path)
        assert file is not None
        return file.data

    if case["expected"]["verdict"] == "REJECT" and "nested_repository" in case["expected"]["reason_any_of"]:
        with pytest.raises(PatchError, match=r"vendor/helper is a nested repository"):
            extract(store, base.tree, manifest(checkout), read, base.ignored)
        return

    found = extract(store, base.tree, manifest(checkout), read, base.ignored)

    tree, text = found.tree, found.patch
    assert text
    assert found.dropped == ()
    assert store.read_tree(tree) == manifest(checkout)
    assert store.apply(base.tree, text) == tree
    if "patch" in case:
        assert store.apply(base.tree, patch(case)) == tree
        assert text == patch(case)
    assert snapshot(checkout, store).tree == tree
    assert not (Path(os.environ["HOME"]) / "PWNED").exists()


@pytest.mark.parametrize("case", load("apply"))
def test_a_patch_is_applied_whole_or_refused_whole(case: Case, checkout: Path, store: Store) -> None:
    setup(case, checkout)
    base = snapshot(checkout, store).tree
    expected = case["expected"]
    try:
        tree = store.apply(base, patch(case))
    except PatchError as error:
        assert "REJECT" in (expected["verdict"], expected.get("or"))
        assert re.search(r"[Ll]ine \d+ of the patch|already exists", str(error))
        return
    assert expected["verdict"] != "REJECT"
    changed = store.changes(base, tree)
    assert changed and store.diff(base, tree) == patch(case)


@pytest.mark.parametrize("case", load("apply"))
def test_a_stripped_patch_is_refused_whole(case: Case, checkout: Path, store: Store) -> None:
    setup(case, checkout)
    with pytest.raises(PatchError):
        store.apply(snapshot(checkout, store).tree, patch(case).strip())


@pytest.mark.parametrize("case", load("leak"))
def test_no_history_reaches_the_store(case: Case, checkout: Path, store: Store) -> None:
    setup(case, checkout)
    base = snapshot(checkout, store)
    objects = store.git.run("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)").decode()
    kinds = dict(line.split() for line in objects.splitlines())
    blobs = {entry.oid for entry in store.read_tree(base.tree).values()}
    assert {oid for oid, kind in kinds.items() if kind == "blob"} == blobs
    assert set(kinds.values()) == {"blob", "tree"}
    assert not any(b"SECRET_FIX" in data for data in store.read_blobs(blobs).values())
    others = {path.name for path in store.directory.rglob("*") if path.is_file() and "objects" not in path.parts}
    assert others == {"HEAD", "attributes", "config", "writing"}
    assert not (store.directory / "objects" / "info" / "alternates").exists()
