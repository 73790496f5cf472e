"""Results in words: what a person reads on stdout where `--json` is not given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from execcritic_scaffold.outcome import Finding, GuardReport, Verdict
from execcritic_scaffold.wording import count

if TYPE_CHECKING:
    from execcritic_scaffold.qualification import Qualification


def qualification(result: Qualification, bundle: str | None) -> str:
    """A qualification with its nodes and, where refused, what to do next."""
    lines = [headline(result.status, result.code, result.detail), *_nodes(result.nodes)]
    lines += _findings(tuple(result.findings))
    if bundle:
        lines.append(f"Frozen in {bundle}")
    elif result.next_action:
        lines.append(f"Next: {result.next_action}")
    return "\n".join(lines)


def verdict(result: Verdict) -> str:
    """A verdict with what decided it."""
    lines = [headline(result.decision, result.reason, result.detail), *_nodes(result.nodes)]
    guard = result.guard
    if guard.mode != "off":
        lines.append(f"Guard ({guard.mode}): {guarded(guard)}")
        lines += [f"  newly failing  {node}" for node in guard.newly_failing]
        lines += [f"  flaky          {node}" for node in guard.flaky]
    lines += _findings(result.findings)
    if result.feedback and result.decision != "PASS":
        lines += ["", result.feedback]
    return "\n".join(lines)


def guarded(guard: GuardReport) -> str:
    """What the guard covered, in words that do not read like success where it covered nothing."""
    if not guard.nodes:
        return f"NOTHING was guarded ({count(guard.not_run, 'test')} not run)"
    return f"{guard.passed} of {count(guard.nodes, 'existing test')} pass, {guard.not_run} not run"


def headline(decision: str, reason: str, detail: str) -> str:
    """Decision, reason and evidence in one line; a reason that only repeats the decision is left out."""
    return f"{decision}: {detail}" if reason == decision else f"{decision} {reason}: {detail}"


def _nodes(nodes: Mapping[str, str]) -> list[str]:
    return [f"  {outcome!s:<17} {node}" for node, outcome in nodes.items()]


def _findings(findings: tuple[Finding, ...]) -> list[str]:
    def where(finding: Finding) -> str:
        return f" ({finding.path}{f':{finding.line}' if finding.line else ''})" if finding.path else ""

    return [f"Finding {finding.code}: {finding.detail}{where(finding)}" for finding in findings]
