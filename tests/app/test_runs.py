"""The run directory: what is made, what is made up for after a crash, and that nothing of the user's is removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from execcritic import folders
from execcritic.runs import Run
from execcritic_scaffold.bundle import FrozenBundle

from .conftest import Cli


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_broken_run_leaves_nothing_of_its_own(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "a" / "b")
    run.write("issue.md", b"x")
    run.path("test", "trajectory.jsonl").write_bytes(b"")
    run.path("repository").mkdir()
    run.close()
    run.drop_unused()
    assert names(tmp_path) == set()


def test_a_broken_run_removes_nothing_of_the_user_s(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    run = Run.create(mine / "run")
    (mine / "run" / "notes.txt").write_text("typed while it ran")
    run.write("issue.md", b"x")
    run.close()
    run.drop_unused()
    assert names(mine / "run") == {"notes.txt"}
    (mine / "run" / "notes.txt").unlink()
    run = Run.create(mine / "run")  # a folder that is there already, and empty, stays
    run.close()
    run.drop_unused()
    assert names(mine / "run") == set()


def test_a_run_that_can_be_resumed_is_kept(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    run.write_json("manifest.json", {})
    run.close()
    run.drop_unused()
    assert {"manifest.json", "journal.jsonl"} <= names(tmp_path / "run")


def test_a_refused_qualification_leaves_the_folders_that_were_there(
    cli: Cli, issue: Path, test_patch: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine" / "out").mkdir(parents=True)
    broken = ("qualify", "--repo", tmp_path / "absent", "--issue", issue, "--test-patch", test_patch, "--node", "t::t")
    assert cli(*broken, "--out", tmp_path / "mine" / "out").code == 2
    assert (tmp_path / "mine" / "out").is_dir()
    assert cli(*broken, "--out", tmp_path / "new" / "out").code == 2
    assert not (tmp_path / "new").exists()


def test_a_crash_between_bundle_and_diff_is_made_up_for(tmp_path: Path, frozen: Path) -> None:
    bundle = FrozenBundle.load(frozen)
    run = Run.create(tmp_path / "run")
    run.write_json("manifest.json", {})
    bundle.save(run.path("test", "bundle"))  # and here the process was killed
    run.close()
    resumed = Run.reopen(tmp_path / "run")
    gate = resumed.gate()
    resumed.close()
    assert gate is not None
    assert gate.bundle == bundle
    assert (tmp_path / "run" / "test.patch").read_bytes() == bundle.blob(bundle.record.test_patch)


def test_the_journal_and_the_result_hold_no_password_of_a_url(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    run.log("run.broken", {"error": "https://me:secret@host/v1 is unreachable"})
    run.write_json("verdict.json", {"stopped": {"reason": "https://me:secret@host/v1?api_key=other&a=b answers 500"}})
    run.close()
    record = (tmp_path / "run" / "journal.jsonl").read_text() + (tmp_path / "run" / "verdict.json").read_text()
    assert "secret" not in record
    assert "other" not in record
    assert "https://***@host/v1?api_key=***&a=b answers 500" in record
    assert json.loads((tmp_path / "run" / "verdict.json").read_bytes())


@pytest.mark.parametrize("name", ["out", "deep/er/out"])
def test_folders_that_were_made_are_known(tmp_path: Path, name: str) -> None:
    made = folders.make_new(tmp_path / name)
    assert made[-1] == tmp_path / name
    folders.drop_empty(made)
    assert names(tmp_path) == set()
