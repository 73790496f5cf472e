"""What the official evaluator is asked, and its reports read back: recorded from real runs of both versions."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from execcritic.batch import evaluation, official, results
from execcritic.batch.official import Asked, Evaluator, Label
from execcritic.batch.results import Grade
from execcritic_scaffold.errors import InfrastructureError, UsageError

from .batches import Batch

RECORDED = Path(__file__).parents[2] / "data" / "swebench"
IDS = tuple(f"psf__requests-{number}" for number in range(1, 7))
"""Right, wrong, a patch that does not apply, an empty one, an image that is not there, and no prediction."""


def recorded(version: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((RECORDED / f"report-{version}.json").read_bytes())
    return body


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    """An evaluation whose logs say of the third instance that its patch does not apply."""
    folder = tmp_path / "logs" / "run_evaluation" / "r" / "owner__model" / IDS[2]
    folder.mkdir(parents=True)
    (folder / "run_instance.log").write_text("INFO - >>>>> Patch Apply Failed:\nerror: corrupt")
    return Asked("d", "test", IDS, "p.json", "r", tmp_path)


@pytest.mark.parametrize("version", ["4.1", "5.0"])
def test_three_grades_and_their_sum(version: str, asked: Asked) -> None:
    """An image that is not there is no wrong patch, and a patch that does not apply is no broken machine (R-E04)."""
    found = official.outcomes(recorded(version), asked, dict.fromkeys(IDS, "owner/model"))
    assert [found[name].official for name in IDS] == ["resolved", "unresolved", "error", "empty", "error", "missing"]
    grades = [found[name].grade for name in IDS]
    assert grades == [Grade.RESOLVED, *[Grade.UNRESOLVED] * 3, *[Grade.NOT_GRADED] * 2]
    assert found[IDS[4]].infra == Label("ambiguous", "no_report")
    assert found[IDS[2]].infra is None


def test_labels_of_5_are_kept_in_their_tiers(asked: Asked) -> None:
    report = recorded("5.0") | {
        "infra_failure_ids": [IDS[1]],
        "ambiguous_failure_ids": [IDS[4]],
        "failure_reasons": {IDS[1]: "out_of_memory", IDS[4]: "tests_timed_out"},
    }
    found = official.outcomes(report, asked, {})
    assert (found[IDS[1]].official, found[IDS[1]].grade) == ("unresolved", Grade.NOT_GRADED)
    assert found[IDS[1]].infra == Label("environment", "out_of_memory")
    assert found[IDS[4]].infra == Label("ambiguous", "tests_timed_out")


def test_command_of_both_versions(asked: Asked) -> None:
    named = replace(asked, namespace="mine")
    old, new = (official.command(Evaluator("py", version), named) for version in ("4.1.0", "5.0.2"))
    assert "--namespace" in old and "--namespace" not in new
    assert old[:4] == ["py", "-P", "-m", "swebench.harness.run_evaluation"]
    assert new[-len(IDS) :] == list(IDS)


def test_an_interpreter_without_the_package_is_refused() -> None:
    for python in (sys.executable, "/nonexistent/python"):
        with pytest.raises(UsageError):
            official.find(python)


def test_an_evaluator_that_leaves_no_report_is_a_failure_of_the_machine(asked: Asked, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no engine >&2\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(InfrastructureError, match="exit 3: no engine"):
        official.evaluate(Evaluator(str(python), "5.0.2"), asked)


def test_credentials_do_not_reach_the_evaluator(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    monkeypatch.setenv("HF_TOKEN", "hf-value")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nenv > seen\necho '{\"resolved_ids\": []}' > m.r.json\n")
    python.chmod(0o755)
    official.evaluate(Evaluator(str(python), "5.0.2"), asked)
    seen = (tmp_path / "seen").read_text()
    assert "sk-secret-value" not in seen and "hf-value" in seen


def test_without_a_patch_nothing_is_started_and_everything_is_answered(tmp_path: Path) -> None:
    """No usable prediction is no missing report (R-E08)."""
    batch = Batch(tmp_path / "b", IDS[:3])
    batch.ended(IDS[0], patch="")
    batch.ended(IDS[1], ending="infra-failed", status="INFRASTRUCTURE", bundle_id=None)
    loaded = results.load(batch.folder.root)
    how = evaluation.How(Evaluator("/nonexistent/python", "5.0.2"), "d", "test")
    evaluation.repeats(loaded, how, [0], lambda text: None)
    rows = results.load(batch.folder.root).rows
    assert [row.official for row in rows] == ["empty", "missing", "missing"]
    assert [row.grade for row in rows] == [Grade.UNRESOLVED, Grade.NOT_GRADED, Grade.NOT_GRADED]


def test_predictions_keep_every_byte() -> None:
    (row,) = evaluation.predictions({"a": b"caf\xe9"}, "m")
    assert json.loads(json.dumps(row))["model_patch"].encode("utf-8", "surrogateescape") == b"caf\xe9"
