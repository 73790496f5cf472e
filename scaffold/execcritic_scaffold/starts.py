"""The runner starts of one admission, with their evidence: at most k + 3 of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from execcritic_scaffold.execute import RunRequest, execute_all
from execcritic_scaffold.files import Changes
from execcritic_scaffold.neighbours import neighbouring
from execcritic_scaffold.normalise import signature
from execcritic_scaffold.outcome import Finding, Outcome, RunReport, RunStatus
from execcritic_scaffold.qualification import Refusal
from execcritic_scaffold.settings import QualifySettings
from execcritic_scaffold.site import Site, without_arguments

SEEDS = ("0", "1")
ZONES = ("UTC", "TST-9")
_BROKEN_OFF = (RunStatus.TIMEOUT, RunStatus.CRASHED, RunStatus.OUT_OF_MEMORY)
_UNRECOGNISED = re.compile(rb"unrecognized arguments: (.+)")


@dataclass
class Starts:
    """Runs on Base for one test patch; `site` may lose runner options the environment does not know."""

    site: Site
    changes: Changes
    declared: frozenset[str]
    settings: QualifySettings
    evidence: list[dict[str, Any]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def control(
        self, touched: Iterable[str], guard_files: Iterable[str], named: Iterable[str] = ()
    ) -> RunReport | Refusal:
        """Base as it is, touched and neighbouring test files: do tests run here at all (B1), and which pass?

        Refused (INCONCLUSIVE) where none passes. A repository without any test is a finding.
        """
        here = self.site.entries
        files = [p for p in touched if p in here]
        files += [*neighbouring(self.site, touched), *(f for f in guard_files if f in here)]
        if not files:
            self.findings.append(Finding("NO_CONTROL", "the repository has no existing test that could be the control"))
            return RunReport(RunStatus.VALID, "no existing test")
        request = RunRequest(tuple(dict.fromkeys(files)), named=tuple(named), listen=True)
        report = self._run("control", {}, request)[0]
        arguments = _unknown_arguments(report.log) if report.status is RunStatus.RUNNER_USAGE else ()
        if arguments and (site := without_arguments(self.site, arguments)):
            self.site = site
            self.findings.append(Finding("OPTIONS_LEFT_OUT", f"unknown here, left out: {' '.join(arguments)}"))
            report = self._run("control", {}, request)[0]
        if report.status is RunStatus.TAMPERED and self.site.canaries and "control test" in report.detail:
            # This suite's own hooks cannot digest the harness's control tests: go without, and say so.
            self.site = replace(self.site, canaries=False)
            self.findings.append(Finding("NO_CANARIES", f"the suite's own hooks change control tests: {report.detail}"))
            report = self._run("control", {}, request)[0]
        nearest = tuple(f for f in request.files if _folder(f) == _folder(request.files[0]))
        if report.status is RunStatus.RUNNER_USAGE and len(nearest) < len(request.files):
            # A conftest.py that cannot be loaded ends the whole run, and may be that of a folder farther off.
            self.findings.append(Finding("NEIGHBOURS_LEFT_OUT", f"tests farther off do not start: {report.detail}"))
            report = self._run("control", {}, replace(request, files=nearest))[0]
        if any(r.outcome is Outcome.PASSED for r in report.results.values()):
            return report
        return Refusal(
            "ENVIRONMENT" if report.valid else str(report.status),
            f"the existing tests beside it do not run on Base: {report.detail or _first_problem(report)}",
            "Build the environment the repository's tests need (--python, --image, --setup), then try again.",
            "INCONCLUSIVE",
        )

    def whole_files(self, files: tuple[str, ...]) -> RunReport:
        """Base with the patch, whole test files: what is collected, how it ends, what source it runs.

        Where the files as a whole break off, the declared nodes alone.
        """
        report = self._run("whole files", self.changes, RunRequest(files, named=tuple(self.declared), trace=True))[0]
        if report.status in _BROKEN_OFF and report.collected:
            matched = (self.site.runner.match(n, report.collected) for n in self.declared)
            if nodes := tuple(n for n in matched if n):
                request = RunRequest(files, nodes, trace=True)
                alone = self._run("declared nodes", self.changes, request)[0]
                return replace(alone, collected=report.collected)
        return report

    def alone(self, files: tuple[str, ...], nodes: tuple[str, ...] | None, noise: Changes) -> list[RunReport]:
        """The nodes without their neighbours, in the order given, with another seed and zone and over source that
        differs in nothing but its text (`noise`): k - 1 times in one workspace, audited."""
        request = RunRequest(
            files,
            nodes,
            hash_seed=SEEDS[1],
            timezone=ZONES[1],
            audit=True,
            listen=True,
            times=self.settings.repeats - 1,
        )
        return self._run("alone", {**noise, **self.changes}, request)

    def lenient(self, files: tuple[str, ...], nodes: tuple[str, ...], changes: Changes) -> RunReport:
        """The nodes with failing assertions going on (B9)."""
        return self._run("set-up soundness", changes, RunRequest(files, nodes))[0]

    def _run(self, name: str, changes: Changes, request: RunRequest) -> list[RunReport]:
        readonly = frozenset(p for p, f in self.changes.items() if f is not None) & changes.keys()
        reports = execute_all(self.site, changes, readonly, request, self.settings)
        for number, report in enumerate(reports):
            self.evidence.append(
                {
                    "run": name if len(reports) == 1 else f"{name} {number + 1}",
                    "status": str(report.status),
                    "detail": report.detail,
                    "hash_seed": f"{request.hash_seed}+{number}",
                    "timezone": request.timezone,
                    "order": request.order,
                    "seconds": round(report.seconds, 3),
                    "collected": len(report.collected),
                    "passed": sum(r.outcome is Outcome.PASSED for r in report.results.values()),
                    "nodes": {n: signature(r) for n, r in report.results.items() if r.outcome is not Outcome.PASSED},
                }
            )
        return reports


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _unknown_arguments(log: bytes) -> tuple[str, ...]:
    found = _UNRECOGNISED.search(log)
    return tuple(found[1].decode("utf-8", "replace").split()) if found else ()


def _first_problem(report: RunReport) -> str:
    for path, failure in report.collect_errors.items():
        return f"{path}: {failure.kind}: {failure.message[:200]}"
    for node, result in report.results.items():
        return f"{node} is {result.outcome}"
    return "no existing test was collected"
