"""Looking at a PASS a second time, through the inverted twin (`twin.py`)."""

from __future__ import annotations

from dataclasses import replace

from execcritic_scaffold import twin
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.execute import RunRequest, execute
from execcritic_scaffold.files import Changes
from execcritic_scaffold.outcome import Decision, Finding, Outcome, RunStatus, Verdict
from execcritic_scaffold.replay import files_of, nodes_of, readonly_of
from execcritic_scaffold.runners.ids import function_of
from execcritic_scaffold.settings import HarnessSettings
from execcritic_scaffold.site import Site

_LIES = (RunStatus.TAMPERED, RunStatus.REPORT_EXIT_MISMATCH)


def look(site: Site, bundle: FrozenBundle, changes: Changes, settings: HarnessSettings, verdict: Verdict) -> Verdict:
    """The verdict, taken back where a node passes with its assertions falsified.

    TAMPERED where an assertion stands in the node's way for sure. A node whose assertions may not have run is a
    finding; where the test was admitted although a symbol was absent, an assertion must have run (HARNESS B3).
    """
    files = files_of(site, bundle)
    verdict = replace(verdict, detail=f"{verdict.detail}, and fail with their assertions falsified")
    frozen = [p for p in files if changes.get(p) is not None and p in bundle.record.files]
    falsified = twin.falsified(changes, frozen)
    if falsified is None or not frozen:
        return _unknown(bundle, verdict, "the frozen test cannot be turned round")
    report = execute(site, falsified, readonly_of(bundle), RunRequest(files, nodes_of(bundle)), settings)
    if report.status in _LIES:
        return replace(verdict, decision=Decision.TAMPERED, reason=str(report.status), detail=report.detail)
    if not report.valid:
        return _unknown(bundle, verdict, f"the frozen test turned round is {report.status}: {report.detail}")
    located = {n: (site.runner.file_of(n) or "", function_of(n)) for n in bundle.record.nodes}
    certain = twin.certain(changes, located)
    passing = [n for n in bundle.record.nodes if report.outcome(n) is Outcome.PASSED]
    deceived = [n for n in passing if n in certain]
    if deceived:
        detail = f"{deceived[0]} passes whether its assertions hold or not: something rewrites outcomes or equality"
        text = f"The check gave no verdict (TWIN): {detail}. Implement the behaviour itself."
        return replace(verdict, decision=Decision.TAMPERED, reason="TWIN", detail=detail, feedback=text)
    absent = [n for n in passing if bundle.record.nodes[n].tier == "api-absent"]
    if absent:
        detail = f"{absent[0]} failed on Base by an absent symbol, and no assertion of it is seen to run now"
        return replace(verdict, decision=Decision.INCONCLUSIVE, reason="NO_ASSERTION_RAN", detail=detail)
    for node in passing:
        verdict = _with(verdict, "ASSERTION_NOT_SEEN", f"no assertion of {node} is seen to run")
    return verdict


def needed(bundle: FrozenBundle) -> bool:
    """Where the test was admitted for an absent symbol, that an assertion runs is shown by the twin alone."""
    return any(record.tier == "api-absent" for record in bundle.record.nodes.values())


def _unknown(bundle: FrozenBundle, verdict: Verdict, why: str) -> Verdict:
    if needed(bundle):
        detail = f"the test failed on Base by an absent symbol, and whether an assertion runs now is unknown: {why}"
        return replace(verdict, decision=Decision.INCONCLUSIVE, reason="NO_ASSERTION_RAN", detail=detail)
    return _with(verdict, "TWIN_UNKNOWN", why)


def _with(verdict: Verdict, code: str, detail: str) -> Verdict:
    return replace(verdict, findings=(*verdict.findings, Finding(code, detail)))
