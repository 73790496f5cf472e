"""N Test episodes and M Repair episodes, from the first turn to the chosen pair.

All episodes are independent: own sessions, own histories. Round 0 of every Repair episode is done without any feedback.
When all Round 0 patches and all tests are there, the tests are appraised on them, and the best test is the gate of the
revisions (`choose.gate`); without a trusted one there are no revisions. When the episodes have ended, the final patches
are appraised under all tests, and the pair is chosen (`choose.choose`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from execcritic_scaffold.agents import Agent, Stop, Usage
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.disputes import Ruling
from execcritic_scaffold.errors import InfrastructureError, Interrupted
from execcritic_scaffold.loop import GRACE, Emit, Harness, LoopSettings, Seat, repair, write_test
from execcritic_scaffold.outcome import Verdict
from execcritic_scaffold.resolution import Gate, Repair, Resolution, Status
from execcritic_scaffold.sandbox.protocol import Session
from execcritic_scaffold.selection.appraise import Appraisal, Bench, Judge, appraise
from execcritic_scaffold.selection.choose import Choice, choose, gate, plurality
from execcritic_scaffold.selection.settings import SelectionSettings
from execcritic_scaffold.stoppable import Background, StoppableSession
from execcritic_scaffold.workingpatch import rescue

INTERRUPTED = "The episode was interrupted; go on with `--resume`."


@dataclass(frozen=True)
class Selected:
    """How the whole ended: `resolution` is that of the chosen pair; the rest says why it was chosen."""

    resolution: Resolution
    choice: Choice
    appraisal: Appraisal
    gate: str | None
    """The test the revisions were checked with."""
    gates: Mapping[str, Gate]
    repairs: Mapping[str, Repair]


def resolve_several(
    tests: Mapping[str, Seat | Gate],
    fixes: Mapping[str, Seat],
    harness: Harness,
    bench: Bench,
    loop: LoopSettings,
    settings: SelectionSettings,
    emit: Callable[[str | None], Emit],
) -> Selected:
    """All episodes, at most `settings.concurrent` of them at work at a time; opening and closing seats is the caller's.

    A test given as a `Gate` is one that was written before. `emit` gives the events of an episode by its name, those
    of the whole for None. An interruption is handled as by `loop.resolve`, for every Repair session.
    """
    return _Several(fixes, harness, bench, loop, settings, emit).run(tests)


class _Several:
    def __init__(
        self,
        fixes: Mapping[str, Seat],
        harness: Harness,
        bench: Bench,
        loop: LoopSettings,
        settings: SelectionSettings,
        emit: Callable[[str | None], Emit],
    ) -> None:
        self.fixes, self.harness, self.bench = fixes, harness, bench
        self.loop, self.settings, self.emit = loop, settings, emit
        self.slots, self.over = threading.Semaphore(settings.concurrent), threading.Event()
        self.sessions = {name: StoppableSession(seat.session) for name, seat in fixes.items()}
        self.first = {name: threading.Event() for name in fixes}
        """Set when an episode has ended its Round 0, or ended altogether."""
        self.patches: dict[str, bytes] = {}
        self.demoted: dict[str, str] = {}
        self.gate: str | None = None

    def run(self, tests: Mapping[str, Seat | Gate]) -> Selected:
        others: list[StoppableSession] = []
        writing: dict[str, Callable[[], Gate]] = {}
        for name, given in tests.items():
            if isinstance(given, Gate):
                writing[name] = _always(given)
                continue
            others.append(StoppableSession(given.session))
            writing[name] = Background(self._write(name, given.agent, others[-1]), name).result
        gates = Background(lambda: {name: ask() for name, ask in writing.items()}, "tests")
        gating = Background(lambda: self._choose_gate(gates.result()), "gate")
        fixing = {name: Background(self._repair(name, gating), name) for name in self.fixes}
        try:
            repairs = {name: background.result() for name, background in fixing.items()}
            judging = Background(lambda: self._finish(gates.result(), repairs), "choice")
            return judging.result()
        except BaseException:
            self._stop(others)
            raise

    def _write(self, name: str, agent: Agent, session: StoppableSession) -> Callable[[], Gate]:
        working = _InTurn(agent, self.slots, self.over)
        return lambda: write_test(working, session, self.harness, self.loop, self.emit(name))

    def _repair(self, name: str, gating: Background[Gate]) -> Callable[[], Repair]:
        say = self.emit(name)

        def emit(kind: str, data: Mapping[str, Any]) -> None:
            if kind == "patch":
                self.patches[name] = data["patch"]
            elif kind == "dispute" and isinstance(data["answer"], Ruling) and self.gate is not None:
                self.demoted[self.gate] = f'a dispute was upheld: "{data["answer"].quote}"'
            say(kind, data)

        def frozen() -> Gate:
            self.first[name].set()
            found = gating.result()
            return Gate(None) if self.gate in self.demoted else found

        def episode() -> Repair:
            try:
                agent = _InTurn(self.fixes[name].agent, self.slots, self.over)
                return repair(agent, self.sessions[name], frozen, self.harness, self.loop, emit)
            finally:
                self.first[name].set()

        return episode

    def _choose_gate(self, gates: Mapping[str, Gate]) -> Gate:
        for event in self.first.values():
            event.wait()
        appraisal = self._appraise(gates, dict(self.patches))
        self.gate = gate(appraisal.matrix, appraisal.scores, self.settings.threshold)
        self.emit(None)("selection.gate", {"gate": self.gate, "scores": _values(appraisal)})
        return gates[self.gate] if self.gate is not None else Gate(None)

    def _finish(self, gates: Mapping[str, Gate], repairs: Mapping[str, Repair]) -> Selected:
        appraisal = self._appraise(gates, {name: ended.patch for name, ended in repairs.items()})
        choice = choose(appraisal.matrix, appraisal.scores, self.settings.threshold, appraisal.accepted)
        self.emit(None)("selection", {"choice": choice, "scores": _values(appraisal)})
        return Selected(
            self._resolution(gates, repairs, choice, appraisal), choice, appraisal, self.gate, gates, repairs
        )

    def _appraise(self, gates: Mapping[str, Gate], patches: Mapping[str, bytes]) -> Appraisal:
        tests = {name: ended.bundle for name, ended in gates.items() if ended.bundle is not None}
        bench = replace(
            self.bench, verify=self._unless_over(self.bench.verify), quick=self._unless_over(self.bench.quick)
        )
        return appraise(tests, patches, bench, self.settings, self.demoted)

    def _unless_over(self, judge: Judge) -> Judge:
        def judged(bundle: FrozenBundle, patch: bytes) -> Verdict:
            if self.over.is_set():
                raise Interrupted(INTERRUPTED)
            return judge(bundle, patch)

        return judged

    def _resolution(
        self, gates: Mapping[str, Gate], repairs: Mapping[str, Repair], choice: Choice, appraisal: Appraisal
    ) -> Resolution:
        patch = choice.patch or plurality(appraisal.matrix)
        ended = repairs[patch] if patch is not None else _first_broken(repairs)
        verdict = appraisal.verdicts.get((choice.test, patch)) if choice.test and patch else None
        error = ended.error
        if choice.test and patch and verdict is None:
            error = error or InfrastructureError(f"There is no verdict: {'; '.join(appraisal.missing)}.")
        fixed = replace(ended, verdict=verdict, error=error, ruling=None)
        if choice.test is not None:
            return Resolution(gates[choice.test], fixed)
        return Resolution(_without_bundle(gates), fixed)

    def _stop(self, others: list[StoppableSession]) -> None:
        self.over.set()
        for session in (*self.sessions.values(), *others):
            session.stop()
        deadline = time.monotonic() + GRACE
        for name, session in self.sessions.items():
            rescue(session, self.harness, self.emit(name), max(0.0, deadline - time.monotonic()))


class _InTurn:
    """An agent that works only while there is a slot for it."""

    def __init__(self, agent: Agent, slots: threading.Semaphore, over: threading.Event) -> None:
        self._agent, self._slots, self._over = agent, slots, over

    @property
    def usage(self) -> Usage:
        return self._agent.usage

    def work(self, session: Session, turns: int, note: str | None = None) -> Stop:
        with self._slots:
            if self._over.is_set():
                raise Interrupted(INTERRUPTED)
            return self._agent.work(session, turns, note)


def _values(appraisal: Appraisal) -> dict[str, float]:
    return {test: round(score.value, 3) for test, score in appraisal.scores.items()}


def _first_broken(repairs: Mapping[str, Repair]) -> Repair:
    """Of episodes that all made no patch: one that says why, if any does."""
    return next((r for r in repairs.values() if r.error or r.refused), next(iter(repairs.values())))


def _without_bundle(gates: Mapping[str, Gate]) -> Gate:
    """The Test side where nothing decides: one whose test was not trusted, else the way one of them failed."""
    frozen = next((g for g in gates.values() if g.bundle is not None), None)
    if frozen is not None:
        return replace(frozen, bundle=None, stop=None, error=None)
    failed = next((g for g in gates.values() if g.status is Status.UNQUALIFIED), None)
    return failed or next(iter(gates.values()))


def _always(gate: Gate) -> Callable[[], Gate]:
    return lambda: gate
