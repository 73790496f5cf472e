"""The patch of a Repair episode: taken out of its workspace by the harness, and what is known about it."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING

from execcritic_scaffold.agents import Stop
from execcritic_scaffold.disputes import Ruling
from execcritic_scaffold.errors import ExecCriticError, InfrastructureError, PatchError
from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.resolution import Repair
from execcritic_scaffold.sandbox.protocol import Session
from execcritic_scaffold.stoppable import StoppableSession

if TYPE_CHECKING:
    from execcritic_scaffold.bundle import FrozenBundle
    from execcritic_scaffold.loop import Emit, Harness


class WorkingPatch:
    """The patch of an episode and what is known about it."""

    def __init__(self, session: Session, harness: Harness, emit: Emit) -> None:
        self.session, self.harness, self.emit = session, harness, emit
        self.patch = b""
        self.answer: Verdict | None = None
        """What the agent is told next: the verdict of `patch`, or why its workspace is none."""
        self.checks = 0
        self._refused: str | None = None
        self._checked: dict[str, Verdict] = {}
        self._tried: set[str] = set()

    def keep(self) -> None:
        """Take the patch of an action's end; what is no patch there may become one before the round ends."""
        with suppress(PatchError):
            patch = self.harness.extract(self.session)
            if patch != self.patch:
                self.patch = patch
                self.emit("patch", {"patch": patch})

    def take(self) -> None:
        """Take the patch out of the workspace. One that cannot be taken leaves the previous one in place."""
        self._refused = None
        try:
            self.patch = self.harness.extract(self.session)
        except PatchError as error:
            self._refused = str(error)
            self.emit("patch.refused", {"detail": str(error)})
        else:
            self.emit("patch", {"patch": self.patch})

    def verify(self, bundle: FrozenBundle) -> bool:
        """Bring `answer` up to date with the workspace; False where an identical patch was checked before."""
        if self._refused is not None:
            self.checks += 1
            feedback = f"The workspace cannot be taken as a patch: {self._refused}"
            self.answer = Verdict(Decision.FORBIDDEN, "PATCH", self._refused, feedback=feedback)
            return True
        return self._check(bundle)

    def verify_kept(self, bundle: FrozenBundle) -> None:
        """Check the patch that is handed in where its workspace died, or became no patch, before that was done."""
        if self.patch and self._digest() not in self._tried:
            with suppress(InfrastructureError):
                self._check(bundle)

    def _check(self, bundle: FrozenBundle) -> bool:
        digest = self._digest()
        if known := self._checked.get(digest):
            self.answer = known
            self.emit("check.repeated", {"patch": digest, "decision": known.decision})
            return False
        previous, self.answer = self.answer, None
        self._tried.add(digest)
        self.emit("check.started", {"number": self.checks + 1, "patch": digest})
        try:
            verdict = self.harness.verify(bundle, self.patch, previous)
        except PatchError as error:
            verdict = Verdict(Decision.FORBIDDEN, "PATCH", str(error), feedback=f"The patch is refused: {error}")
        self.answer = self._checked[digest] = verdict
        self.checks += 1
        self.emit("check", {"number": self.checks, "patch": digest, "verdict": verdict})
        return True

    @property
    def failed(self) -> bool:
        """Whether the last check failed by the test."""
        return self.answer is not None and self.answer.decision is Decision.FAIL

    def note(self) -> str:
        assert self.answer is not None
        return self.answer.feedback or f"{self.answer.decision} ({self.answer.reason}): {self.answer.detail}"

    def end(
        self,
        rounds: int,
        stop: Stop | None,
        error: InfrastructureError | None = None,
        ruling: Ruling | None = None,
    ) -> Repair:
        self.emit("repair.ended", {"rounds": rounds, "checks": self.checks, "error": str(error) if error else None})
        verdict = None if ruling else self._checked.get(self._digest())
        return Repair(self.patch, verdict, rounds, self.checks, stop, error, self._refused, ruling)

    def _digest(self) -> str:
        return hashlib.sha256(self.patch).hexdigest()


def rescue(session: StoppableSession, harness: Harness, emit: Emit, seconds: float) -> None:
    """Take the newest patch out of a stopped Repair session (event "patch"), if its action ends within `seconds`."""
    with session.taken(seconds) as free, suppress(ExecCriticError):  # what is raised already says more
        if free is not None:
            WorkingPatch(free, harness, emit).take()
