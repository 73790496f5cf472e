"""The loop: METHOD's rules, shown with scripted agents that work in real workspaces.

The harness here is three functions of the test: what the loop must do with their answers is what is tested.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from execcritic_scaffold.agents import Stop, StopKind, Submission, Usage
from execcritic_scaffold.bundle import BundleRecord, FrozenBundle, blob_of
from execcritic_scaffold.errors import Interrupted, PatchError, SandboxError
from execcritic_scaffold.loop import Harness, LoopSettings, Seat, repair, resolve, write_test
from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.qualification import Qualification
from execcritic_scaffold.resolution import Gate, Repair, Resolution, Status
from execcritic_scaffold.sandbox.local import Local
from execcritic_scaffold.sandbox.protocol import Limits, Session, Workspace
from tests.scaffold.working import written

SETTINGS = LoopSettings(submissions=3, test_turns=10, repair_turns=20, revisions=2, revision_turns=4)
Step = tuple[str, StopKind, int]
"""A shell script to run, why the agent stops after it, and the turns it took."""


class Scripted:
    """An agent that plays steps; `notes` are what it was told, `allowed` the turns it was given."""

    def __init__(self, *steps: Step) -> None:
        self.usage = Usage()
        self.steps = list(steps)
        self.notes: list[str | None] = []
        self.allowed: list[int] = []

    def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
        self.notes.append(note)
        self.allowed.append(turns)
        script, kind, used = self.steps.pop(0)
        assert session.act(script, 20).exit_code == 0
        self.usage = Usage(self.usage.turns + used)
        return Stop(kind, "because", nodes=("t::t",) if kind is StopKind.SUBMIT_TEST else ())


class Killer(Scripted):
    """Writes a fix, and then its sandbox's runner is killed from outside."""

    def __init__(self, fix: str) -> None:
        super().__init__()
        self.fix = fix

    def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
        session.act(f"printf %s {self.fix} > fix", 20)
        runner = int(session.act("echo $PPID", 20).output)
        os.kill(runner, signal.SIGKILL)
        session.act("echo lost", 20)
        raise AssertionError("the session is dead")


class Judge:
    """The harness of these tests: the patch is the bytes of the file `fix`; PASS for `right`, FAIL for the rest."""

    def __init__(self) -> None:
        self.checked: list[bytes] = []
        self.previous: list[Verdict | None] = []
        self.submitted: list[bytes] = []
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.special: dict[bytes, Verdict | Exception] = {}
        self.feedback_characters = 6000
        self.log = ""
        self.gate_ready = threading.Event()
        self.gate_ready.set()

    def harness(self) -> Harness:
        return Harness(self.extract, self.qualify, self.verify, self.feedback_characters)

    def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        self.events.append((kind, data))

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]

    def extract(self, session: Session) -> bytes:
        patch = written(session)
        if patch == b"nested":
            raise PatchError("fix is a nested repository; remove it.")
        return patch

    def qualify(self, submission: Submission) -> Qualification:
        self.gate_ready.wait(20)
        self.submitted.append(submission.patch)
        if submission.patch == b"good test":
            return Qualification("QUALIFIED", "OK", "", bundle=BUNDLE)
        if submission.patch == b"broken machine":
            raise SandboxError("The engine died; start it again.")
        status = "INCONCLUSIVE" if submission.patch == b"unclear" else "REJECTED"
        return Qualification(status, "B2", "passes on Base", "make it fail", log=self.log)

    def verify(self, bundle: FrozenBundle, patch: bytes, previous: Verdict | None) -> Verdict:
        assert bundle is BUNDLE
        self.checked.append(patch)
        self.previous.append(previous)
        special = self.special.get(patch)
        if isinstance(special, Exception):
            raise special
        if special is not None:
            return special
        if patch == b"right":
            return Verdict(Decision.PASS, "OK", "")
        return Verdict(Decision.FAIL, "NODES", "", feedback=f"feedback on {patch.decode()}")


def _bundle() -> FrozenBundle:
    empty = blob_of(b"")
    record = BundleRecord(
        harness="0", created="", base_tree="0" * 40, base_commit=None, delta=None, environment_files={},
        issue_sha256="", author="agent", runner="pytest", runner_options={}, files={}, readonly=[], nodes={},
        superseded=[], contract=None, environment={}, guard={}, evidence=[], findings=[], test_patch=empty,
    )  # fmt: skip
    return FrozenBundle(record, {empty.sha256: b""})


BUNDLE = _bundle()
FROZEN = Gate(BUNDLE)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Session]]:
    source = tmp_path_factory.mktemp("base")
    (source / "code.py").write_text("x = 1\n")
    sandbox = Local()
    prepared = sandbox.prepare(hashlib.sha1(b"loop").hexdigest(), source, sandbox.inspect(sys.executable, None))
    yield lambda: sandbox.open(Workspace(prepared), Limits())
    sandbox.close()


def wrote(text: str, kind: StopKind = StopKind.CHECK, turns: int = 1) -> Step:
    return f"printf %s {text!r} > fix", kind, turns


def run_repair(
    opened: Callable[[], Session], judge: Judge, *steps: Step, gate: Gate = FROZEN
) -> tuple[Repair, Scripted]:
    agent = Scripted(*steps)
    with opened() as session:
        ended = repair(agent, session, lambda: gate, judge.harness(), SETTINGS, judge.emit)
    return ended, agent


def run_test(opened: Callable[[], Session], judge: Judge, *steps: Step) -> tuple[Gate, Scripted]:
    agent = Scripted(*steps)
    with opened() as session:
        return write_test(agent, session, judge.harness(), SETTINGS, judge.emit), agent


SUBMIT = StopKind.SUBMIT_TEST


class TestTestEpisode:
    def test_the_first_qualified_test_is_kept_and_rejections_come_back_as_notes(
        self, opened: Callable[[], Session]
    ) -> None:
        judge = Judge()
        gate, agent = run_test(opened, judge, wrote("bad", SUBMIT, 2), wrote("good test", SUBMIT, 1))
        assert gate.bundle is BUNDLE
        assert gate.submissions == 2
        assert agent.notes[0] is None
        assert "REJECTED B2: passes on Base" in (agent.notes[1] or "")
        assert "make it fail" in (agent.notes[1] or "")
        assert agent.allowed == [10, 8]

    def test_submissions_are_bounded(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        gate, _ = run_test(opened, judge, *[wrote(f"bad{n}", SUBMIT) for n in range(9)])
        assert gate.bundle is None
        assert gate.status is Status.UNQUALIFIED
        assert len(judge.submitted) == gate.submissions == 3

    def test_turns_are_bounded_over_the_whole_episode(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        gate, agent = run_test(opened, judge, wrote("bad", SUBMIT, 10), wrote("good test", SUBMIT, 1))
        assert gate.bundle is None
        assert agent.allowed == [10]
        assert gate.stop is not None
        assert gate.stop.kind is StopKind.TURNS

    def test_a_workspace_that_is_no_patch_costs_a_submission_and_says_why(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        gate, agent = run_test(opened, judge, wrote("nested", SUBMIT), wrote("good test", SUBMIT))
        assert gate.submissions == 2
        assert "nested repository" in (agent.notes[1] or "")

    @pytest.mark.parametrize("limit", [500, 20000])
    def test_a_note_is_as_long_as_the_configuration_allows(self, opened: Callable[[], Session], limit: int) -> None:
        judge = Judge()
        judge.feedback_characters, judge.log = limit, "x" * 50000
        _, agent = run_test(opened, judge, wrote("bad", SUBMIT), wrote("good test", SUBMIT))
        told = (agent.notes[1] or "").partition("\n(Submission")[0]
        assert len(told) == limit

    @pytest.mark.parametrize(
        ("step", "status"),
        [
            (wrote("x", StopKind.MODEL), Status.INFRASTRUCTURE),
            (wrote("broken machine", SUBMIT), Status.INFRASTRUCTURE),
            (wrote("x", StopKind.FORMAT), Status.UNQUALIFIED),
            (wrote("x", StopKind.COST), Status.UNQUALIFIED),
        ],
    )
    def test_why_there_is_no_test(self, opened: Callable[[], Session], step: Step, status: Status) -> None:
        gate, _ = run_test(opened, Judge(), step)
        assert gate.status is status


class TestRepairEpisode:
    def test_fail_feedback_revise_pass(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        ended, agent = run_repair(opened, judge, wrote("wrong"), wrote("right"))
        assert (ended.patch, ended.rounds, ended.checks) == (b"right", 1, 2)
        assert ended.verdict is not None
        assert ended.verdict.decision is Decision.PASS
        assert "feedback on wrong" in (agent.notes[1] or "")
        assert agent.allowed == [20, 4]
        assert judge.previous[1] is not None
        assert judge.previous[1].feedback == "feedback on wrong"

    def test_pass_ends_at_once(self, opened: Callable[[], Session]) -> None:
        ended, agent = run_repair(opened, Judge(), wrote("right"), wrote("wrong"))
        assert ended.rounds == 0
        assert len(agent.notes) == 1

    def test_after_the_last_revision_the_latest_patch_is_kept(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        ended, agent = run_repair(opened, judge, *[wrote(f"wrong{n}") for n in range(9)])
        assert ended.patch == b"wrong2"
        assert (ended.rounds, ended.checks) == (2, 3)
        assert judge.checked == [b"wrong0", b"wrong1", b"wrong2"]
        assert len(agent.notes) == 3

    def test_the_turn_limit_forces_a_check(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        ended, _ = run_repair(opened, judge, wrote("wrong", StopKind.TURNS, 20), wrote("right", StopKind.TURNS, 4))
        assert judge.checked == [b"wrong", b"right"]
        assert ended.verdict is not None
        assert ended.verdict.decision is Decision.PASS

    def test_an_identical_patch_costs_no_check_and_no_round(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        ended, agent = run_repair(opened, judge, wrote("wrong"), wrote("wrong"), wrote("wrong"), wrote("right"))
        assert judge.checked == [b"wrong", b"right"]
        assert (ended.rounds, ended.checks) == (1, 2)
        assert agent.allowed == [20, 4, 3, 2]
        assert "feedback on wrong" in (agent.notes[2] or "")

    def test_identical_patches_cannot_go_on_for_ever(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        ended, agent = run_repair(opened, judge, *[wrote("wrong", turns=0) for _ in range(50)])
        assert judge.checked == [b"wrong"]
        assert ended.rounds == 2
        assert len(agent.notes) == 1 + 4 + 4

    def test_a_patch_from_two_checks_ago_is_known_too(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        run_repair(opened, judge, wrote("a"), wrote("b"), wrote("a"), wrote("right"))
        assert judge.checked == [b"a", b"b", b"right"]

    def test_submit_before_any_feedback_is_checked_and_answered(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        ended, agent = run_repair(opened, judge, wrote("wrong", StopKind.SUBMIT), wrote("right"))
        assert "feedback on wrong" in (agent.notes[1] or "")
        assert ended.patch == b"right"

    def test_submit_after_feedback_keeps_the_patch_whatever_the_test_says(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        ended, agent = run_repair(opened, judge, wrote("wrong"), wrote("mine", StopKind.SUBMIT), wrote("right"))
        assert ended.patch == b"mine"
        assert judge.checked == [b"wrong", b"mine"]
        assert len(agent.notes) == 2

    def test_inconclusive_is_told_accepted_never_and_gives_no_extra_budget(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        for n in range(9):
            judge.special[f"p{n}".encode()] = Verdict(Decision.INCONCLUSIVE, "FLAKY", "two runs disagree")
        ended, agent = run_repair(opened, judge, *[wrote(f"p{n}") for n in range(9)])
        assert len(judge.checked) == 3
        assert ended.verdict is not None
        assert ended.verdict.decision is Decision.INCONCLUSIVE
        assert "INCONCLUSIVE (FLAKY): two runs disagree" in (agent.notes[1] or "")

    def test_a_forbidden_modification_is_told_to_the_agent(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        judge.special[b"tests"] = Verdict(Decision.FORBIDDEN, "FROZEN_FILE", "", feedback="tests/t.py is frozen")
        ended, agent = run_repair(opened, judge, wrote("tests"), wrote("nested"), wrote("right"))
        assert "tests/t.py is frozen" in (agent.notes[1] or "")
        assert "nested repository" in (agent.notes[2] or "")
        assert (ended.rounds, ended.patch) == (2, b"right")

    def test_the_verdict_is_that_of_the_patch_and_not_of_a_later_workspace_that_is_none(
        self, opened: Callable[[], Session]
    ) -> None:
        judge = Judge()
        ended, agent = run_repair(opened, judge, wrote("wrong"), wrote("nested"), wrote("nested", StopKind.SUBMIT))
        assert ended.patch == b"wrong"
        assert ended.verdict is not None
        assert (ended.verdict.decision, ended.verdict.feedback) == (Decision.FAIL, "feedback on wrong")
        assert "nested repository" in (ended.refused or "")
        assert "nested repository" in (agent.notes[2] or "")

    def test_a_workspace_that_never_was_a_patch_has_no_verdict_and_is_not_the_machine_s_fault(
        self, opened: Callable[[], Session]
    ) -> None:
        judge = Judge()
        ended, _ = run_repair(opened, judge, wrote("nested"), wrote("nested", StopKind.SUBMIT))
        assert (ended.patch, ended.verdict, judge.checked) == (b"", None, [])
        assert Resolution(FROZEN, ended).status is Status.NOT_FIXED

    def test_without_a_qualified_test_round_0_is_what_there_is(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        ended, agent = run_repair(opened, judge, wrote("anything"), wrote("more"), gate=Gate(None, 3))
        assert (ended.patch, ended.verdict, ended.rounds) == (b"anything", None, 0)
        assert judge.checked == []
        assert len(agent.notes) == 1

    @pytest.mark.parametrize("kind", sorted(set(StopKind) - {StopKind.SUBMIT_TEST, StopKind.DISPUTE}))
    def test_at_every_limit_the_patch_is_kept_and_checked(self, opened: Callable[[], Session], kind: StopKind) -> None:
        judge = Judge()
        ended, agent = run_repair(opened, judge, wrote("right", kind), wrote("more"))
        assert (ended.patch, judge.checked, len(agent.notes)) == (b"right", [b"right"], 1)

    def test_a_sandbox_that_dies_loses_one_action_at_most(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        with opened() as session:
            ended = repair(Killer("right"), session, lambda: FROZEN, judge.harness(), SETTINGS, judge.emit)
        assert ended.patch == b"right" and judge.checked == [b"right"]
        assert isinstance(ended.error, SandboxError)
        assert Resolution(FROZEN, ended).status is Status.RESOLVED  # what is proved is proved
        judge = Judge()
        with opened() as session:
            ended = repair(Killer("wrong"), session, lambda: FROZEN, judge.harness(), SETTINGS, judge.emit)
        assert ended.patch == b"wrong" and judge.checked == [b"wrong"]
        assert Resolution(FROZEN, ended).status is Status.INFRASTRUCTURE

    def test_the_patch_is_kept_after_every_action_that_changed_something(self, opened: Callable[[], Session]) -> None:
        judge = Judge()

        class Busy(Scripted):
            def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
                for script in ("true", "printf a > fix", "cat fix", "printf b > fix", "rm fix", "printf c > fix"):
                    session.act(script, 20)
                    kept.append([data["patch"] for kind, data in judge.events if kind == "patch"])
                return Stop(StopKind.CHECK)

        kept: list[list[bytes]] = []
        with opened() as session:
            repair(Busy(), session, lambda: Gate(None), judge.harness(), SETTINGS, judge.emit)
        a, b, c = b"a", b"b", b"c"
        assert kept == [[], [a], [a], [a, b], [a, b, b""], [a, b, b"", c]]

    def test_what_was_kept_before_the_workspace_became_no_patch_is_checked(self, opened: Callable[[], Session]) -> None:
        judge = Judge()

        class Spoils(Scripted):
            def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
                session.act("printf right > fix", 20)
                session.act("printf nested > fix", 20)
                return Stop(StopKind.COST)

        with opened() as session:
            ended = repair(Spoils(), session, lambda: FROZEN, judge.harness(), SETTINGS, judge.emit)
        assert (ended.patch, judge.checked) == (b"right", [b"right"])
        assert ended.verdict is not None and ended.verdict.decision is Decision.PASS
        assert "nested repository" in (ended.refused or "")

    def test_a_verifier_that_breaks_loses_no_fix(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        judge.special[b"fix"] = SandboxError("The engine died; start it again.")
        ended, _ = run_repair(opened, judge, wrote("fix"))
        assert judge.checked == [b"fix"]  # not tried again
        assert ended.patch == b"fix"
        assert isinstance(ended.error, SandboxError)

    def test_an_agent_that_crashes_loses_no_fix(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        with pytest.raises(IndexError):  # the script has no second step
            run_repair(opened, judge, wrote("fix"))
        assert [data["patch"] for kind, data in judge.events if kind == "patch"][-1] == b"fix"


class TestSideBySide:
    def test_both_episodes_run_at_the_same_time(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        judge.gate_ready.clear()

        def emit(kind: str, data: Mapping[str, Any]) -> None:
            judge.emit(kind, data)
            if kind == "repair.stopped":
                judge.gate_ready.set()  # the test can qualify only once Round 0 has ended

        with opened() as first, opened() as second:
            tester = Seat(Scripted(wrote("good test", SUBMIT)), first)
            fixer = Seat(Scripted(wrote("wrong"), wrote("right")), second)
            resolution = resolve(tester, fixer, judge.harness(), SETTINGS, emit)
        assert resolution.status is Status.RESOLVED
        assert judge.kinds().index("repair.stopped") < judge.kinds().index("test.qualification")

    @pytest.mark.parametrize(
        ("test_steps", "fix_steps", "status"),
        [
            ([wrote("good test", SUBMIT)], [wrote("right")], Status.RESOLVED),
            ([wrote("bad", StopKind.FORMAT)], [wrote("right")], Status.UNQUALIFIED),
            ([wrote("good test", SUBMIT)], [wrote("a"), wrote("b"), wrote("c")], Status.NOT_FIXED),
            ([wrote("good test", SUBMIT)], [wrote("a", StopKind.MODEL)], Status.INFRASTRUCTURE),
            ([wrote("good test", SUBMIT)], [wrote("right", StopKind.MODEL)], Status.RESOLVED),
            ([wrote("x", StopKind.MODEL)], [wrote("right")], Status.INFRASTRUCTURE),
        ],
    )
    def test_how_it_ended(
        self, opened: Callable[[], Session], test_steps: Sequence[Step], fix_steps: Sequence[Step], status: Status
    ) -> None:
        judge = Judge()
        with opened() as first, opened() as second:
            test, fix = Seat(Scripted(*test_steps), first), Seat(Scripted(*fix_steps), second)
            resolution = resolve(test, fix, judge.harness(), SETTINGS, judge.emit)
        assert resolution.status is status
        assert resolution.repair.patch

    def test_an_interruption_keeps_the_newest_patch_and_stops_both(self, opened: Callable[[], Session]) -> None:
        judge = Judge()
        judge.gate_ready.clear()
        stopped = threading.Event()

        class Waiting(Scripted):
            """Writes a fix, then thinks until the harness takes the session away."""

            def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
                session.act("printf %s half > fix", 20)
                reached.set()
                try:
                    while True:
                        session.act("sleep 0.02", 20)
                except Interrupted:
                    stopped.set()
                    raise

        reached = threading.Event()

        class Impatient(Scripted):
            """A Test agent that fails as a signal would, once the fix is under way."""

            def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
                assert reached.wait(20)
                raise Interrupted("Interrupted; resume it.")

        with opened() as first, opened() as second, pytest.raises(Interrupted):
            resolve(Seat(Impatient(), first), Seat(Waiting(), second), judge.harness(), SETTINGS, judge.emit)
        assert stopped.wait(20)
        assert [data["patch"] for kind, data in judge.events if kind == "patch"][-1] == b"half"
