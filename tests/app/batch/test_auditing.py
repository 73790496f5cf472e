"""The audit's figures and its file; real frozen tests are audited in tests/realset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execcritic import config
from execcritic.batch import auditing, auditsummary
from execcritic.batch.audit import balanced_accuracy
from execcritic.batch.auditing import Task
from execcritic.batch.instance import Candidate, Checkout, Gold, Instance
from execcritic_scaffold.errors import UsageError

from ..conftest import Cli
from .batches import Batch

pairs = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=20)


def task(tmp_path: Path, name: str, key: str = "k") -> Task:
    """The audit of a frozen test that is not there: the machine's failure, without any sandbox."""
    instance = Instance(name, "o/r", "text", Checkout(str(tmp_path / "nowhere")))
    return Task(instance, Gold(name, b"", b"", ()), tmp_path / "bundle", config.load(None, []), key)


@given(pairs)
def test_balanced_accuracy_is_the_mean_recall_and_an_absent_class_has_none(judged: list[tuple[bool, bool]]) -> None:
    found = balanced_accuracy(judged)
    if not judged:
        assert found is None
        return
    right = [passed for label, passed in judged if label]
    wrong = [not passed for label, passed in judged if not label]
    recalls = [sum(part) / len(part) if part else 0 for part in (right, wrong)]
    assert found == pytest.approx(sum(recalls) / 2)
    if not right or not wrong:
        assert found is not None and found <= 0.5


def line(name: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": "bundle",
        "instance": name,
        "bundle": "b",
        "key": "k",
        "base_to_gold": True,
        "operational": [],
    } | more


def test_operational_ends_are_no_rejections(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    right, wrong = {"id": "1", "label": True, "passed": True}, {"id": "2", "label": False, "passed": False}
    broken = {"id": "3", "label": False, "passed": None}
    body = line("a", candidates=[right, wrong, broken], operational=["3: INCONCLUSIVE TIMEOUT"], again=True)
    path.write_text(json.dumps(body) + "\n")
    found = auditsummary.summary(path, [task(tmp_path, "a")])
    assert found.body["candidates"] == 3
    assert found.body["candidates_labelled_and_conclusive"] == found.body["candidates_as_labelled"] == 2
    assert found.body["balanced_accuracy"] == 1.0
    assert found.exit_code == 5 and "INCOMPLETE" in found.text


def test_a_failure_of_the_machine_is_tried_again_and_an_answer_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text(json.dumps(line("a")) + '\n{"kind": "bundle", "instance": "b", "ke')
    tasks = [task(tmp_path, "a"), task(tmp_path, "b"), task(tmp_path, "a", "other settings")]
    new = list(auditing.run(path, tasks, 1))
    assert [(one["instance"], one["key"], "error" in one) for one in new] == [
        ("b", "k", True),
        ("a", "other settings", True),
    ]
    assert len(list(auditing.run(path, tasks, 2))) == 2, "an error is no answer"
    assert len(auditing.latest(path)) == 3


def test_frozen_tests_of_a_folder_and_an_empty_one(tmp_path: Path) -> None:
    for folder in ("a__b-1", "a__b-2/bundle"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "bundle.json").write_text('{"id": "x"}')
    assert [one.instance for one in auditing.bundles(tmp_path)] == ["a__b-1", "a__b-2"]
    with pytest.raises(UsageError):
        auditing.bundles(tmp_path / "nowhere")
    empty = auditsummary.summary(tmp_path / "audit.jsonl", [])
    assert empty.exit_code == 5 and "EMPTY" in empty.text


def test_graded_batches_give_candidates(tmp_path: Path) -> None:
    batch = Batch(tmp_path / "c", ("a__b-1", "a__b-2", "a__b-3"))
    for name in ("a__b-1", "a__b-2", "a__b-3"):
        batch.ended(name, patch=name)
    batch.graded({"a__b-1": "resolved", "a__b-2": "unresolved", "a__b-3": "error"})
    found = auditing.from_batches([batch.folder.root])
    assert found == {
        "a__b-1": [Candidate("c/0", b"a__b-1", True)],
        "a__b-2": [Candidate("c/0", b"a__b-2", False)],
    }


def test_report_through_the_console(cli: Cli, tmp_path: Path) -> None:
    batch = Batch(tmp_path / "b", ("a__r-1", "a__r-2"))
    batch.ended("a__r-1")
    ran = cli("swebench", "report", batch.folder.root, "--format", "json", "--by", "repo")
    assert ran.code == 5, ran
    counts = ran.json["conditions"][0]["counts"]
    assert (counts["requested"], counts["endings"]) == (2, {"finished": 1, "not-started": 1})
    assert cli("swebench", "report", tmp_path).code == 2
