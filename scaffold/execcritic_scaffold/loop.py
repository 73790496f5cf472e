"""Test-verify-revise (METHOD 3 and 4): a Test episode and a Repair episode, joined by the frozen test.

The loop knows no model and no sandbox: it takes two `Agent`s, the sessions they work in and a `Harness` of three
functions, and says every step to `emit`. The harness, never an agent, takes the patch out of a workspace, and does so
after every action that changed it and after every stop, so that the last state of a fix survives whatever ends the
episode, the death of the sandbox included, and is checked.

Rules of the Repair episode. Round 0 is a complete solve without feedback; its end (`check`, `submit` or the turn limit)
asks for the first check. Each check that does not pass opens a revision round. A `check` of a patch that was checked
before repeats that answer and costs no round, only the turn it took. `submit` after feedback keeps the patch, whatever
the test says. A `dispute` that is upheld ends the episode unverified; any other is answered within the round.
INCONCLUSIVE and forbidden patches are answered like failures: a note, the next round, no extra budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from execcritic_scaffold.agents import Agent, Stop, StopKind, Submission
from execcritic_scaffold.disputes import Court, Docket, Ruling
from execcritic_scaffold.errors import ExecCriticError, InfrastructureError, PatchError
from execcritic_scaffold.keeping import KeepingSession
from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.resolution import Gate, Repair, Resolution
from execcritic_scaffold.sandbox.protocol import Session
from execcritic_scaffold.stoppable import Background, StoppableSession
from execcritic_scaffold.wording import count
from execcritic_scaffold.workingpatch import WorkingPatch, rescue

if TYPE_CHECKING:
    from execcritic_scaffold.bundle import FrozenBundle
    from execcritic_scaffold.qualification import Qualification

Emit = Callable[[str, Mapping[str, Any]], None]
"""Receives an event's name and its data: plain values, `Stop`, `Qualification`, `Verdict`, patches as bytes.
Called from both episodes' threads."""

GRACE = 5.0
"""Seconds an interruption waits for the action in progress before it gives up taking the newest patch."""


class LoopSettings(BaseModel):
    """METHOD's budgets; the numbers themselves live in the application's config.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    submissions: int = Field(ge=1, description="tests the Test agent may offer in one episode")
    test_turns: int = Field(ge=1, description="model turns of the Test episode")
    repair_turns: int = Field(ge=1, description="model turns of Round 0")
    revisions: int = Field(ge=0, description="revision rounds after Round 0")
    revision_turns: int = Field(ge=1, description="model turns of each revision round")


@dataclass(frozen=True)
class Harness:
    """What the loop asks of the harness, already bound to one Base and one sandbox."""

    extract: Callable[[Session], bytes]
    """The complete Base-relative patch of a workspace. PatchError where it holds what a patch cannot."""
    qualify: Callable[[Submission], Qualification]
    verify: Callable[[FrozenBundle, bytes, Verdict | None], Verdict]
    """(bundle, patch, the verdict before this one) -> verdict."""
    feedback_characters: int
    """How long a refused test's diagnostics may be."""
    court: Court | None = None
    """Who rules on disputes; None: nobody, and the Repair agent should not be offered any."""


def write_test(agent: Agent, session: Session, harness: Harness, settings: LoopSettings, emit: Emit) -> Gate:
    """The Test episode: at most `submissions` offers within `test_turns`; the first that qualifies is kept."""
    note: str | None = None
    last: Qualification | None = None
    used = 0
    emit("test.started", {"turns": settings.test_turns, "submissions": settings.submissions})
    for number in range(1, settings.submissions + 1):
        try:
            left = settings.test_turns - used
            if left < 1:
                return _ended(emit, Gate(None, number - 1, last, Stop(StopKind.TURNS, "all turns are used")))
            stop, turns = _work(agent, session, left, note)
            used += turns
            if stop.kind is not StopKind.SUBMIT_TEST:
                return _ended(emit, Gate(None, number - 1, last, stop))
            try:
                patch = harness.extract(session)
            except PatchError as error:
                note = f"Rejected before any test was run: {error} Submission {number} of {settings.submissions}."
                emit("test.rejected", {"number": number, "detail": str(error)})
                continue
            submission = Submission(
                patch, stop.nodes, stop.companions, stop.superseded, stop.contract, unseen=stop.unseen
            )
            emit("test.submitted", {"number": number, "patch": patch, "nodes": stop.nodes})
            last = harness.qualify(submission)
        except InfrastructureError as error:
            return _ended(emit, Gate(None, number - 1, last, None, error))
        emit("test.qualification", {"number": number, "qualification": last})
        if last.status == "QUALIFIED":
            return _ended(emit, Gate(last.bundle, number, last, stop))
        told = last.diagnostics(harness.feedback_characters)
        note = f"{told}\n(Submission {number} of {settings.submissions} was not accepted.)"
    return _ended(emit, Gate(None, settings.submissions, last, stop))


def repair(
    agent: Agent, session: Session, gate: Callable[[], Gate], harness: Harness, settings: LoopSettings, emit: Emit
) -> Repair:
    """The Repair episode. `gate` is asked for the frozen test when Round 0 ends, and may block until there is one."""
    episode, docket = WorkingPatch(session, harness, emit), Docket(harness.court)
    kept = KeepingSession(session, episode.keep)
    turns, note, used = settings.repair_turns, None, 0
    rounds = 0
    stop: Stop | None = None
    emit("round.started", {"round": 0, "turns": turns})
    try:
        while True:
            stop, spent = _work(agent, kept, turns - used, note)
            used += spent
            emit("repair.stopped", {"round": rounds, "stop": stop, "turns": used})
            episode.take()
            bundle = gate().bundle
            if bundle is None:
                return episode.end(rounds, stop)
            if stop.kind is StopKind.DISPUTE:
                answer = docket.hear(bundle, stop, episode.failed)
                emit("dispute", {"node": stop.node, "quote": stop.quote, "reason": stop.reason, "answer": answer})
                if isinstance(answer, Ruling):
                    return episode.end(rounds, stop, ruling=answer)
                note = answer
                continue
            first, fresh = episode.checks == 0, episode.verify(bundle)
            verdict = episode.answer
            finished = verdict is not None and verdict.decision is Decision.PASS
            gave_up = stop.kind is StopKind.SUBMIT and not first
            if finished or gave_up or stop.kind not in (StopKind.CHECK, StopKind.SUBMIT, StopKind.TURNS):
                episode.verify_kept(bundle)
                return episode.end(rounds, stop)
            note = episode.note()
            if not fresh and stop.kind is not StopKind.TURNS and used < turns:
                note += "\nThis patch is the same as one already checked: nothing was run again, no check was used."
                continue
            if rounds == settings.revisions:
                episode.verify_kept(bundle)
                return episode.end(rounds, stop)
            rounds, turns, used = rounds + 1, settings.revision_turns, 0
            note += f"\nRevision round {rounds} of {settings.revisions}, {count(turns, 'turn')}."
            emit("round.started", {"round": rounds, "turns": turns})
    except InfrastructureError as error:
        if bundle := gate().bundle:
            episode.verify_kept(bundle)
        return episode.end(rounds, stop, error)
    except BaseException:
        with suppress(ExecCriticError):  # what is raised already says more
            episode.take()
        raise


@dataclass(frozen=True)
class Seat:
    """An agent and the session it works in. Opening and closing the session is the caller's."""

    agent: Agent
    session: Session


def resolve(
    test: Seat | None, fix: Seat, harness: Harness, settings: LoopSettings, emit: Emit, *, gate: Gate | None = None
) -> Resolution:
    """Both episodes, side by side up to the end of Round 0. Without a `test` seat, `gate` says what is known already.

    An interruption of the calling thread ends both episodes, takes the newest patch out of the Repair session (event
    "patch") and is raised again.
    """
    known = gate or Gate(None)
    frozen: Callable[[], Gate] = lambda: known  # noqa: E731
    sessions = [StoppableSession(fix.session)]
    if test is not None:
        sessions.append(StoppableSession(test.session))
        tester = test.agent
        frozen = Background(lambda: write_test(tester, sessions[1], harness, settings, emit), "test").result
    fixing = Background(lambda: repair(fix.agent, sessions[0], frozen, harness, settings, emit), "repair")
    try:
        return Resolution(frozen(), fixing.result())
    except BaseException:
        for session in sessions:
            session.stop()
        rescue(sessions[0], harness, emit, GRACE)
        raise


def _work(agent: Agent, session: Session, turns: int, note: str | None) -> tuple[Stop, int]:
    """One call of an agent and the turns it cost; at least one, so that no agent can work without end."""
    before = agent.usage.turns
    stop = agent.work(session, turns, note)
    return stop, max(1, agent.usage.turns - before)


def _ended(emit: Emit, gate: Gate) -> Gate:
    emit("test.ended", {"gate": gate})
    return gate
