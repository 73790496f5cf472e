"""Several episodes: who is checked with what, what is chosen, and how it ends. Real sessions, scripted agents.

A patch is the bytes of the file `fix`, a test is a patch that names the fixes it passes: `good` passes right, `lax`
passes anything, `mad` nothing.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from execcritic_scaffold.agents import Stop, StopKind, Submission, Usage
from execcritic_scaffold.bundle import BundleRecord, FrozenBundle, NodeRecord, blob_of
from execcritic_scaffold.disputes import Court, Ruling
from execcritic_scaffold.errors import Interrupted, SandboxError
from execcritic_scaffold.loop import Harness, LoopSettings, Seat
from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.qualification import Qualification
from execcritic_scaffold.resolution import Status
from execcritic_scaffold.sandbox.local import Local
from execcritic_scaffold.sandbox.protocol import Limits, Session, Workspace
from execcritic_scaffold.selection.appraise import Bench, appraise
from execcritic_scaffold.selection.settings import SelectionSettings, Weights
from execcritic_scaffold.selection.several import Selected, resolve_several
from tests.scaffold.working import written

LOOP = LoopSettings(submissions=1, test_turns=5, repair_turns=5, revisions=1, revision_turns=5)
WEIGHTS = Weights(prior=1, dual=2, accepts=1, rejects=1, mutants=4, pinning=1, evidence=1, judge=3)
SETTINGS = SelectionSettings(
    prior=0.6, threshold=0.5, weights=WEIGHTS, concurrent=2, seconds=60, mutants=2, judge="none", disputes=2,
    consistency=False,
)  # fmt: skip
ISSUE = "It should keep the longer one."


def bundle_of(name: bytes) -> FrozenBundle:
    file = blob_of(name)
    node = NodeRecord(kind="reproducing", tier="assertion", base_outcome="FAILED_ASSERT", signature="")
    record = BundleRecord(
        harness="0", created="", base_tree="0" * 40, base_commit=None, delta=None, environment_files={},
        issue_sha256="", author="agent", runner="pytest", runner_options={}, files={"t.txt": file}, readonly=[],
        nodes={"t::n": node}, superseded=[], contract=None, environment={}, guard={}, evidence=[], findings=[],
        test_patch=file,
    )  # fmt: skip
    return FrozenBundle(record, {file.sha256: name})


def text_of(bundle: FrozenBundle) -> bytes:
    file = bundle.changes["t.txt"]
    assert file is not None
    return file.data


def verify(bundle: FrozenBundle, patch: bytes, previous: Verdict | None = None) -> Verdict:
    if patch == b"cheat":
        caught = text_of(bundle) == b"good"
        return Verdict(Decision.TAMPERED, "TWIN", "") if caught else Verdict(Decision.PASS, "PASS", "")
    passing = {b"good": patch == b"right", b"lax": b"mutant" not in patch, b"mad": False}
    if passing[text_of(bundle)]:
        return Verdict(Decision.PASS, "PASS", "")
    return Verdict(Decision.FAIL, "FROZEN_TEST", "", feedback=f"feedback on {patch.decode()}")


def qualify(submission: Submission) -> Qualification:
    if submission.patch == b"broken":
        raise SandboxError("The engine died; start it again.")
    if submission.patch == b"bad":
        return Qualification("REJECTED", "B2", "passes on Base")
    return Qualification("QUALIFIED", "OK", "", bundle=bundle_of(submission.patch))


class Scripted:
    """Plays (contents of `fix`, Stop) and keeps what it was told."""

    def __init__(self, *steps: tuple[str, Stop | StopKind]) -> None:
        self.usage, self.steps, self.notes = Usage(), list(steps), list[str | None]()

    def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
        self.notes.append(note)
        text, stop = self.steps.pop(0)
        session.act(f"printf %s {text!r} > fix", 20)
        self.usage = Usage(self.usage.turns + 1)
        return stop if isinstance(stop, Stop) else Stop(stop)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Session]]:
    source = tmp_path_factory.mktemp("base")
    (source / "code.py").write_text("x = 1\n")
    sandbox = Local()
    prepared = sandbox.prepare(hashlib.sha1(b"several").hexdigest(), source, sandbox.inspect(sys.executable, None))
    yield lambda: sandbox.open(Workspace(prepared), Limits())
    sandbox.close()


class Runner:
    def __init__(self, opened: Callable[[], Session]) -> None:
        self.opened = opened
        self.events: list[tuple[str | None, str, Mapping[str, Any]]] = []
        self.court: Court | None = None
        self.watch: Callable[[str | None, str], None] = lambda name, kind: None

    def __call__(self, tests: list[Any], fixes: list[Any]) -> Selected:
        bench = Bench(verify, verify, lambda patch, most: [patch + b" mutant"] * most, lambda texts: set(texts), ISSUE)
        harness = Harness(written, qualify, verify, 6000, self.court)
        agents = [a if hasattr(a, "work") else Scripted((a, StopKind.SUBMIT_TEST)) for a in tests]
        sessions = [self.opened() for _ in (*agents, *fixes)]
        try:
            return resolve_several(
                {f"test-{n}": Seat(a, sessions[n - 1]) for n, a in enumerate(agents, 1)},
                {f"repair-{n}": Seat(a, sessions[n - 1 + len(agents)]) for n, a in enumerate(fixes, 1)},
                harness, bench, LOOP, SETTINGS, self.emit,
            )  # fmt: skip
        finally:
            for session in sessions:
                session.close()

    def emit(self, name: str | None) -> Callable[[str, Mapping[str, Any]], None]:
        def say(kind: str, data: Mapping[str, Any]) -> None:
            self.events.append((name, kind, data))
            self.watch(name, kind)

        return say


@pytest.fixture
def run(opened: Callable[[], Session]) -> Runner:
    return Runner(opened)


def fixer(*texts: str, end: StopKind = StopKind.CHECK) -> Scripted:
    return Scripted(*[(text, end) for text in texts])


def test_the_right_patch_and_the_test_that_tells(run: Runner) -> None:
    """Nobody passes `mad`; the gate is `good`; the wrong patch is revised with its feedback."""
    wrong, right = fixer("wrong", "wrong2"), fixer("right")
    found = run(["mad", "good", "good"], [wrong, right])
    assert (found.gate, found.choice.test, found.choice.patch) == ("test-2", "test-2", "repair-2")
    assert found.resolution.status is Status.RESOLVED
    assert found.appraisal.same["test-3"] == "test-2"
    assert "feedback on wrong" in (wrong.notes[1] or "")
    assert len(right.notes) == 1


def test_without_a_test_there_are_no_revisions_and_the_patch_that_most_made_is_kept(run: Runner) -> None:
    found = run(["bad", "broken"], [fixer("one"), fixer("two"), fixer("two")])
    assert (found.gate, found.choice.test, found.choice.patch) == (None, None, "repair-2")
    assert found.resolution.repair.patch == b"two"
    assert found.resolution.status is Status.UNQUALIFIED


def test_where_the_machine_failed_every_test(run: Runner) -> None:
    assert run(["broken", "broken"], [fixer("one")]).resolution.status is Status.INFRASTRUCTURE


def test_one_broken_episode_does_not_end_the_others(run: Runner) -> None:
    class Dead(Scripted):
        def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
            raise SandboxError("The session died; start again.")

    found = run(["good", Dead()], [fixer("right"), Dead()])
    assert found.resolution.status is Status.RESOLVED
    assert found.repairs["repair-2"].error is not None


def test_what_tampers_with_one_test_passes_none(run: Runner) -> None:
    found = run(["lax", "good"], [fixer("cheat", "cheat", end=StopKind.SUBMIT)])
    assert found.resolution.status is Status.NOT_FIXED
    assert found.resolution.repair.verdict is not None
    assert found.resolution.repair.verdict.decision is Decision.TAMPERED


def test_an_upheld_dispute_takes_the_test_from_everybody(run: Runner) -> None:
    """`mad` is the only test: one agent disputes it, the other would check again and finds no gate."""
    run.court = Court(lambda bundle, dispute: Ruling(False, ISSUE, "it demands another thing"), ISSUE, 2)
    dispute = Stop(StopKind.DISPUTE, "it is mad", node="t::n", quote=ISSUE)
    ruled = threading.Event()

    class After(Scripted):
        def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
            if note is not None:
                assert ruled.wait(20)
            return super().work(session, turns, note)

    run.watch = lambda name, kind: ruled.set() if (name, kind) == ("repair-1", "repair.ended") else None
    other = After(("mine", StopKind.CHECK), ("mine2", StopKind.CHECK))
    found = run(["mad"], [Scripted(("mine", StopKind.CHECK), ("mine", dispute)), other])
    assert found.resolution.status is Status.UNQUALIFIED
    assert "a dispute was upheld" in (found.appraisal.scores["test-1"].demoted or "")
    assert found.repairs["repair-2"].checks == 1


def test_what_a_judge_says_counts_where_it_quotes_the_issue() -> None:
    def scores(ruling: Ruling) -> Mapping[str, float]:
        bench = Bench(verify, verify, lambda patch, most: [], lambda texts: set(texts), ISSUE, lambda bundle: ruling)
        found = appraise({"test-1": bundle_of(b"good")}, {}, bench, SETTINGS, {})
        return {name: signal.value for name, signal in found.scores["test-1"].signals.items()}

    assert scores(Ruling(False, ISSUE, "no")) == {"judge": 0.0}
    assert scores(Ruling(True, ISSUE, "yes")) == {"judge": 1.0}
    assert scores(Ruling(False, "words of its own", "no")) == {}


def test_verdicts_take_no_more_than_their_time() -> None:
    bench = Bench(verify, verify, lambda patch, most: [], lambda texts: set(texts), ISSUE)
    late = SETTINGS.model_copy(update={"seconds": 1e-9})
    found = appraise({"test-1": bundle_of(b"good")}, {"repair-1": b"right"}, bench, late, {})
    assert found.verdicts == {}
    assert "selection.seconds" in found.missing[0]


def test_at_most_so_many_at_work(run: Runner) -> None:
    at_work, most, lock = [0], [0], threading.Lock()

    class Counting(Scripted):
        def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
            with lock:
                at_work[0] += 1
                most[0] = max(most[0], at_work[0])
            session.act("sleep 0.1", 20)
            with lock:
                at_work[0] -= 1
            return super().work(session, turns, note)

    run(["good"], [Counting(("right", StopKind.CHECK)) for _ in range(5)])
    assert most[0] <= SETTINGS.concurrent


def test_an_interruption_keeps_every_newest_patch(run: Runner) -> None:
    reached = [threading.Event(), threading.Event()]

    class Waiting(Scripted):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
            session.act(f"printf %s half{self.number} > fix", 20)
            reached[self.number].set()
            while self.number or not reached[1].is_set():
                session.act("sleep 0.02", 20)
            raise Interrupted("Interrupted; resume it.")

    with pytest.raises(Interrupted):
        run(["good"], [Waiting(0), Waiting(1)])
    assert {d["patch"] for _, kind, d in run.events if kind == "patch"} == {b"half0", b"half1"}
