"""Several tests against several patches, and disputes, through the console script: real repository, real sandbox."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.openai_server import Server, serve

from .conftest import SCRIPT, Cli, Ran, call, recording
from .test_resolve import CONTRACT, FAST, GOOD_TEST, RIGHT, WRONG, events, leftovers, wait_for

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
            *("--set", "selection.mutants=2"),
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

    @pytest.mark.slow
    def test_no_trusted_test_is_no_verdict(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        """The same test twice counts as one; with a threshold that nothing reaches it decides nothing."""
        fixer = [call("repair", "bash", command=RIGHT), call("repair", "submit", reason="done")]
        replies = recording(tmp_path / "r.jsonl", *GOOD_TEST, *fixer)
        sets = ("--set", "selection.threshold=1", "--set", "selection.mutants=0", "--set", "loop.submissions=1")
        run = tmp_path / "run"
        ran = cli("resolve", *arguments, *sets, "--tests", 2, "--model", replies, "--out", run, "--json")
        assert (ran.code, ran.json["status"], ran.json["verdict"]) == (3, "UNQUALIFIED", None), ran
        assert ran.json["selection"]["abstained"] == "no test is trusted"
        assert b"max(" in (run / "fix.patch").read_bytes()
        assert not (run / "test").exists()
        assert json.loads((run / "selection.json").read_bytes())["tests"]["test-2"]["same_as"] == "test-1"
        assert list(ran.json["selection"]["scores"]) == ["test-1"]

    def test_what_cannot_be(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        one = ("resolve", *arguments, "--out", tmp_path / "run")
        ran = cli(
            *one, "--tests", 2, "--test-model", "human", "--repair-model", "openai:m", env={"OPENAI_API_KEY": "k"}
        )
        assert (ran.code, "A person plays one episode" in ran.sentence()) == (2, True)
        ran = cli(*one, "--tests", 0, "--model", "human")
        assert (ran.code, "--tests" in ran.sentence()) == (2, True)
        ran = cli(*one, "--model", "openai:m", "--set", "selection.consistency=true", env={"OPENAI_API_KEY": "k"})
        assert (ran.code, "needs a judge" in ran.sentence()) == (2, True)
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_an_interrupted_selection_goes_on(
    cli: Cli, arguments: list[object], environment: Mapping[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """Both tests are frozen, the fix is under way: nothing that was paid for or judged is asked for again."""
    run = tmp_path / "run"
    tester = recording(tmp_path / "t.jsonl", *GOOD_TEST)
    with serve() as server:
        server.call(("bash", {"command": RIGHT})).hang()
        options = ["--tests", "2", "--test-model", tester, "--repair-model", "openai:m", "--base-url", server.url]
        process = subprocess.Popen(
            [SCRIPT, "resolve", *map(str, arguments), *options, "--out", run, "--set", "selection.mutants=0"],
            env={**environment, "OPENAI_API_KEY": "k"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: len(server.requests) == 2)
        for name in ("test-1", "test-2"):
            wait_for((run / name / "bundle").is_dir)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        if number == signal.SIGINT:
            assert process.returncode == 130, err
            assert b"max(" in (run / "repair-1" / "fix.patch").read_bytes()
            assert leftovers(process.pid) == []
        server.call(("check", {}))
        resumed = cli("resolve", "--resume", run, "--json", env={"OPENAI_API_KEY": "k"})
        assert resumed.code == 0, resumed
        assert len(server.requests) == 3
    assert resumed.json["verdict"] == "PASS"
    assert len([event for event in events(run) if event["event"] == "test.started"]) == 2


class TestDispute:
    """The Repair agent and the judge are answered by one scripted server, in this order."""

    @staticmethod
    def script(server: Server, supported: bool) -> Server:
        server.call(("bash", {"command": WRONG})).call(("check", {}))
        server.call(("dispute", {"node": "test_contained", "quote": QUOTE, "reason": "UPHOLD IT"}))
        server.say("Let me think.")
        return server.call(("rule", {"supported": supported, "quote": QUOTE, "reason": "as it says"}))

    @staticmethod
    def resolve(cli: Cli, arguments: list[object], server: Server, tmp_path: Path) -> Ran:
        tester = recording(tmp_path / "t.jsonl", *GOOD_TEST)
        models = ("--test-model", tester, "--repair-model", "openai:m", "--set", "models.judge=openai:m")
        sets = ("--set", "selection.judge=model", "--base-url", server.url)
        out = ("--out", tmp_path / "run", "--json")
        return cli("resolve", *arguments, *models, *sets, *out, env={"OPENAI_API_KEY": "secret-key-value"})

    def test_upheld_it_demotes_the_test(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        with serve() as server:
            ran = self.resolve(cli, arguments, self.script(server, False), tmp_path)
            asked = server.requests[3]
        assert (ran.code, ran.json["status"], ran.json["verdict"]) == (3, "UNQUALIFIED", None), ran
        assert ran.json["demoted"]["quote"] == QUOTE
        assert b"set(spans)" in (tmp_path / "run" / "fix.patch").read_bytes()
        assert ran.json["turns"] == 2 + 3 + 2
        assert [tool["function"]["name"] for tool in asked["tools"]] == ["rule"]
        told = json.dumps(asked["messages"])
        assert "assert merge([(1, 10), (2, 3)])" in told  # the judge sees the test
        assert "set(spans)" not in told  # and not the patch
        kept = [json.loads(path.read_bytes()) for path in (tmp_path / "run" / "judge").iterdir()]
        assert [one["ruling"]["supported"] for one in kept] == [False]
        verified = cli(
            "verify", "--bundle", tmp_path / "run", "--repo", arguments[1], "--patch", tmp_path / "run/fix.patch"
        )
        assert verified.code == 1, verified  # demoted, not changed

    @pytest.mark.slow  # tests/scaffold/test_disputes.py has the same without the console script
    def test_denied_it_is_answered_with_the_ruling(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        with serve() as server:
            self.script(server, True).call(("bash", {"command": RIGHT})).call(("check", {}))
            ran = self.resolve(cli, arguments, server, tmp_path)
            answer = server.requests[5]["messages"][-1]["content"]
        assert (ran.code, ran.json["verdict"]) == (0, "PASS"), ran
        assert "demoted" not in ran.json
        assert "is denied" in answer and QUOTE in answer

    @pytest.mark.slow
    def test_without_a_judge_it_is_not_offered(self, cli: Cli, arguments: list[object], tmp_path: Path) -> None:
        with serve() as server:
            server.call(("dispute", {"node": "n", "quote": QUOTE, "reason": "r"})).call(("bash", {"command": RIGHT}))
            server.call(("check", {}))
            tester = recording(tmp_path / "t.jsonl", *GOOD_TEST)
            models = ("--test-model", tester, "--repair-model", "openai:m", "--base-url", server.url)
            ran = cli("resolve", *arguments, *models, "--out", tmp_path / "run", env={"OPENAI_API_KEY": "k"})
            names = [tool["function"]["name"] for tool in server.requests[0]["tools"]]
            answer = server.requests[1]["messages"][-1]["content"]
        assert (ran.code, names) == (0, ["bash", "check", "submit"])
        assert "There is no tool 'dispute'" in answer
