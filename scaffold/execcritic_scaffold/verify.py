"""verify(frozen bundle, patch) -> Verdict (HARNESS 3). Needs no model, no network and no trust in either agent.

PASS needs positive evidence for everything: a valid, cross-checked run in which every frozen node passed, in every
repeat, and a guard without a new failure. What is missing makes it INCONCLUSIVE, never PASS and never FAIL.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from execcritic_scaffold import feedback, inverted, policy, syntax
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.execute import RunRequest, execute
from execcritic_scaffold.files import Changes
from execcritic_scaffold.guard import Guarded, guard
from execcritic_scaffold.normalise import signature
from execcritic_scaffold.outcome import (
    Decision,
    Finding,
    GuardReport,
    NodeResult,
    Outcome,
    RunReport,
    RunStatus,
    Verdict,
)
from execcritic_scaffold.policy import Role, SourcePatch, Violation
from execcritic_scaffold.replay import files_of, nodes_of, readonly_of, reproduced
from execcritic_scaffold.settings import VerifySettings
from execcritic_scaffold.site import Site, as_recorded
from execcritic_scaffold.starts import SEEDS
from execcritic_scaffold.trim import common_out

_LIES = (RunStatus.TAMPERED, RunStatus.REPORT_EXIT_MISMATCH)
_NO_ANSWER = (
    Outcome.SKIPPED,
    Outcome.XFAILED,
    Outcome.XPASSED,
    Outcome.NOT_AWAITED,
    Outcome.OUT_OF_MEMORY,
    Outcome.ENVIRONMENT,
    Outcome.TIMEOUT,
    Outcome.CRASHED,
)
"""Ends that say nothing about the behaviour: where there are only such, there is no verdict."""


def verify(
    site: Site,
    bundle: FrozenBundle,
    patch: bytes,
    settings: VerifySettings,
    *,
    role: Role = "person",
    previous: Verdict | None = None,
) -> Verdict:
    """The verdict on one cumulative Base-relative patch.

    `role` "agent" is held to METHOD 4 (touching any test file is forbidden); `previous` is the last check's verdict,
    so that the feedback can say what changed. Raises PatchError for a patch that does not apply, SandboxError for
    the machine.
    """
    started = time.monotonic()
    site = as_recorded(site, bundle)
    verdict = _masked(bundle, _decide(site, bundle, patch, settings, role, previous))
    findings = (*_environment_findings(site, bundle), *verdict.findings)
    return replace(verdict, findings=findings, seconds=round(time.monotonic() - started, 3))


def _masked(bundle: FrozenBundle, verdict: Verdict) -> Verdict:
    """Feedback never names the nodes that the Repair agent is not shown."""
    text = verdict.feedback
    for node in bundle.unseen:
        text = text.replace(node, "a frozen node")
    return replace(verdict, feedback=text)


def _decide(
    site: Site, bundle: FrozenBundle, patch: bytes, settings: VerifySettings, role: Role, previous: Verdict | None
) -> Verdict:
    if site.base.tree != bundle.record.base_tree:
        detail = "this checkout is not the Base the test was frozen on"
        return Verdict(Decision.INCONCLUSIVE, "BASE_NOT_FOUND", detail)
    admitted = policy.admit(site, bundle, patch, role, settings.patch_bytes)
    if isinstance(admitted, Violation):
        text = f"Forbidden modification ({admitted.reason}): {admitted.detail}. Undo it; nothing was run."
        return Verdict(Decision.FORBIDDEN, admitted.reason, admitted.detail, feedback=text)
    if not admitted.changes:
        detail = "the patch changes no source file"
        text = "The patch changes no source file; nothing was run."
        return Verdict(Decision.FAIL, "EMPTY_PATCH", detail, findings=admitted.findings, feedback=text)
    if no_effect(site, admitted.changes):
        detail = "the patch changes no code: only comments, blank lines or layout"
        text = f"Nothing was run: {detail}."
        return Verdict(Decision.FAIL, "NO_EFFECT", detail, findings=admitted.findings, feedback=text)
    if (differs := reproduced(site, bundle, settings)) is not None:
        text = f"The check gave no verdict (BASE_NOT_REPRODUCED): {differs}."
        return Verdict(Decision.INCONCLUSIVE, "BASE_NOT_REPRODUCED", differs, findings=admitted.findings, feedback=text)
    changes: Changes = {**admitted.changes, **bundle.changes}
    reports = _repeats(site, bundle, changes, settings)
    verdict = _frozen_nodes(site, bundle, admitted, reports, settings, previous)
    if verdict.decision is Decision.PASS and ((settings.twin and settings.repeats > 1) or inverted.needed(bundle)):
        verdict = inverted.look(site, bundle, changes, settings, verdict)
    if verdict.decision is not Decision.PASS:
        return verdict
    return _guarded(site, bundle, verdict, guard(site, bundle, admitted.changes, settings), settings)


def no_effect(site: Site, changes: Changes) -> bool:
    """Whether every changed file is a module that parses to the same code as before."""
    for path, file in changes.items():
        old = site.read(path)
        if file is None or old is None or not path.endswith(".py") or file.mode != site.entries[path].mode:
            return False
        if not syntax.same_code(*common_out(old, file.data)):
            return False
    return True


def _repeats(site: Site, bundle: FrozenBundle, changes: Changes, settings: VerifySettings) -> list[RunReport]:
    """The frozen nodes in fresh workspaces, with other hash seeds and orders; stops at a run that is not VALID."""
    reports: list[RunReport] = []
    for number in range(settings.repeats):
        request = RunRequest(
            files_of(site, bundle),
            nodes_of(bundle),
            hash_seed=SEEDS[number % len(SEEDS)],
            order="reversed" if number % 2 else "given",
            audit=not site.sandbox.isolates,
        )
        report = execute(site, changes, readonly_of(bundle), request, settings)
        reports.append(_untouched(bundle, report))
        if not report.valid:
            break
    return reports


def _untouched(bundle: FrozenBundle, report: RunReport) -> RunReport:
    """Where read-only is not enforced, at least a frozen file that was written to voids the run."""
    touched = [w for w in report.writes if w in bundle.record.files]
    if not touched:
        return report
    return replace(report, status=RunStatus.TAMPERED, detail=f"the frozen file {touched[0]} was written to")


def _frozen_nodes(
    site: Site,
    bundle: FrozenBundle,
    admitted: SourcePatch,
    reports: Sequence[RunReport],
    settings: VerifySettings,
    previous: Verdict | None,
) -> Verdict:
    findings = admitted.findings
    runs = tuple(_run_record(r) for r in reports)
    broken = next((r for r in reports if not r.valid), None)
    if broken is not None:
        decision = Decision.TAMPERED if broken.status in _LIES else Decision.INCONCLUSIVE
        reason = str(broken.status)
        text = f"The check gave no verdict ({reason}): {broken.detail}."
        return Verdict(
            decision, reason, broken.detail, _outcomes(bundle, broken), findings=findings, feedback=text, runs=runs
        )
    first, nodes = reports[0], _outcomes(bundle, reports[0])
    for other in reports[1:]:
        if differing := [n for n in nodes if _outcomes(bundle, other)[n] is not nodes[n]]:
            node = differing[0]
            detail = f"{node} was {nodes[node]} and then {_outcomes(bundle, other)[node]}"
            text = f"The check gave no verdict (FLAKY): with this patch {detail}."
            return Verdict(Decision.INCONCLUSIVE, "FLAKY", detail, nodes, findings=findings, feedback=text, runs=runs)
    failing = [n for n, outcome in nodes.items() if outcome is not Outcome.PASSED]
    if not failing:
        passing = "1 frozen node passes" if len(nodes) == 1 else f"{len(nodes)} frozen nodes pass"
        detail = f"{passing} in {len(reports)} run{'' if len(reports) == 1 else 's'}"
        return Verdict(Decision.PASS, "PASS", detail, nodes, findings=findings, runs=runs)
    odd = [n for n in failing if nodes[n] in _NO_ANSWER]
    if len(odd) == len(failing):
        detail = f"{odd[0]} is {nodes[odd[0]]} with the patch: it was not executed as frozen"
        text = f"The check gave no verdict (NOT_EXECUTED): {detail}."
        return Verdict(
            Decision.INCONCLUSIVE, "NOT_EXECUTED", detail, nodes, findings=findings, feedback=text, runs=runs
        )
    now = _signature(first)
    reason = "COLLECT_ERROR" if first.collect_errors else "FROZEN_TEST"
    if bundle.unseen.issuperset(failing):
        reason = "UNSEEN_NODE"
    text = feedback.of_run(site, bundle, first, settings.feedback_characters)
    return Verdict(
        decision=Decision.FAIL,
        reason=reason,
        detail=f"{failing[0]} is {nodes[failing[0]]} with the patch",
        nodes=nodes,
        findings=findings,
        feedback=feedback.compare(text, now, previous, settings.feedback_characters),
        runs=runs,
        signature=now,
    )


def _guarded(site: Site, bundle: FrozenBundle, verdict: Verdict, guarded: Guarded, settings: VerifySettings) -> Verdict:
    report = guarded.report
    if guarded.problem is not None:
        lies = guarded.run is not None and guarded.run.status in _LIES
        decision = Decision.TAMPERED if lies else Decision.INCONCLUSIVE
        reason = f"GUARD_{guarded.run.status}" if guarded.run else "GUARD"
        text = f"The frozen test passes; the guard gave no verdict: {guarded.problem}."
        return replace(verdict, decision=decision, reason=reason, detail=guarded.problem, guard=report, feedback=text)
    verdict = replace(verdict, guard=report, findings=(*verdict.findings, *_guard_findings(report)))
    if not report.newly_failing:
        return verdict
    assert guarded.run is not None
    failing = {n: guarded.run.results[n] for n in report.newly_failing if n in guarded.run.results}
    lost = [n for n in report.newly_failing if n not in failing]
    shown = replace(guarded.run, results=failing)
    text = "The frozen test passes, but existing tests that passed before now fail.\n\n" + feedback.of_run(
        site, bundle, shown, settings.feedback_characters - 200
    )
    if lost:
        text += f"\n\nNo longer collected: {', '.join(lost[:10])}"
    return replace(
        verdict,
        decision=Decision.FAIL,
        reason="GUARD",
        detail=f"{report.newly_failing[0]} passed on Base and fails with the patch",
        feedback=feedback.clip(text, settings.feedback_characters),
        signature=_signature(shown),
    )


def _guard_findings(report: GuardReport) -> list[Finding]:
    """What the guard did not cover: a reviewer should know."""
    findings = [Finding("FLAKY_GUARD", f"{n} fails on Base too, so it was left out") for n in report.flaky]
    if report.mode != "off" and not report.nodes:
        findings.append(Finding("NO_GUARD", "no existing test that passes on Base stands beside the frozen test"))
    elif report.mode == "list" and report.not_run:
        detail = f"listed tests that do not exist or do not pass on Base, and were not guarded: {report.not_run}"
        findings.append(Finding("GUARD_NOT_RUN", detail))
    return findings


def _outcomes(bundle: FrozenBundle, report: RunReport) -> dict[str, Outcome]:
    """Every frozen node's outcome; those of a file that cannot be imported are COLLECT_ERROR."""
    missing = Outcome.COLLECT_ERROR if report.collect_errors else Outcome.NOT_COLLECTED
    return {n: report.results[n].outcome if n in report.results else missing for n in bundle.record.nodes}


def _signature(report: RunReport) -> str:
    parts = [f"{n}={signature(r)}" for n, r in sorted(report.results.items()) if r.outcome is not Outcome.PASSED]
    parts += [
        f"{path}={signature(NodeResult(path, Outcome.COLLECT_ERROR, failure))}"
        for path, failure in sorted(report.collect_errors.items())
    ]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def _run_record(report: RunReport) -> Mapping[str, str]:
    limits = {"unenforced": ", ".join(report.unenforced)} if report.unenforced else {}
    return {"status": str(report.status), "detail": report.detail, "seconds": f"{report.seconds:.3f}", **limits}


def _environment_findings(site: Site, bundle: FrozenBundle) -> list[Finding]:
    findings = []
    if not site.sandbox.isolates:
        findings.append(Finding("NOT_ISOLATED", "the local sandbox does not isolate the code under test"))
    if bundle.record.environment.get("digest") != site.digest:
        findings.append(Finding("ENVIRONMENT_DIFFERS", "this environment is not the one the test was frozen in"))
    return findings
