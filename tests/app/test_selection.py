"""Several tests against several patches, and disputes, through the console script: real repository, real sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Cli, call, recording
from .test_resolve import CONTRACT, FAST, GOOD_TEST, RIGHT, WRONG

STRICT_NODE = "tests/test_strict.py::test_kept_apart"
STRICT = """from spans import merge


def test_kept_apart():
    assert merge([(1, 10), (2, 3)]) == [(1, 3), (3, 10)]
"""
"""A wrong test: fails on Base, and demands what no reading of the issue gives."""
STRICT_TEST = [
    call("test-2", "bash", command=f"cat > tests/test_strict.py <<'EOF'\n{STRICT}EOF\n"),
    call("test-2", "submit_test", nodes=[STRICT_NODE], contract={**CONTRACT, "test_nodes": [STRICT_NODE]}),
]
QUOTE = "When one span lies inside another"


@pytest.fixture
def arguments(repo: Path, issue: Path, engine: str) -> list[object]:
    return ["--repo", repo, "--issue", issue, "--sandbox", engine, *FAST]


def good_test(episode: str) -> list[dict[str, Any]]:
    return [{**reply, "role_name": episode} for reply in GOOD_TEST]


class TestTwoByTwo:
    def test_one_wrong_test_and_one_wrong_patch(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        """The wrong test is nobody's gate, the wrong patch is not handed out, and the record says why."""
        replies = recording(
            tmp_path / "r.jsonl",
            *good_test("test-1"),
            *STRICT_TEST,
            *[call("repair-1", "bash", command=WRONG), call("repair-1", "check")],
            call("repair-1", "submit", reason="I stand by it"),
            *[call("repair-2", "bash", command=RIGHT), call("repair-2", "check")],
        )
        run = tmp_path / "run"
        ran = cli(
            *("resolve", *arguments, "--tests", 2, "--repairs", 2, "--model", replies, "--out", run, "--json"),
        )
        assert ran.code == 0, ran
        body = ran.json
        assert (body["status"], body["verdict"], body["turns"]) == ("RESOLVED", "PASS", 9)
        chosen = body["selection"]
        assert (chosen["test"], chosen["patch"], chosen["gate"]) == ("test-1", "repair-2", "test-1")
        assert chosen["scores"]["test-2"] < 0.5 < chosen["scores"]["test-1"]
        assert any("test-2 decides nothing" in reason for reason in chosen["reasons"])
        whole = json.loads((run / "selection.json").read_bytes())
        assert {t: {p: v.split()[0] for p, v in row.items()} for t, row in whole["matrix"].items()} == {
            "test-1": {"repair-1": "FAIL", "repair-2": "PASS"},
            "test-2": {"repair-1": "FAIL", "repair-2": "FAIL"},
        }
        assert whole["tests"]["test-1"]["standing"]["signals"]["mutants"]["value"] > 0
        assert b"max(" in (run / "fix.patch").read_bytes()
        assert b"test_contained" in (run / "test.patch").read_bytes()
        assert {path.name for path in run.glob("*-?")} == {"test-1", "test-2", "repair-1", "repair-2"}
        verified = cli(
            "verify", "--bundle", run, "--repo", arguments[1], "--patch", run / "fix.patch", "--guard", "off"
        )
        assert verified.code == 0, verified
