"""The answer to a submitted test: qualified, rejected, or not to be known here. A value, never an exception."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.normalise import normalise
from execcritic_scaffold.outcome import Finding, NodeResult, Outcome, RunReport

Status = Literal["QUALIFIED", "REJECTED", "INCONCLUSIVE"]


@dataclass(frozen=True)
class Refusal:
    """Why something is not admitted: a stable code, the evidence, and one concrete next action.

    `status` is INCONCLUSIVE where the machine or the environment is the reason, not the test.
    """

    code: str
    detail: str
    next: str
    status: Status = "REJECTED"
    path: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Qualification:
    """`code` is stable and machine-readable; `detail` is the evidence; `next_action` one concrete step.

    `nodes` are the declared nodes' outcomes on Base; `evidence` has one entry a run; `bundle` is there exactly when
    the status is QUALIFIED.
    """

    status: Status
    code: str
    detail: str
    next_action: str = ""
    nodes: Mapping[str, Outcome] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    evidence: tuple[Mapping[str, Any], ...] = ()
    bundle: FrozenBundle | None = None
    log: str = ""
    """How the declared nodes failed, or what the run printed, for the Test agent."""

    def diagnostics(self, limit: int = 6000) -> str:
        """What the Test agent is told, within `limit` characters: code, evidence, next action, then the log's tail."""
        lines = [f"{self.status} {self.code}: {self.detail}"]
        if self.next_action:
            lines.append(f"Next: {self.next_action}")
        lines += [f"{node}: {outcome}" for node, outcome in self.nodes.items()]
        head = "\n".join(lines)[: max(limit - 200, limit // 2)]
        room = limit - len(head) - 2
        return head if not self.log or room < 200 else f"{head}\n\n{self.log[-room:]}"


def log_of(report: RunReport, declared: set[str]) -> str:
    """How the declared nodes and the files that could not be collected failed; else the tail of the output."""
    texts = [r.failure.text for n, r in report.results.items() if n in declared and r.failure]
    texts += [f"{path}:\n{failure.text}" for path, failure in report.collect_errors.items()]
    if not texts:
        texts = [report.log[-3000:].decode("utf-8", "replace")]
    return normalise("\n\n".join(texts))


def brief(result: NodeResult | None) -> str:
    """One node's end in a few words."""
    if result is None:
        return "not run"
    lines = result.failure.message.strip().splitlines() if result.failure else []
    return f"{result.outcome} ({lines[0][:120]})" if lines else str(result.outcome)
