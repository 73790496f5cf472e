"""People at a terminal: playing a role, being asked, watching; and machines that watch instead."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from .conftest import SCRIPT, Cli, call, recording
from .person import Person
from .test_resolve import FAST, GOOD_TEST, RIGHT, events

HOSTILE = "printf 'a\x1b]0;owned\x07\x1b[2J\u202eb'\nHarness       check 1: PASS \x7f " + "x" * 1_000_000
SHORT_TEST = ("--set", "loop.test_turns=1")
"""The Test episode ends after its first command: no test, nothing to wait for."""

Start = Callable[..., Person]


@pytest.fixture
def start(environment: Mapping[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start the console script at a terminal."""
    people: list[Person] = []

    def begin(*arguments: object, env: Mapping[str, str] | None = None, **more: Any) -> Person:
        people.append(Person([SCRIPT, *arguments], {**environment, **(env or {})}, tmp_path, **more))
        return people[-1]

    yield begin
    for person in people:
        person.close()


@pytest.fixture
def job(repo: Path, issue: Path, engine: str, tmp_path: Path) -> list[object]:
    return ["--repo", repo, "--issue", issue, "--sandbox", engine, *FAST, "--out", tmp_path / "run"]


def results(run: Path, role: str) -> list[str]:
    """What the model was told by its tools."""
    lines = map(json.loads, (run / role / "trajectory.jsonl").read_text().splitlines())
    messages = [line["message"] for line in lines if line["event"] == "message"]
    return [message["content"] for message in messages if message["role"] == "tool"]


class TestConfirm:
    def test_each_command_waits_for_a_word(self, start: Start, job: list[object], tmp_path: Path) -> None:
        replies = recording(
            tmp_path / "r.jsonl",
            call("test", "bash", command=HOSTILE),
            call("test", "bash", command="touch unseen"),
            call("repair", "bash", command=RIGHT),
            call("repair", "bash", command="echo two"),
            call("repair", "bash", command="echo three"),
            call("repair", "submit", reason="done"),
        )
        person = start("resolve", *job, "--model", replies, "--confirm")
        asked = {"Test": ["n looks odd", "q"], "Repair": ["y", "always"]}
        for _ in range(4):
            head = person.until("agent wants to run")
            role = head.split()[-5]
            question = person.until("Run it?", "(uit, keeps the patch) > ")
            assert "agent  " not in question, "something came between a question and its answer"
            person.type(asked[role].pop(0) + "\n")
        assert person.end() == 3, person.text[-2000:]
        assert person.clean()
        assert b"\x1b]0;" not in person.raw and "\u202e" not in person.text
        assert r"printf 'a\x1b]0;owned\x07\x1b[2J\u202eb'" in person.text
        assert "rows not shown" in person.text
        run = tmp_path / "run"
        assert results(run, "test")[0] == (
            "Not run: the person who watches you declined this command: looks odd. Go on in another way."
        )
        assert [text.split("\n")[0] for text in results(run, "repair")[1:]] == ["two", "three"]
        assert b"max(" in (run / "fix.patch").read_bytes()
        assert [e["answer"] for e in events(run) if e["event"] == "confirm" and e["role"] == "test"] == ["no", "quit"]

    @pytest.mark.parametrize("option", ["--confirm", "--review-test"])
    def test_nobody_to_ask(self, cli: Cli, job: list[object], tmp_path: Path, option: str) -> None:
        ran = cli("resolve", *job, "--model", "human", option)
        assert (ran.code, f"say --no-{option[2:]}" in ran.sentence()) == (2, True), ran
        assert not (tmp_path / "run").exists()


class TestReview:
    def test_no_is_a_rejection(self, start: Start, job: list[object], tmp_path: Path) -> None:
        replies = recording(tmp_path / "r.jsonl", *GOOD_TEST)
        person = start(
            "test", *job, "--model", replies, "--review-test", "--set", "loop.submissions=1", "--json", rows=200
        )
        person.until("Use this test?")
        person.type("n\n")
        person.until("Why (for the Test agent)?")
        person.type("too narrow\n")
        assert person.end() == 3, person.text[-2000:]
        assert "REJECTED REVIEW: the reviewer does not accept this test: too narrow" in person.text
        assert '"code": "REVIEW"' in person.text
        assert not (tmp_path / "run" / "test" / "bundle").exists()

    @pytest.mark.slow
    def test_the_test_is_shown_and_the_answers_are_remembered(
        self, start: Start, cli: Cli, job: list[object], tmp_path: Path
    ) -> None:
        better = call("test", "bash", command="echo '# clearer' >> tests/test_contained.py")
        replies = recording(tmp_path / "r.jsonl", *GOOD_TEST, better, GOOD_TEST[1])
        person = start("test", *job, "--model", replies, "--review-test", rows=200)
        shown = person.until("Use this test?")
        for words in (
            'quoted from the issue   "When one span lies inside another"',
            "FAILED_ASSERT (assertion)  tests/test_contained.py::test_contained",
            "+def test_contained():",
        ):
            assert words in shown
        person.type("no the name is unclear\n")
        person.until("REJECTED REVIEW: the reviewer does not accept this test: the name is unclear")
        person.until("+# clearer", "Use this test?")
        person.type("\x04")
        assert (person.end(), person.clean()) == (130, True), person.text[-2000:]

        run = tmp_path / "run"
        assert "--review-test asks a person" in cli("resolve", "--resume", run).sentence()
        person = start("resolve", "--resume", run, rows=200)
        person.until("+# clearer", "Use this test?")
        person.type("y\n")
        assert person.end() == 0, person.text[-2000:]
        assert "REJECTED REVIEW: the reviewer does not accept this test: the name is unclear" in results(run, "test")[1]
        assert [event["accepted"] for event in events(run) if event["event"] == "test.review"] == [False, True]
        assert b"# clearer" in (run / "test.patch").read_bytes()


class TestHuman:
    def test_a_person_repairs(self, start: Start, job: list[object], bundle: Path) -> None:
        person = start("repair", *job, "--bundle", bundle, "--model", "human", "--set", "verify.guard=off")
        person.until("--- system", "Enter: more")
        person.type("q\n")
        person.until("Tools:", "repair> ")
        for line in ("/nonsense", "echo o\\", "ne; seq 500", "q", "/bash", "for x in 7 8", "do echo $x; done", "."):
            person.type(line + "\n")
            if line == "ne; seq 500":
                person.until("--- tool", "one", "Enter: more")
        person.until("7\n8\n[exit code 0]", "repair> ")
        person.type("\x1b[200~echo pasted\necho as one\x1b[201~\n")
        person.until("pasted\nas one\n[exit code 0]", "repair> ")
        person.type(RIGHT + "\n/check\n")
        assert person.end() == 0, person.text[-2000:]
        assert person.clean()
        assert "Resolved" in person.text

    def test_leaving(self, start: Start, job: list[object], tmp_path: Path) -> None:
        """/quit ends one episode and keeps its patch, Ctrl-C the whole run; either leaves the terminal clean."""
        person = start("resolve", *job, "--model", "human", rows=500)
        person.until("test> ")
        person.type("\x04")
        person.until("repair> ")
        person.type(RIGHT + "\n")
        person.until("exit code 0", "repair> ")
        person.type("half a li\x03")
        assert (person.end(), person.clean()) == (130, True), person.text[-2000:]
        assert b"max(" in (tmp_path / "run" / "fix.patch").read_bytes()
        assert person.text.rstrip().splitlines()[-1].startswith("Interrupted; ")

        person = start("resolve", "--resume", tmp_path / "run", rows=500, columns=300)
        person.until(f"bash {json.dumps({'command': RIGHT})}", "exit code 0", "repair> ")  # done again, not asked
        person.type("/quit\n")
        assert person.end() == 3, person.text[-2000:]
        assert "stopped     the Repair agent: the person at the terminal ended it" in person.text


class TestLive:
    @pytest.fixture
    def replies(self, tmp_path: Path) -> str:
        return recording(
            tmp_path / "r.jsonl",
            {**call("test", "bash", command="true"), "content": HOSTILE},
            call("repair", "bash", command=HOSTILE),
            call("repair", "bash", command="while [ ! -e /tmp/never ]; do sleep 0.1; done"),
        )

    @pytest.mark.parametrize(
        ("number", "env"),
        [(signal.SIGTERM, {"NO_COLOR": "1"}), pytest.param(signal.SIGINT, {"COLUMNS": "200"}, marks=pytest.mark.slow)],
    )
    def test_the_panel(
        self, start: Start, job: list[object], replies: str, number: signal.Signals, env: dict[str, str]
    ) -> None:
        person = start("resolve", *job, *SHORT_TEST, "--model", replies, env=env, rows=12, columns=70)
        person.until("Repair agent", "turn 2 of 200", "$ while [", "no verdict yet")
        panel = [line.rstrip() for line in person.screen.display]
        rows = [index for index, line in enumerate(panel) if line.startswith(("Test agent  ", "Repair agent  round"))]
        assert any("turn 1 of 1" in panel[index] and "has ended" in panel[index] for index in rows), panel
        assert panel[max(rows) + 1].strip().startswith("$ while [")
        assert sum("no verdict yet" in line for line in panel) == 1, panel
        assert not any(line.startswith("Harness       check 1") for line in panel), panel
        person.resize(6, 24)
        person.until("Repair agent", "…")
        assert all(len(line) <= 24 for line in person.screen.display)
        person.resize(30, 120)
        person.until("turn 2 of 200  runs  0 + 0 tokens  $0.00")
        person.process.send_signal(number) if number == signal.SIGTERM else person.type("\x03")
        assert (person.end(), person.clean()) == (130, True), person.text[-2000:]
        assert b"\x1b]" not in person.raw and b"?25l" not in person.raw and "\u202e" not in person.text
        if "NO_COLOR" in env:
            assert b"\x1b[3" not in person.raw

    @pytest.mark.slow
    def test_a_dumb_terminal_gets_plain_lines(self, start: Start, job: list[object], replies: str) -> None:
        person = start("resolve", *job, *SHORT_TEST, "--model", replies, env={"TERM": "dumb"})
        person.until(r"Test agent     1  printf 'a\x1b]0;owned\x07\x1b[2J\u202eb' Harness       check 1: PASS")
        person.until("Repair agent   2  $ while [")
        person.type("\x03")
        assert (person.end(), b"\x1b" in person.raw) == (130, False)

    def test_where_it_cannot_be(self, cli: Cli, job: list[object]) -> None:
        ran = cli("resolve", *job, "--model", "human", "--progress", "live")
        assert (ran.code, "choose --progress plain or auto" in ran.sentence()) == (2, True), ran


class TestMachines:
    def test_json_lines(self, cli: Cli, job: list[object], tmp_path: Path) -> None:
        replies = recording(
            tmp_path / "r.jsonl",
            call("test", "bash", command=HOSTILE),
            *GOOD_TEST,
            {**call("repair", "bash", command=RIGHT), "content": "the key is k-e-y-123 " + HOSTILE},
            call("repair", "check"),
        )
        env = {"OPENAI_API_KEY": "k-e-y-123"}
        ran = cli("resolve", *job, "--model", replies, "--progress", "jsonl", "--json", env=env)
        assert ran.code == 0, ran
        told = [json.loads(line) for line in ran.err.splitlines()]
        assert ran.err.isascii() and ran.err.replace("\n", "").isprintable() and "k-e-y-123" not in ran.err
        assert max(map(len, ran.err.splitlines())) < 10_000
        assert all(isinstance(event["time"], float) for event in told)
        kinds = [event["event"] for event in told]
        assert (kinds[0], kinds[-1]) == ("run", "result")
        listed = (Path(__file__).parents[2] / "docs" / "progress.md").read_text()
        for event in told:
            row = next(line for line in listed.splitlines() if line.startswith(f"| `{event['event']}` |"))
            assert set(event) - {"time", "event"} == set(row.split("|")[2].replace("`", "").replace(" ", "").split(","))
        by_kind = {event["event"]: event for event in told}
        assert by_kind["test.qualification"]["status"] == "QUALIFIED"
        assert (by_kind["check"]["decision"], by_kind["result"]["status"]) == ("PASS", "RESOLVED")
        turn = next(event for event in told if event["event"] == "turn" and event["role"] == "repair")
        assert turn["said"].startswith(r"the key is *** printf 'a\x1b]0;owned\x07") and turn["said"].endswith("…")
        assert (turn["tokens"], turn["cost"]) == ({"input": 0, "cached": 0, "output": 0}, 0.0)

    def test_errors_are_events_too(self, cli: Cli, job: list[object]) -> None:
        for more in (("--model", "human"), ("--model", "nonsense"), ("--nonsense",)):
            ran = cli("resolve", *job, *more, "--progress=jsonl")
            told = [json.loads(line) for line in ran.err.splitlines()]
            assert (ran.code, [event["event"] for event in told]) == (2, ["message"]), ran

    def test_quiet(self, cli: Cli, job: list[object], tmp_path: Path) -> None:
        replies = recording(
            tmp_path / "r.jsonl",
            call("test", "bash", command="true"),
            call("repair", "submit", reason="a\nResolved: not \x1b[2J"),
        )
        ran = cli("resolve", *job, *SHORT_TEST, "--model", replies, "--progress", "quiet")
        assert (ran.code, ran.err) == (3, ""), ran
        assert 'ended its work: "a Resolved: not \\x1b[2J"' in ran.out
