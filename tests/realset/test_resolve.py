"""The main job on a real bug: a recorded Test agent writes the official test, a recorded Repair agent first tries a
real model's wrong patch, is told so, and revises to the reference patch."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from _console import execcritic
from _realset import SHARED, Instance, Unavailable, checkout, instances

NAME = "pytest-dev__pytest-10356"

pytestmark = [
    pytest.mark.realset,
    pytest.mark.bubblewrap,
    pytest.mark.skipif(not SHARED.is_file(), reason="../shared/realset is not here"),
]


def test_wrong_patch_feedback_revision_pass(tmp_path: Path) -> None:
    instance = instances()[NAME]
    try:
        ready = checkout(instance)
    except Unavailable as reason:
        pytest.skip(str(reason))
    wrong = next(c["patch"] for c in instance["candidate_patches"] if c.get("local_fail_to_pass") is False)
    (tmp_path / "issue.md").write_text(instance["problem_statement"], encoding="utf-8")
    tester = record(tmp_path / "test.jsonl", bash(patch(instance["test_patch"])), submit_test(instance))
    repairer = record(
        tmp_path / "repair.jsonl",
        bash(patch(wrong)),
        call("check"),
        bash(patch(wrong, "-R") + patch(instance["gold_patch"])),
        call("check"),
    )
    out = tmp_path / "run"
    answer = execcritic(
        "resolve", "--repo", ready.repo, "--issue", tmp_path / "issue.md", "--python", ready.python,
        "--test-model", f"replay:{tester}", "--repair-model", f"replay:{repairer}",
        "--set", "qualify.guard=off", "--set", "verify.guard=off",
        "--set", "environment.check=false", "--out", out,  # pytest's own suite takes long to collect
    )  # fmt: skip

    assert (answer.status, answer.code) == ("PASS", 0), (answer.body, answer.stderr)
    assert answer.body["rounds"] == 1
    first, second = (json.loads(file.read_text())["verdict"] for file in sorted((out / "repair/checks").glob("*.json")))
    assert (first["decision"], second["decision"]) == ("FAIL", "PASS")
    told = (out / "repair" / "trajectory.jsonl").read_text()
    assert json.dumps(first["feedback"])[1:-1] in told
    assert "def test_mark_mro" not in told  # the test's source stays hidden
    again = execcritic("verify", "--bundle", out, "--repo", ready.repo, "--patch", out / "fix.patch", "--guard", "off")
    assert (again.status, again.code) == ("PASS", 0), (again.body, again.stderr)


def record(path: Path, *messages: dict[str, Any]) -> Path:
    """A recording of one role."""
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return path


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """An assistant message with one tool call."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": f"call_{tool}", "type": "function", "function": function}],
    }


def bash(script: str) -> dict[str, Any]:
    return call("bash", command=script)


def patch(diff: str, *flags: str) -> str:
    """A script that applies a diff in the workspace; base64, so that no quoting can change a byte."""
    encoded = base64.encodebytes(diff.encode()).decode()
    return f"base64 -d <<'EOF' | patch -p1 --batch {' '.join(flags)}\n{encoded}EOF\n"


def submit_test(instance: Instance) -> dict[str, Any]:
    contract = {
        "entrypoint": "_pytest.mark.structures.get_unpacked_marks",
        "trigger": "a class whose base classes carry marks",
        "expected_output": "the marks of every class of its MRO",
        "issue_evidence": [instance["problem_statement"].splitlines()[0]],
        "alternative_hypotheses": [],
        "non_assertions": ["how a mark is displayed"],
        "test_nodes": instance["FAIL_TO_PASS"],
    }
    return call("submit_test", nodes=instance["FAIL_TO_PASS"], contract=contract)
