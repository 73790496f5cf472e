"""Admission of a test bundle (HARNESS 2): static rules, runs on Base, freezing. The default answer is no.

Runner starts: Base as it is (control, B6's before, guard); with the patch over whole files (A4, B2, B3, B6, B8); the
declared nodes alone k - 1 times, each in a fresh process, in one workspace (B4, B5, B7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from execcritic_scaffold import contract as contracts
from execcritic_scaffold import rules
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.bundle import NodeRecord
from execcritic_scaffold.freeze import freeze
from execcritic_scaffold.neighbours import guardable
from execcritic_scaffold.normalise import normalise, signature
from execcritic_scaffold.outcome import Finding, Outcome, RunReport
from execcritic_scaffold.paths import PathKind
from execcritic_scaffold.qualification import Qualification, Refusal, log_of
from execcritic_scaffold.settings import QualifySettings
from execcritic_scaffold.site import Site
from execcritic_scaffold.starts import Starts
from execcritic_scaffold.testpatch import TestPatch, admit


def qualify(site: Site, submission: Submission, issue: str, settings: QualifySettings) -> Qualification:
    """Whether the bundle is admitted; the frozen bundle with it when it is.

    Raises SandboxError for the machine; a bad submission is an answer.
    """
    patch = admit(site, submission, settings.patch_bytes)
    if isinstance(patch, Refusal):
        return _refused(patch)
    starts = Starts(
        site,
        patch.changes,
        frozenset((*submission.nodes, *submission.companions)),
        settings,
        findings=[*patch.findings],
    )
    return _Course(starts, submission, issue, settings, patch).run()


class _Course:
    """One admission, rule after rule; each rule's own function lies in `rules`."""

    def __init__(
        self, starts: Starts, submission: Submission, issue: str, settings: QualifySettings, patch: TestPatch
    ) -> None:
        self.starts = starts
        self.submission = submission
        self.issue = issue
        self.settings = settings
        self.patch = patch
        self.touched = patch.files(starts.site.runner.discovery)
        self.files = rules.files_of(starts.site, submission, patch)

    def run(self) -> Qualification:
        guarded = self.settings.guard_nodes if self.settings.guard == "list" else ()
        guard_files = {f for n in guarded if (f := self.starts.site.runner.file_of(n))}
        before = self.starts.control(self.touched, sorted(guard_files))
        if isinstance(before, Refusal):
            return self._no(before)
        site = self.starts.site  # the control may have found options to leave out
        whole = self.starts.whole_files(self.files)
        if refusal := rules.believable(whole):
            return self._no(refusal, whole)
        declared = rules.bind(site, self.submission, self.files, whole)
        if isinstance(declared, Refusal):
            return self._no(declared, whole)
        outcomes = {n: whole.outcome(n) for n in declared.values()}
        tiers = rules.tiers(site, self.patch, self.issue, self.settings, declared, whole)
        if isinstance(tiers, Refusal):
            return self._no(tiers, whole, outcomes)
        companions = rules.companions(site, self.submission, declared, before, whole)
        if isinstance(companions, Refusal):
            return self._no(companions, whole, outcomes)
        kept, findings = companions
        self.starts.findings += findings
        broken = rules.neighbours_kept(site, self.submission, self.touched, declared, before, whole)
        if isinstance(broken, Refusal):
            return self._no(broken, whole, outcomes)
        self.starts.findings += broken
        unstable = self._repeat(declared, kept, whole)
        if isinstance(unstable, Refusal):
            return self._no(unstable, whole, outcomes)
        if refusal := self._contract(declared):
            return self._no(refusal, whole, outcomes)
        nodes = self._records(declared, [n for n in kept if n not in unstable], tiers, whole)
        return self._freeze(nodes, before, whole)

    def _repeat(
        self, declared: Mapping[str, str], companions: Mapping[str, bool], whole: RunReport
    ) -> frozenset[str] | Refusal:
        """B4, B5, B7. The undeclared companions that did not always pass."""
        if self.settings.repeats == 1:
            return frozenset()
        site = self.starts.site
        nodes = tuple(n for n in (*declared.values(), *companions) if n in whole.results)
        absent = any(n not in whole.results for n in declared.values())
        unstable: set[str] = set()
        for report in self.starts.alone(self.files, None if absent else nodes):
            dropped = rules.same_outcomes(site, self.patch, nodes, companions, whole, report)
            if isinstance(dropped, Refusal):
                return dropped
            unstable |= dropped
            effects = rules.effects(site, self.patch, report)
            if isinstance(effects, Refusal):
                return effects
            self.starts.findings += [f for f in effects if f not in self.starts.findings]
        self.starts.findings += [Finding("UNSTABLE_COMPANION", f"{n} does not always pass on Base") for n in unstable]
        return frozenset(unstable)

    def _contract(self, declared: Mapping[str, str]) -> Refusal | None:
        contract = self.submission.contract
        if contract is None:
            if self.submission.author == "agent":
                return Refusal("NO_CONTRACT", "no behaviour contract was given", "Give the contract with the test.")
            self.starts.findings.append(Finding("NO_CONTRACT", "the rules about the behaviour contract were skipped"))
            return None
        bound = set(contract.get("test_nodes") or []) == set(declared.values())
        names = list(declared.values() if bound else declared)
        problem = contracts.check(contract, self.issue, names, self._in_repository)
        return Refusal("CONTRACT", *problem) if problem else None

    def _in_repository(self, quote: str) -> bool:
        folded = contracts.fold(quote)
        entries = self.starts.site.entries
        oids = [e.oid for p, e in entries.items() if p.endswith((".py", ".rst", ".md", ".txt"))]
        blobs = self.starts.site.base.store.read_blobs(oids)
        return any(folded in contracts.fold(data.decode("utf-8", "replace")) for data in blobs.values())

    def _records(
        self, declared: Mapping[str, str], companions: list[str], tiers: Mapping[str, str], whole: RunReport
    ) -> dict[str, NodeRecord]:
        nodes: dict[str, NodeRecord] = {}
        for node in declared.values():
            result = whole.results.get(node) or rules.collection_result(self.starts.site, node, whole)
            values: dict[str, Any] = {
                "kind": "reproducing",
                "tier": tiers[node],
                "base_outcome": str(result.outcome),
                "signature": signature(result),
                "message": normalise(result.failure.message)[:2000] if result.failure else "",
            }
            nodes[node] = NodeRecord(**values)
            if tiers[node] in ("value-shape", "api-absent"):
                detail = f"{node} fails on Base by {values['message'][:200]}"
                self.starts.findings.append(Finding(tiers[node].upper().replace("-", "_"), detail))
        passed = NodeRecord(kind="companion", tier="passes", base_outcome="PASSED", signature="PASSED")
        return nodes | dict.fromkeys(companions, passed)

    def _freeze(self, nodes: Mapping[str, NodeRecord], before: RunReport, whole: RunReport) -> Qualification:
        site, findings = self.starts.site, self.starts.findings
        ran = [p for p in whole.executed if site.runner.discovery.kind(p) is PathKind.SOURCE]
        tiers = {r.tier for r in nodes.values() if r.kind == "reproducing"}
        if not ran and "api-absent" not in tiers:
            findings.append(Finding("NO_SOURCE_EXECUTED", "no function of the repository's source ran"))
        guard = self._guard(nodes, before, whole)
        evidence = self.starts.evidence
        bundle = freeze(site, self.submission, self.patch, self.issue, nodes, guard, evidence, findings)
        return Qualification(
            status="QUALIFIED",
            code="QUALIFIED",
            detail=f"fails on Base as it should ({', '.join(sorted(tiers))})",
            nodes={n: Outcome(r.base_outcome) for n, r in nodes.items()},
            findings=tuple(findings),
            evidence=tuple(evidence),
            bundle=bundle,
        )

    def _guard(self, nodes: Mapping[str, NodeRecord], before: RunReport, whole: RunReport) -> dict[str, float]:
        if self.settings.guard == "off":
            return {}
        leave_out = set(nodes) | {e.get("node", "") for e in self.submission.superseded}
        leave_out |= {n for n, r in whole.results.items() if r.outcome is not Outcome.PASSED}
        if self.settings.guard == "list":
            match = self.starts.site.runner.match
            wanted = {match(n, before.collected) for n in self.settings.guard_nodes}
            leave_out |= {n for n in before.results if n not in wanted}
        return guardable(before, self.settings.guard_seconds, leave_out)

    def _no(
        self, refusal: Refusal, report: RunReport | None = None, nodes: Mapping[str, Outcome] | None = None
    ) -> Qualification:
        return replace(
            _refused(refusal),
            nodes=nodes or {},
            findings=tuple(self.starts.findings),
            evidence=tuple(self.starts.evidence),
            log=log_of(report, set(nodes or ()) | set(self.starts.declared)) if report else "",
        )


def _refused(refusal: Refusal) -> Qualification:
    return Qualification(refusal.status, refusal.code, refusal.detail, refusal.next)
