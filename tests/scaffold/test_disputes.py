"""Disputes: what is heard, what a ruling is worth, and what it does to the episode."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from execcritic_scaffold.agents import Stop, StopKind, Usage
from execcritic_scaffold.bundle import BundleRecord, FrozenBundle, NodeRecord, blob_of
from execcritic_scaffold.disputes import Court, Dispute, Docket, Ruling
from execcritic_scaffold.loop import Harness, LoopSettings, repair
from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.qualification import Qualification
from execcritic_scaffold.resolution import Gate, Repair, Resolution, Status
from execcritic_scaffold.sandbox.local import Local
from execcritic_scaffold.sandbox.protocol import Limits, Session, Workspace
from tests.scaffold.working import written

ISSUE = "merge() loses spans. It should keep the longer one."
QUOTE = "It should keep the longer one."
TEST = b"def test_a():\n    assert merge(spans_of_mine) == expected_by_nobody\n"
UPHELD = Ruling(False, QUOTE, "it demands another order")
DENIED = Ruling(True, QUOTE, "the issue says so: assert merge(spans_of_mine) == expected_by_nobody")
SETTINGS = LoopSettings(submissions=1, test_turns=1, repair_turns=20, revisions=2, revision_turns=4)


def _bundle() -> FrozenBundle:
    file, empty = blob_of(TEST), blob_of(b"")
    node = NodeRecord(kind="reproducing", tier="assertion", base_outcome="FAILED_ASSERT", signature="")
    nodes = {"tests/t.py::test_a": node, "tests/t.py::TestB::test_b": node}
    nodes["tests/t.py::test_hidden"] = node.model_copy(update={"unseen": True})
    record = BundleRecord(
        harness="0", created="", base_tree="0" * 40, base_commit=None, delta=None, environment_files={},
        issue_sha256="", author="agent", runner="pytest", runner_options={}, files={"tests/t.py": file}, readonly=[],
        nodes=nodes, superseded=[], contract=None, environment={}, guard={}, evidence=[], findings=[],
        test_patch=empty,
    )  # fmt: skip
    return FrozenBundle(record, {file.sha256: TEST, empty.sha256: b""})


BUNDLE = _bundle()


class Bench:
    """A judge that gives rulings in order and keeps what it was asked."""

    def __init__(self, *rulings: Ruling) -> None:
        self.rulings, self.asked = list(rulings), list[Dispute]()

    def rule(self, bundle: FrozenBundle, dispute: Dispute) -> Ruling:
        self.asked.append(dispute)
        return self.rulings.pop(0)

    def docket(self, allowed: int = 2) -> Docket:
        return Docket(Court(self.rule, ISSUE, allowed))


def stop(node: str = "test_a", quote: str = QUOTE, reason: str = "because") -> Stop:
    return Stop(StopKind.DISPUTE, reason, node=node, quote=quote)


@pytest.mark.parametrize("node", ["tests/t.py::test_a", "test_a", "test_b", "TestB::test_b"])
def test_a_node_is_known_by_its_id_or_the_end_of_it(node: str) -> None:
    bench = Bench(UPHELD)
    assert bench.docket().hear(BUNDLE, stop(node), True) == UPHELD
    assert bench.asked[0].node in BUNDLE.record.nodes


@pytest.mark.parametrize(
    ("given", "failed", "told"),
    [
        (stop("test_hidden"), True, "shows no node"),
        (stop("t"), True, "shows no node"),
        (stop(""), True, "shows no node"),
        (stop("est_a"), True, "shows no node"),
        (stop(quote="It should keep the shorter one."), True, "does not stand in the issue"),
        (stop(quote="the longer"), True, "does not stand in the issue"),
        (stop(), False, "Call check first"),
    ],
)
def test_what_is_not_heard_costs_no_ruling(given: Stop, failed: bool, told: str) -> None:
    bench = Bench()
    docket = bench.docket()
    assert told in str(docket.hear(BUNDLE, given, failed))
    assert (bench.asked, docket.heard) == ([], 0)


def test_without_a_court_it_is_said_what_to_do_instead() -> None:
    assert "call submit" in str(Docket(None).hear(BUNDLE, stop(), True))


def test_a_denial_quotes_the_issue_and_hides_the_test() -> None:
    told = Bench(DENIED).docket().hear(BUNDLE, stop(), True)
    assert isinstance(told, str)
    assert QUOTE in told and "the issue says so" in told
    assert "spans_of_mine" not in told


@pytest.mark.parametrize("ruling", [Ruling(False, "words of nobody at all", "so"), Ruling(None, reason="no model")])
def test_a_ruling_without_the_issue_s_words_leaves_the_test(ruling: Ruling) -> None:
    assert "The test stands." in str(Bench(ruling).docket().hear(BUNDLE, stop(), True))


def test_rulings_are_bounded_and_the_same_dispute_is_ruled_on_once() -> None:
    bench = Bench(DENIED, DENIED)
    docket = bench.docket(2)
    first = docket.hear(BUNDLE, stop(reason="1"), True)
    assert docket.hear(BUNDLE, stop(reason="1"), True) == first
    docket.hear(BUNDLE, stop(reason="2"), True)
    assert "No further dispute" in str(docket.hear(BUNDLE, stop(reason="3"), True))
    assert docket.hear(BUNDLE, stop(reason="1"), True) == first
    assert len(bench.asked) == 2


class Scripted:
    """Plays (text of the patch, Stop); each step costs a turn."""

    def __init__(self, *steps: tuple[str, Stop]) -> None:
        self.usage, self.steps, self.notes = Usage(), list(steps), list[str | None]()

    def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
        self.notes.append(note)
        if turns < 1:
            return Stop(StopKind.TURNS)
        text, stop = self.steps.pop(0)
        session.act(f"printf %s {text!r} > fix", 20)
        self.usage = Usage(self.usage.turns + 1)
        return stop


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Session]]:
    source = tmp_path_factory.mktemp("base")
    (source / "code.py").write_text("x = 1\n")
    sandbox = Local()
    prepared = sandbox.prepare(hashlib.sha1(b"disputes").hexdigest(), source, sandbox.inspect(sys.executable, None))
    yield lambda: sandbox.open(Workspace(prepared), Limits())
    sandbox.close()


CHECK = Stop(StopKind.CHECK)
Run = tuple[Repair, Scripted, list[bytes], list[str]]


def run(opened: Callable[[], Session], bench: Bench | None, *steps: tuple[str, Stop]) -> Run:
    checked: list[bytes] = []
    kinds: list[str] = []

    def verify(bundle: FrozenBundle, patch: bytes, previous: Verdict | None) -> Verdict:
        checked.append(patch)
        if patch == b"right":
            return Verdict(Decision.PASS, "PASS", "")
        return Verdict(Decision.FAIL, "FROZEN_TEST", "", feedback="it fails")

    def qualify(submission: object) -> Qualification:
        raise AssertionError

    def emit(kind: str, data: Mapping[str, Any]) -> None:
        kinds.append(kind)

    court = Court(bench.rule, ISSUE, 2) if bench else None
    harness = Harness(written, qualify, verify, 6000, court)
    agent = Scripted(*steps)
    with opened() as session:
        return repair(agent, session, lambda: Gate(BUNDLE), harness, SETTINGS, emit), agent, checked, kinds


def test_an_upheld_dispute_ends_the_episode_unverified_with_the_patch(opened: Callable[[], Session]) -> None:
    ended, _, checked, kinds = run(opened, Bench(UPHELD), ("mine", CHECK), ("mine2", stop()), ("x", CHECK))
    assert (ended.patch, ended.verdict, ended.ruling) == (b"mine2", None, UPHELD)
    assert checked == [b"mine"]
    assert "dispute" in kinds
    assert Resolution(Gate(BUNDLE), ended).status is Status.UNQUALIFIED


def test_a_denied_one_is_answered_within_the_round(opened: Callable[[], Session]) -> None:
    ended, agent, checked, kinds = run(opened, Bench(DENIED), ("mine", CHECK), ("mine", stop()), ("right", CHECK))
    assert "is denied" in (agent.notes[2] or "")
    assert (ended.rounds, checked, ended.ruling) == (1, [b"mine", b"right"], None)
    assert Resolution(Gate(BUNDLE), ended).status is Status.RESOLVED
    assert kinds.count("round.started") == 2


def test_disputes_cannot_go_on_for_ever(opened: Callable[[], Session]) -> None:
    bench = Bench(DENIED, DENIED)
    steps = [("mine", CHECK), *[("mine", stop(reason=str(n))) for n in range(99)]]
    ended, _, checked, _ = run(opened, bench, *steps)
    assert (len(bench.asked), ended.rounds, checked) == (2, 2, [b"mine"])
    assert Resolution(Gate(BUNDLE), ended).status is Status.NOT_FIXED


def test_a_dispute_where_nobody_rules_is_answered(opened: Callable[[], Session]) -> None:
    _, agent, _, _ = run(opened, None, ("mine", CHECK), ("mine", stop()), ("right", CHECK))
    assert "not heard here" in (agent.notes[2] or "")
