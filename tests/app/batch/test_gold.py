"""Gold stays where it is: not in what a worker is given, not in the run directory, not before an agent's eyes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

from execcritic.batch.assignment import Assignment, Mode
from execcritic.batch.datasets import load
from execcritic.batch.prepare import prepared
from tests.app.conftest import NODE, SAMPLE, TEST_FILE, call, diff, fixed, recording, run

MARK = "7b1f-only-gold-says-this"
CONTRACT = {
    "entrypoint": "spans.merge",
    "trigger": "a contained span",
    "expected_output": "the containing span",
    "issue_evidence": ["When one span lies inside another"],
    "alternative_hypotheses": ["none"],
    "non_assertions": ["none"],
    "test_nodes": [NODE],
}


@pytest.fixture
def rows(repo: Path, tmp_path: Path) -> Path:
    """One instance whose gold patch, gold test, test ids and labelled candidate are all marked."""
    patch = diff(repo, {"spans/merge.py": fixed(repo) + f"# {MARK}\n".encode()}).decode()
    test = diff(repo, {"tests/test_gold.py": TEST_FILE + f"# {MARK}\n".encode()}).decode()
    row = {
        "instance_id": "spans__spans-1",
        "repo": "spans/spans",
        "problem_statement": (SAMPLE / "issue.md").read_text(),
        "path": str(repo),
        "patch": patch,
        "test_patch": test,
        "FAIL_TO_PASS": [f"tests/test_gold.py::{MARK}"],
        "candidate_patches": [{"source": MARK, "patch": patch, "local_resolved": True}],
        "hints_text": MARK,
    }
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return path


def test_an_assignment_holds_nothing_of_gold(rows: Path, tmp_path: Path) -> None:
    data = load(str(rows))
    assert MARK.encode() in pickle.dumps(data.gold("spans__spans-1"))
    given = Assignment(data.instances[0], Mode.RESOLVE, 0, str(tmp_path / "run"))
    assert MARK.encode() not in pickle.dumps(given)
    assert MARK not in repr(data)


@pytest.mark.slow
def test_a_run_holds_nothing_of_gold_and_its_agents_see_nothing(
    rows: Path, tmp_path: Path, environment: Mapping[str, str], engine: str
) -> None:
    (instance,) = load(str(rows)).instances
    ready = prepared(instance.source)
    look = "env; git log --all 2>&1; find / . -xdev -name .git -prune 2>/dev/null; ls -aR . | head -50"
    write = f"cat > tests/test_contained.py <<'EOF'\n{TEST_FILE.decode()}EOF\n"
    fix = "sed -i 's/(merged\\[-1\\]\\[0\\], end)/(merged[-1][0], max(merged[-1][1], end))/' spans/merge.py"
    model = recording(
        tmp_path / "replies.jsonl",
        call("test", "bash", command=f"{look}\n{write}"),
        call("test", "submit_test", nodes=[NODE], contract=CONTRACT),
        call("repair", "bash", command=f"{look}\n{fix}"),
        call("repair", "check"),
    )
    issue, out = tmp_path / "issue.md", tmp_path / "run"
    issue.write_text(instance.problem)
    ran = run(
        environment, tmp_path, "resolve", "--repo", ready.repo, "--issue", issue, "--model", model, "--sandbox", engine,
        *("--set", "qualify.repeats=1", "--set", "verify.repeats=1", "--set", "qualify.guard=off"),
        *("--set", "verify.guard=off", "--out", out),
    )  # fmt: skip
    assert ran.code == 0, ran
    kept = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert kept and not [path for path, data in kept.items() if MARK.encode() in data]
    seen = b"".join(data for path, data in kept.items() if path.name == "trajectory.jsonl")
    assert b"PATH=" in seen and b"test_merge.py" in seen
    for secret in (b"rows.jsonl", b"test_gold", b"commit ", b"/.git"):
        assert secret not in seen, secret
