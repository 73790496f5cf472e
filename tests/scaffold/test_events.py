"""The report channel: what a real reporter wrote is believed, and what somebody changed in it afterwards is not.

A forger in the process of the tests knows the nonce and can write a whole stream of his own (docs/security.md); the
last tests here say how far the cross-checks reach, and where they end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from execcritic_scaffold import inject
from execcritic_scaffold.events import Expected, interpret
from execcritic_scaffold.outcome import Outcome, RunReport, RunStatus
from execcritic_scaffold.sandbox.protocol import Completed

PROGRAM = Path(inject.__file__).with_name("run_pytest.py")
TEXT = """import pytest, unittest

def test_pass():
    pass

def test_assert():
    assert 1 == 2

def test_error():
    {}["x"]

def test_skip():
    pytest.skip("x")

@pytest.mark.xfail
def test_xfail():
    assert False

@pytest.mark.xfail(strict=True)
def test_xpass():
    pass

def test_setup(absent):
    pass

class TestCase(unittest.TestCase):
    def tearDown(self):
        raise OSError
    def test_teardown(self):
        pass
"""
OUTCOMES = {
    "test_it.py::test_pass": Outcome.PASSED,
    "test_it.py::test_assert": Outcome.FAILED_ASSERT,
    "test_it.py::test_error": Outcome.FAILED_EXCEPTION,
    "test_it.py::test_skip": Outcome.SKIPPED,
    "test_it.py::test_xfail": Outcome.XFAILED,
    "test_it.py::test_xpass": Outcome.XPASSED,
    "test_it.py::test_setup": Outcome.ERROR_SETUP,
    "test_it.py::TestCase::test_teardown": Outcome.ERROR_TEARDOWN,
}
EXPECTED = Expected("nonce", tuple(OUTCOMES), ("test_yes",), ("test_early", "test_no"))


@dataclass(frozen=True)
class Stream:
    """What one run wrote, and how it ended."""

    lines: tuple[bytes, ...]
    exit_code: int | None

    def read(self, expected: Expected = EXPECTED, tail: bytes = b"") -> RunReport:
        stdout = b"".join(line + b"\n" for line in self.lines) + tail
        return interpret(Completed(self.exit_code, stdout, b"", 1.0), stdout, self.exit_code, expected)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def edited(self, change: Callable[[dict[str, Any]], None], number: int) -> Stream:
        event = self.events[number]
        change(event)
        line = json.dumps(event).encode()
        return replace(self, lines=(*self.lines[:number], line, *self.lines[number + 1 :]))

    def of(self, **fields: object) -> int:
        """The number of the first event with these fields."""
        return next(n for n, e in enumerate(self.events) if fields.items() <= e.items())


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """What the reporter really writes for TEXT."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "test_it.py").write_text(TEXT)
    request = {
        "nonce": "nonce", "files": ["test_it.py"], "nodes": list(OUTCOMES), "order": "given", "roots": ["."],
        "runner_in_tree": False, "args": ["-q", "-p", "no:cacheprovider"], "ini": [], "markers": [], "trace": True,
        "canaries": {"pass": "test_yes", "early": "test_early", "fail": "test_no"}, "tops": [],
    }  # fmt: skip
    argv = [sys.executable, PROGRAM]
    done = subprocess.run(argv, cwd=folder, input=json.dumps(request).encode(), capture_output=True)
    assert done.stdout.endswith(b"\n"), done.stderr
    return Stream(tuple(done.stdout.split(b"\n")[:-1]), done.returncode)


def outcomes(report: RunReport) -> dict[str, Outcome]:
    return {node: report.outcome(node) for node in OUTCOMES}


def test_what_the_reporter_wrote_is_believed(stream: Stream) -> None:
    report = stream.read()
    assert (report.status, outcomes(report)) == (RunStatus.VALID, OUTCOMES), report.detail
    assert report.runner["runner"] == "pytest"
    error = report.results["test_it.py::test_error"].failure
    assert error is not None and error.mro[0] == "builtins.KeyError" and error.frames[-1].function == "test_error"


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_no_single_change_goes_unnoticed(stream: Stream, data: st.DataObject) -> None:
    """One line lost, repeated, moved or cut short, whichever it is: there is no verdict then."""
    lines = list(stream.lines)
    here = data.draw(st.integers(0, len(lines) - 1))
    there = data.draw(st.integers(0, len(lines) - 1).filter(lambda n: n != here))
    kind = data.draw(st.sampled_from(("lost", "repeated", "swapped", "cut", "foreign", "torn")))
    if kind == "lost":
        del lines[here]
    elif kind == "repeated":
        lines.insert(there, lines[here])
    elif kind == "swapped":
        lines[here], lines[there] = lines[there], lines[here]
    elif kind == "cut":
        lines = lines[:here]
    elif kind == "foreign":
        lines[here] = lines[here].replace(b'"nonce": "nonce"', b'"nonce": "other"')
    else:
        lines[here] = lines[here][: data.draw(st.integers(0, len(lines[here]) - 1))]
    assert replace(stream, lines=tuple(lines)).read().status is not RunStatus.VALID


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_no_edited_outcome_makes_a_failure_pass(stream: Stream, data: st.DataObject) -> None:
    numbers = [n for n, e in enumerate(stream.events) if e["e"] == "phase"]
    number = data.draw(st.sampled_from(numbers))
    field = data.draw(st.sampled_from(("outcome", "xfail", "item", "node", "phase")))
    values: Mapping[str, st.SearchStrategy[object]] = {
        "outcome": st.sampled_from(("passed", "failed", "skipped", "")),
        "xfail": st.booleans(),
        "item": st.integers(-1, len(OUTCOMES) + 2),
        "node": st.sampled_from([*OUTCOMES, "test_it.py::test_yes", "test_it.py::test_no"]),
        "phase": st.sampled_from(("setup", "call", "teardown")),
    }
    value = data.draw(values[field])
    report = stream.edited(lambda event: event.update({field: value}), number).read()
    # A strict xfail that passes has raised nothing, so only one field says that it failed; no frozen node is one.
    hard = {n for n, before in OUTCOMES.items() if before not in (Outcome.PASSED, Outcome.XPASSED)}
    assert not report.valid or all(report.outcome(node) is not Outcome.PASSED for node in hard)


@pytest.mark.parametrize("exit_code", [0, 2, 5, -9, None])
def test_the_exit_status_must_fit(stream: Stream, exit_code: int | None) -> None:
    report = replace(stream, exit_code=exit_code).read()
    assert report.status in (RunStatus.REPORT_EXIT_MISMATCH, RunStatus.TIMEOUT)


def test_both_must_lie_about_the_exit_status(stream: Stream) -> None:
    """The failing control test means that no honest run exits with 0."""
    number = stream.of(e="end")
    told = replace(stream.edited(lambda event: event.update(exit=0), number), exit_code=0)
    assert told.read().status is RunStatus.TAMPERED


@pytest.mark.parametrize("name", ["test_yes", "test_early", "test_no"])
@pytest.mark.parametrize("outcome", ["passed", "failed", "skipped"])
def test_control_tests(stream: Stream, name: str, outcome: str) -> None:
    number = next(n for n, e in enumerate(stream.events) if e["e"] == "phase" and e["node"].endswith(f"::{name}"))
    right = "passed" if name == "test_yes" else "failed"
    report = stream.edited(lambda event: event.update(outcome=outcome), number).read()
    assert (report.status is RunStatus.VALID) == (outcome == right)


def test_control_tests_of_another_run(stream: Stream) -> None:
    report = stream.read(replace(EXPECTED, failing=("test_other",)))
    assert report.status is RunStatus.TAMPERED


@pytest.mark.parametrize(
    ("nodes", "status"),
    [
        ((*OUTCOMES, "test_it.py::test_more"), RunStatus.NODE_SET_MISMATCH),
        (tuple(OUTCOMES)[1:], RunStatus.NODE_SET_MISMATCH),
        (None, RunStatus.VALID),
    ],
)
def test_the_node_set_must_be_the_one_asked_for(
    stream: Stream, nodes: tuple[str, ...] | None, status: RunStatus
) -> None:
    assert stream.read(replace(EXPECTED, nodes=nodes)).status is status


@pytest.mark.parametrize("tail", [b"{}\n", b"\n", b"{}", b"x", b"\x00"])
def test_nothing_may_follow_the_end(stream: Stream, tail: bytes) -> None:
    assert stream.read(tail=tail).status is RunStatus.TAMPERED


@pytest.mark.parametrize(
    ("stdout", "exit_code", "status"),
    [
        (b"", 0, RunStatus.NO_REPORT),
        (b"", -9, RunStatus.NO_REPORT),
        (b"", None, RunStatus.TIMEOUT),
        (b"5 passed\n", 0, RunStatus.TAMPERED),
        (b"5 passed", 0, RunStatus.TAMPERED),
        (b"[]\n", 0, RunStatus.TAMPERED),
        (b"\xff\xfe\n", 0, RunStatus.TAMPERED),
        (b"[" * 100_000 + b"\n", 0, RunStatus.TAMPERED),
    ],
)
def test_what_is_no_report(stdout: bytes, exit_code: int | None, status: RunStatus) -> None:
    report = interpret(Completed(exit_code, stdout, b"", 1.0), stdout, exit_code, EXPECTED)
    assert report.status is status


def test_a_run_that_broke_off_blames_the_node_that_had_begun(stream: Stream) -> None:
    number = stream.of(e="begin", node="test_it.py::test_error")
    cut = Stream(stream.lines[: number + 1], 0)
    for exit_code, status, outcome in (
        (0, RunStatus.CRASHED, Outcome.CRASHED),
        (-11, RunStatus.CRASHED, Outcome.CRASHED),
        (None, RunStatus.TIMEOUT, Outcome.TIMEOUT),
    ):
        report = replace(cut, exit_code=exit_code).read()
        assert (report.status, report.outcome("test_it.py::test_error")) == (status, outcome)
        assert report.outcome("test_it.py::test_assert") is Outcome.FAILED_ASSERT
        assert report.outcome("test_it.py::test_skip") is Outcome.NOT_COLLECTED


FAILURE = {"mro": ["builtins.OSError"], "message": "", "frames": [], "text": "", "name": None, "errno": None}
ODD: list[dict[str, Any]] = [
    {"message": 5}, {"mro": "builtins.OSError"}, {"mro": [5]}, {"text": None}, {"name": 5}, {"errno": "x"},
    {"exhausted": 1}, {"frames": {}}, {"frames": [[]]}, {"frames": [["p", "1", "f", True, None, None]]},
    {"frames": [["p", 1, "f", 1, None, None]]}, {"frames": [["p", 1, "f", True, "x", None]]},
]  # fmt: skip
PHASE = {"item": 99, "node": "x", "phase": "call", "outcome": "passed", "raw_failed": False, "xfail": False,
         "seconds": 0.0}  # fmt: skip
MALFORMED: list[dict[str, Any]] = [
    {"e": "unheard of"},
    {"e": "collected"},
    {"e": "collected", "nodes": 3},
    {"e": "collect_error", "path": "x", "failure": {}},
    {"e": "phase"},
    {"e": "phase", "item": "x", "node": "x", "phase": "call"},
    {"e": "phase", "item": 99, "node": "x", "phase": "call"},
    {"e": "phase", "item": 99, "node": ["x"], "phase": "call", "outcome": "passed", "raw_failed": 0, "xfail": 0,
     "seconds": 0},
    {"e": "subtest"},
    {"e": "executed", "files": None},
    {"e": "end"},
    {"e": "end", "exit": 1, "imports": {"x": [1]}},
    {"e": "end", "exit": 1, "imports": {"x": None}},
    {"e": "end", "exit": True, "imports": {}},
    {"e": "collected", "nodes": [1]},
    {"e": "collect_skip", "path": "x", "reason": 5},
    {"e": "begin", "node": 5},
    {"e": "subtest", "item": 1, "node": "x", "outcome": "good", "xfail": False},
    *({"e": "collect_error", "path": "x", "failure": FAILURE | odd} for odd in ODD),
    *({"e": "phase", **PHASE, **odd} for odd in (
        {"seconds": float("nan")}, {"seconds": "1"}, {"xfail": 0}, {"outcome": "good"}, {"part": 3}, {"node": None},
        {"failure": None}, {"not_awaited": 1}, {"item": True}, {"item": -1},
    )),
]  # fmt: skip


@pytest.mark.parametrize("event", MALFORMED, ids=json.dumps)
def test_an_event_that_the_reporter_never_writes_is_tampering(stream: Stream, event: dict[str, Any]) -> None:
    """It is an answer, not an error of ours: the code under test must not be able to stop the harness."""
    number = len(stream.lines) - 1
    forged = json.dumps(event | {"n": number, "nonce": "nonce"}).encode()
    report = replace(stream, lines=(*stream.lines[:number], forged)).read()
    assert report.status is RunStatus.TAMPERED
    assert "has not its form" in report.detail or "e" not in event or len(event) < 6 or event["item"] == -1


@pytest.mark.parametrize(
    ("edited", "exit_code", "status"),
    [("test_pass", 1, RunStatus.TAMPERED), ("test_assert", 0, RunStatus.TAMPERED),
     ("test_pass", 0, RunStatus.VALID), ("test_assert", 1, RunStatus.VALID), ("test_skip", 0, RunStatus.VALID),
     ("test_skip", 5, RunStatus.TAMPERED), ("test_setup", 0, RunStatus.TAMPERED), ("test_xfail", 0, RunStatus.VALID),
     ("test_xpass", 0, RunStatus.VALID), ("test_xpass", 1, RunStatus.VALID)],
)  # fmt: skip
def test_the_exit_status_follows_from_the_outcomes_without_control_tests(
    stream: Stream, edited: str, exit_code: int, status: RunStatus
) -> None:
    node = f"test_it.py::{edited}"
    kept = [e for e in stream.events if e["e"] in ("start", "end") or e.get("node") == node]
    kept.insert(1, {"e": "selected", "nodes": [node], "nonce": "nonce"})
    kept[-1]["exit"] = exit_code
    lines = tuple(json.dumps(event | {"n": number}).encode() for number, event in enumerate(kept))
    report = Stream(lines, exit_code).read(Expected("nonce", (node,)))
    assert report.status is status, report.detail


@pytest.mark.parametrize(
    ("path", "node", "skipped"),
    [("test_it.py", "test_it.py::test_x", True), ("test_it.py", "test_it.py2::test_x", False),
     ("tests", "tests/test_it.py::test_x", True), ("tests/__init__.py", "tests/a/test_it.py::test_x", True),
     ("test_it.py::Case", "test_it.py::Case::test_x", True), ("test_it.py::Case", "test_it.py::Case2::test_x", False),
     ("tests/admin/tests.py", "admin.tests.Case.test_x", True),
     ("tests/admin/tests.py", "min.tests.Case.test_x", False),
     ("tests/test_it.py", "tests.test_it.Case.test_x", True)],
)  # fmt: skip
def test_wanted_nodes_of_a_skipped_file_are_skipped(path: str, node: str, skipped: bool) -> None:
    events = [{"e": "start"}, {"e": "collect_skip", "path": path, "reason": "no"}, {"e": "collected", "nodes": []},
              {"e": "selected", "nodes": []}, {"e": "end", "exit": 5, "imports": {}}]  # fmt: skip
    lines = tuple(json.dumps(e | {"n": n, "nonce": "nonce"}).encode() for n, e in enumerate(events))
    report = Stream(lines, 5).read(Expected("nonce", (node,)))
    assert report.outcome(node) is (Outcome.SKIPPED if skipped else Outcome.NOT_COLLECTED), report


@pytest.mark.parametrize("field", ["message", "text"])
def test_half_a_surrogate_pair_can_be_written(stream: Stream, field: str) -> None:
    number = stream.of(e="phase", node="test_it.py::test_error")
    report = stream.edited(lambda event: event["failure"].update({field: "a\udcffb"}), number).read()
    failure = report.results["test_it.py::test_error"].failure
    assert failure is not None and getattr(failure, field) == "a?b"


def test_how_far_the_checks_reach(stream: Stream) -> None:
    """Rewriting what a test raised *and* how it ended, in the one event that says both, is not seen by these checks:
    it takes code that forges our reporter's own events, and screening looks for that kind of code (HARNESS 3.5)."""
    number = stream.of(e="phase", node="test_it.py::test_assert")
    report = stream.edited(lambda event: event.update(outcome="passed", raw_failed=False), number).read()
    assert (report.status, report.outcome("test_it.py::test_assert")) == (RunStatus.VALID, Outcome.PASSED)
