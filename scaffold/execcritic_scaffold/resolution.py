"""How the main job ended: the Test episode's `Gate`, the Repair episode's `Repair`, and both as a `Resolution`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from execcritic_scaffold.agents import Stop, StopKind
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import InfrastructureError
from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.qualification import Qualification

if TYPE_CHECKING:
    from execcritic_scaffold.disputes import Ruling


class Status(IntEnum):
    """How it ended; the value is the exit code (DESIGN 3)."""

    RESOLVED = 0
    UNQUALIFIED = 3
    NOT_FIXED = 4
    INFRASTRUCTURE = 5


@dataclass(frozen=True)
class Gate:
    """How the Test episode ended. Without a `bundle` the Base gate failed: `stop` or `error` says why."""

    bundle: FrozenBundle | None
    submissions: int = 0
    last: Qualification | None = None
    stop: Stop | None = None
    error: InfrastructureError | None = None

    @property
    def status(self) -> Status:
        """RESOLVED here means "a test is frozen"."""
        if self.bundle is not None:
            return Status.RESOLVED
        broken = self.error is not None or (self.stop is not None and self.stop.kind is StopKind.MODEL)
        inconclusive = self.last is not None and self.last.status == "INCONCLUSIVE"
        return Status.INFRASTRUCTURE if broken or inconclusive else Status.UNQUALIFIED


@dataclass(frozen=True)
class Repair:
    """How the Repair episode ended. `verdict` is that of `patch`; None where there was no check of it: no test was
    frozen, or no workspace could be taken as a patch."""

    patch: bytes
    verdict: Verdict | None = None
    rounds: int = 0
    """Revision rounds that were begun."""
    checks: int = 0
    stop: Stop | None = None
    error: InfrastructureError | None = None
    refused: str | None = None
    """Why the last state of the workspace could not be taken; `patch` is then the one before."""
    ruling: Ruling | None = None
    """The ruling that demoted the test: there is no verdict then."""


@dataclass(frozen=True)
class Resolution:
    """The end of the main job."""

    gate: Gate
    repair: Repair

    @property
    def status(self) -> Status:
        verdict = self.repair.verdict
        if verdict is not None and verdict.decision is Decision.PASS:
            return Status.RESOLVED
        if self.repair.ruling is not None:
            return Status.UNQUALIFIED
        stop = self.repair.stop
        if self.repair.error is not None or (stop is not None and stop.kind is StopKind.MODEL):
            return Status.INFRASTRUCTURE
        if self.gate.bundle is None:
            return self.gate.status
        if verdict is not None and verdict.decision is Decision.INCONCLUSIVE:
            return Status.INFRASTRUCTURE
        return Status.NOT_FIXED
