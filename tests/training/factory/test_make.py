"""The whole factory on a tiny package: real sandboxes, real pytest, the harness's own verdicts on what comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.agents import Submission
from execcritic_scaffold.base import Base, snapshot
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.outcome import Decision
from execcritic_scaffold.qualify import qualify
from execcritic_scaffold.settings import QualifySettings, VerifySettings
from execcritic_scaffold.site import open_site
from execcritic_scaffold.store import Store
from execcritic_scaffold.task import EnvironmentSpec
from execcritic_scaffold.verify import verify
from execcritic_training.factory.__main__ import main
from execcritic_training.factory.journal import Journal
from tests.scaffold.harness import Lab, open_lab
from tests.training.factory import tiny

LINE = {"instance_id": "a", "family": "flag", "split": "train"}


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "instances.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with open_lab(tmp_path_factory.mktemp("lab")) as opened:
        yield opened


@pytest.fixture(scope="module")
def made(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(the package, the data set)."""
    repo = tiny.write(tmp_path_factory.mktemp("package"))
    out = tmp_path_factory.mktemp("set") / "first"
    assert main([str(repo), "--out", str(out), "--sandbox", lab.sandbox.name, "--json"]) == 0
    return repo, out


@pytest.mark.slow
def test_rows_are_complete_and_apart(made: tuple[Path, Path]) -> None:
    found = rows(made[1])
    assert len(found) >= 3
    assert len({row["instance_id"] for row in found}) == len(found)
    by_split: dict[str, tuple[set[str], set[str]]] = {"train": (set(), set()), "test": (set(), set())}
    for row in found:
        families, functions = by_split[row["split"]]
        families.update(row["family"].split("+"))
        functions.add(row["function"])
        assert {one["local_resolved"] for one in row["candidate_patches"]} == {True, False}
        assert not set(row["FAIL_TO_PASS"]) & set(row["PASS_TO_PASS"])
        for node in row["FAIL_TO_PASS"]:
            assert node.split("[")[0].split("::")[-1] not in row["problem_statement"]
        for line in row["gold_patch"].splitlines():
            if line.startswith("+") and not line.startswith("+++") and len(line.split()) > 2:
                assert line[1:].strip() not in row["problem_statement"]
    assert not by_split["train"][0] & by_split["test"][0]
    assert not by_split["train"][1] & by_split["test"][1]


@pytest.mark.slow
def test_the_same_bytes_again_whatever_the_jobs_and_after_an_interruption(
    made: tuple[Path, Path], lab: Lab, tmp_path: Path
) -> None:
    repo, out = made
    again = tmp_path / "again"
    command = [str(repo), "--out", str(again), "--sandbox", lab.sandbox.name, "--jobs", "3", "--limit", "2"]
    assert main(command) == 0
    assert len(rows(again)) == 2
    # As if killed: rows whose function was not noted, and half a line.
    with (again / "instances.jsonl").open("a") as file:
        file.write('{"instance_id": "lost"}\n{"insta')
    assert main(command[:-2]) == 0
    assert (again / "instances.jsonl").read_bytes() == (out / "instances.jsonl").read_bytes()
    with pytest.raises(UsageError, match="other options"):
        Journal(again, {"seed": 7})


@pytest.mark.slow
def test_gold_undoes_it_and_the_harness_agrees_with_every_label(made: tuple[Path, Path], lab: Lab) -> None:
    repo, out = made
    store = Store(lab.folder / "rows")
    original = snapshot(repo, store).tree
    for row in rows(out)[:3]:
        base = store.apply(original, row["base_patch"].encode())
        tests = store.apply(base, row["test_patch"].encode())
        assert store.apply(tests, row["gold_patch"].encode()) == original
        site = open_site(
            Base(store, base, None, b"", {}, ()), lab.sandbox, EnvironmentSpec(), cache=lab.folder / "cache"
        )
        common: dict[str, Any] = {"guard": "list", "guard_nodes": tuple(row["PASS_TO_PASS"])}
        offered = Submission(row["test_patch"].encode(), tuple(row["FAIL_TO_PASS"]), author="person")
        answer = qualify(site, offered, row["problem_statement"], QualifySettings(**common))
        assert answer.bundle is not None, answer.detail
        patches = [(row["gold_patch"], True)]
        patches += [(one["patch"], one["local_resolved"]) for one in row["candidate_patches"][:2]]
        for patch, right in patches:
            verdict = verify(site, answer.bundle, patch.encode(), VerifySettings(**common))
            assert verdict.decision is (Decision.PASS if right else Decision.FAIL), verdict.detail


def test_a_journal_cuts_off_what_was_not_finished(tmp_path: Path) -> None:
    journal = Journal(tmp_path, {"seed": 1})
    journal.add("p/f", "p", [LINE], {"tried": {}, "dropped": {}})
    journal.close()
    for name, torn in (("instances.jsonl", '{"instance_id": "b"}\n{"x'), ("journal.jsonl", '{"function"')):
        with (tmp_path / name).open("a") as file:
            file.write(torn)
    journal = Journal(tmp_path, {"seed": 1})
    assert journal.ids == {"a"}
    assert list(journal.done) == ["p/f"]
    journal.add("p/g", "p", [{**LINE, "instance_id": "c"}], {"tried": {}, "dropped": {}})
    journal.close()
    assert [row["instance_id"] for row in rows(tmp_path)] == ["a", "c"]


def test_what_is_no_package_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nothing"), "--out", str(tmp_path / "out")]) == 2
    assert "neither a folder nor name==version" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main(["--out", str(tmp_path)]) == 2
