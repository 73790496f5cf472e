"""What a run of tests showed: outcomes of nodes, the report of a run, and the verdict (HARNESS 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """How one node ended in one run. Same behaviour, same outcome, whatever the runner."""

    PASSED = "PASSED"
    FAILED_ASSERT = "FAILED_ASSERT"
    FAILED_EXCEPTION = "FAILED_EXCEPTION"
    ERROR_SETUP = "ERROR_SETUP"
    ERROR_TEARDOWN = "ERROR_TEARDOWN"
    COLLECT_ERROR = "COLLECT_ERROR"
    NOT_COLLECTED = "NOT_COLLECTED"
    SKIPPED = "SKIPPED"
    XFAILED = "XFAILED"
    XPASSED = "XPASSED"
    TIMEOUT = "TIMEOUT"
    CRASHED = "CRASHED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    ENVIRONMENT = "ENVIRONMENT"
    NOT_AWAITED = "NOT_AWAITED"

    @property
    def behavioural(self) -> bool:
        """True for a failure of the behaviour under test, as against set-up, collection or the machine."""
        return self in (Outcome.FAILED_ASSERT, Outcome.FAILED_EXCEPTION)


class RunStatus(StrEnum):
    """Whether a run can be believed. Verdicts exist only for VALID runs; the rest say why not."""

    VALID = "VALID"
    NO_REPORT = "NO_REPORT"
    REPORT_EXIT_MISMATCH = "REPORT_EXIT_MISMATCH"
    NODE_SET_MISMATCH = "NODE_SET_MISMATCH"
    RUNNER_USAGE = "RUNNER_USAGE"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    CRASHED = "CRASHED"
    ENVIRONMENT = "ENVIRONMENT"
    WRONG_IMPORT_TARGET = "WRONG_IMPORT_TARGET"
    TAMPERED = "TAMPERED"


class Origin(StrEnum):
    """Where the deepest repository frame of a failure lies."""

    TEST = "test"
    SOURCE = "source"
    THIRD_PARTY = "third-party"
    NONE = "none"


@dataclass(frozen=True)
class Frame:
    """One frame of a traceback. `path` is relative to the workspace where it lies inside, else absolute."""

    path: str
    line: int
    function: str
    inside: bool
    column: int | None = None
    end_column: int | None = None


@dataclass(frozen=True)
class Failure:
    """Why a node did not pass: the cause, never a guess from text.

    `mro` are the qualified names of the exception's classes, most derived first; `frames` outermost first;
    `text` is the runner's own rendering for people, with its size bounded inside the sandbox.
    """

    mro: tuple[str, ...] = field()  # explicit: every class has an attribute `mro`, which would count as the default
    message: str
    frames: tuple[Frame, ...]
    text: str
    name: str | None = None
    """The symbol that was not found, for AttributeError, NameError, ImportError and unexpected keywords."""
    errno: int | None = None
    """What the operating system refused; None where no call of it failed, as for an error that code raises itself."""

    exhausted: bool = False
    """An allocation failed; False for a MemoryError that code raises itself."""

    @property
    def kind(self) -> str:
        """The exception's own qualified class name."""
        return self.mro[0] if self.mro else "unknown"

    def is_a(self, *names: str) -> bool:
        """True when one of the classes in the exception's MRO has one of these qualified names."""
        return any(name in self.mro for name in names)


@dataclass(frozen=True)
class NodeResult:
    """One node in one run."""

    node: str
    outcome: Outcome
    failure: Failure | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class RunReport:
    """One run of a runner in one fresh sandbox, after every cross-check.

    `results` holds exactly the requested nodes, plus, for file runs, every collected node.
    `collected` are all node ids the runner found in the requested files, in its own order.
    `log` is the tail of what the tests printed, for people only.
    """

    status: RunStatus
    detail: str
    results: Mapping[str, NodeResult] = field(default_factory=dict)
    collected: tuple[str, ...] = ()
    collect_errors: Mapping[str, Failure] = field(default_factory=dict)
    seconds: float = 0.0
    log: bytes = b""
    writes: tuple[str, ...] = ()
    left_behind: int = 0
    runner: Mapping[str, str] = field(default_factory=dict)
    collect_skips: Mapping[str, str] = field(default_factory=dict)
    """Files that were skipped as a whole while they were collected, with the reason given."""
    executed: tuple[str, ...] = ()
    """Source files of the repository in which at least one function ran (B8), where it was measured."""
    sockets: tuple[str, ...] = ()
    """Addresses beyond the own machine that the tests turned to, where it was listened for (B7)."""
    unenforced: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        return self.status is RunStatus.VALID

    def outcome(self, node: str) -> Outcome:
        """The node's outcome; NOT_COLLECTED where the run has none for it."""
        result = self.results.get(node)
        return result.outcome if result else Outcome.NOT_COLLECTED


class Decision(StrEnum):
    """The answer to "does this patch satisfy the frozen test?"."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    FORBIDDEN = "FORBIDDEN"
    TAMPERED = "TAMPERED"


@dataclass(frozen=True)
class Finding:
    """Something a reviewer should look at; it does not decide by itself."""

    code: str
    detail: str
    path: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class GuardReport:
    """What the guard covered. `newly_failing` passed on Base and fail, reproducibly, with the patch."""

    mode: str = "off"
    nodes: int = 0
    passed: int = 0
    newly_failing: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    not_run: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """A decision with its evidence. `feedback` is what the Repair agent may see (METHOD 4)."""

    decision: Decision
    reason: str
    detail: str
    nodes: Mapping[str, Outcome] = field(default_factory=dict)
    guard: GuardReport = field(default_factory=GuardReport)
    findings: tuple[Finding, ...] = ()
    feedback: str = ""
    runs: tuple[Mapping[str, str], ...] = ()
    seconds: float = 0.0
    signature: str = ""
    """Stable id of how it failed, so that "the same failure as last time" can be said."""
