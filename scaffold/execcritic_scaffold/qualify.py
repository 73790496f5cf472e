"""Admission of a test bundle (HARNESS 2): static rules, runs on Base, freezing. The default answer is no.

Runner starts: Base as it is (control, B6's before, guard); with the patch over whole files (A4, B2, B3, B6, B8); the
declared nodes alone k - 1 times, each in a fresh process, in one workspace (B4, B5, B7); once with failing assertions
going on (B9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from execcritic_scaffold import contract as contracts
from execcritic_scaffold import noise, reproducing, rules, ruletable, soundness, superseded
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.bundle import NodeRecord
from execcritic_scaffold.freeze import freeze
from execcritic_scaffold.neighbours import guardable
from execcritic_scaffold.normalise import normalise, signature
from execcritic_scaffold.outcome import Finding, Outcome, RunReport
from execcritic_scaffold.qualification import Qualification, Refusal, log_of
from execcritic_scaffold.ruletable import Strictness
from execcritic_scaffold.settings import QualifySettings
from execcritic_scaffold.site import Site
from execcritic_scaffold.starts import Starts
from execcritic_scaffold.testpatch import TestPatch, admit


def qualify(site: Site, submission: Submission, issue: str, settings: QualifySettings) -> Qualification:
    """Whether the bundle is admitted; the frozen bundle with it when it is.

    Raises SandboxError for the machine; a bad submission is an answer.
    """
    ruletable.check(settings.rules)
    strictness = Strictness(submission.author, settings.rules)
    patch = admit(site, submission, settings.patch_bytes, strictness)
    if isinstance(patch, Refusal):
        return _refused(patch)
    if refusal := superseded.check(submission, issue, settings.max_superseded):
        return _refused(refusal)
    starts = Starts(
        site,
        patch.changes,
        frozenset((*submission.nodes, *submission.companions)),
        settings,
        findings=[*patch.findings],
    )
    return _Course(starts, submission, issue, settings, patch, strictness).run()


class _Course:
    """One admission, rule after rule; each rule's own function lies in `rules`."""

    def __init__(
        self,
        starts: Starts,
        submission: Submission,
        issue: str,
        settings: QualifySettings,
        patch: TestPatch,
        strictness: Strictness,
    ) -> None:
        self.strictness = strictness
        self.starts = starts
        self.submission = submission
        self.issue = issue
        self.settings = settings
        self.patch = patch
        self.touched = patch.files(starts.site.runner.discovery)
        self.superseded: frozenset[str] = frozenset()
        self.after: dict[str, Outcome] = {}
        self.files = rules.files_of(starts.site, submission, patch)
        self.kept = rules.affected(starts.site, patch)

    def run(self) -> Qualification:
        guarded = self.settings.guard_nodes if self.settings.guard == "list" else ()
        guard_files = {f for n in guarded if (f := self.starts.site.runner.file_of(n))}
        guard_files |= {f for e in self.submission.superseded if (f := self.starts.site.runner.file_of(e["node"]))}
        named = (*guarded, *(e["node"] for e in self.submission.superseded))
        before = self.starts.control(self.touched, sorted(guard_files), named)
        if isinstance(before, Refusal):
            return self._no(before)
        excused = superseded.nodes(self.submission, self.starts.site.runner, before.collected)
        if isinstance(excused, Refusal):
            return self._no(excused, before)
        self.superseded = excused
        site = self.starts.site  # the control may have found options to leave out
        whole = self.starts.whole_files(tuple(dict.fromkeys([*self.files, *self.kept])))
        if refusal := rules.believable(whole):
            return self._no(refusal, whole)
        self.after = {n: r.outcome for n, r in whole.results.items()}
        declared = rules.bind(site, self.submission, self.files, whole)
        if isinstance(declared, Refusal):
            return self._no(declared, whole)
        made_of = reproducing.made_of(site, self.patch, declared, self.strictness)
        if refusal := self._note(made_of):
            return self._no(refusal, whole)
        outcomes = {n: whole.outcome(n) for n in declared.values()}
        tiers = reproducing.tiers(site, self.patch, self.issue, self.settings, declared, whole, self.strictness)
        if isinstance(tiers, Refusal):
            return self._no(tiers, whole, outcomes)
        companions = rules.companions(site, self.submission, declared, before, whole)
        if isinstance(companions, Refusal):
            return self._no(companions, whole, outcomes)
        kept, findings = companions
        findings += rules.neighbours_kept(site, self.superseded, self.kept, declared, before, whole)
        findings += rules.executes_source(site, self.patch, whole, tiers.values())
        if refusal := self._note(findings):
            return self._no(refusal, whole, outcomes)
        unstable = self._repeat(declared, kept, before, whole)
        if isinstance(unstable, Refusal):
            return self._no(unstable, whole, outcomes)
        if refusal := self._contract(declared) or self._soundness(tiers):
            return self._no(refusal, whole, outcomes)
        nodes = self._records(declared, [n for n in kept if n not in unstable], tiers, whole)
        if isinstance(nodes, Refusal):
            return self._no(nodes, whole, outcomes)
        return self._freeze(nodes, before)

    def _note(self, found: list[Finding] | Refusal) -> Refusal | None:
        """Keep findings as their levels have them; the first hard one is the answer."""
        settled = found if isinstance(found, Refusal) else self.strictness.findings(found)
        if isinstance(settled, Refusal):
            return settled
        self.starts.findings += [f for f in settled if f not in self.starts.findings]
        return None

    def _repeat(
        self, declared: Mapping[str, str], companions: Mapping[str, bool], before: RunReport, whole: RunReport
    ) -> frozenset[str] | Refusal:
        """B4, B5, B7. The undeclared companions that did not always pass."""
        if self.settings.repeats == 1:
            return frozenset()
        site = self.starts.site
        # Declared nodes come first here, last one first: what needs a companion or a neighbour to run before shows.
        nodes = tuple(
            n for n in (*reversed(list(declared.values())), *reversed(list(companions))) if n in whole.results
        )
        absent = any(n not in whole.results for n in declared.values())
        unstable: set[str] = set()
        disturbed = noise.over(site, whole.executed)
        for report in self.starts.alone(self.files, None if absent else nodes, disturbed):
            dropped = rules.same_outcomes(site, self.patch, nodes, companions, whole, report)
            if isinstance(dropped, Refusal):
                return dropped
            unstable |= dropped
            effects = rules.effects(site, {**disturbed, **self.patch.changes}, report, before)
            if refusal := self._note(effects):
                return refusal
        found = [Finding("UNSTABLE_COMPANION", f"{n} does not always pass on Base") for n in sorted(unstable)]
        return self._note(found) or frozenset(unstable)

    def _soundness(self, tiers: Mapping[str, str]) -> Refusal | None:
        """B9, for nodes that fail by an assertion; evidence only."""
        nodes = tuple(n for n, tier in tiers.items() if tier == "assertion")
        paths = {p for n in nodes if (p := self.starts.site.runner.file_of(n)) and p in self.patch.changes}
        changes = soundness.lenient(self.patch.changes, paths) if nodes and self.settings.soundness else None
        if changes is None:
            return None
        judged = soundness.judge(self.starts.lenient(self.files, nodes, changes), nodes)
        self.starts.evidence[-1]["soundness"] = {n: str(s) for n, s in judged.items()}
        unsound = [n for n, s in judged.items() if s is soundness.Soundness.UNSOUND]
        return self._note(
            [Finding("SETUP_UNSOUND", f"past its failing assertion {n} fails otherwise on Base") for n in unsound]
        )

    def _contract(self, declared: Mapping[str, str]) -> Refusal | None:
        contract = self.submission.contract
        if contract is None:
            detail = "no behaviour contract was given; the rules about it were skipped"
            return self._note([Finding("NO_CONTRACT", detail)])
        problem = contracts.check(contract, self.issue, declared, self._in_repository)
        return Refusal("CONTRACT", *problem) if problem else None

    def _in_repository(self, quote: str) -> bool:
        folded = contracts.fold(quote)
        entries = self.starts.site.entries
        oids = [e.oid for p, e in entries.items() if p.endswith((".py", ".rst", ".md", ".txt"))]
        blobs = self.starts.site.base.store.read_blobs(oids)
        return any(folded in contracts.fold(data.decode("utf-8", "replace")) for data in blobs.values())

    def _records(
        self, declared: Mapping[str, str], companions: list[str], tiers: Mapping[str, str], whole: RunReport
    ) -> dict[str, NodeRecord] | Refusal:
        nodes: dict[str, NodeRecord] = {}
        unseen = {declared[n] for n in self.submission.unseen if n in declared}
        if len(unseen) == len(declared):
            unseen = set()  # something has to be shown
        for node in declared.values():
            result = whole.results.get(node) or reproducing.collection_result(self.starts.site, node, whole)
            values: dict[str, Any] = {
                "kind": "reproducing",
                "tier": tiers[node],
                "base_outcome": str(result.outcome),
                "signature": signature(result),
                "message": normalise(result.failure.message)[:2000] if result.failure else "",
                "unseen": node in unseen,
            }
            nodes[node] = NodeRecord(**values)
            if tiers[node] in ("value-shape", "api-absent"):
                detail = f"{node} fails on Base by {values['message'][:200]}"
                if refusal := self._note([Finding(tiers[node].upper().replace("-", "_"), detail)]):
                    return refusal
        passed = NodeRecord(kind="companion", tier="passes", base_outcome="PASSED", signature="PASSED")
        return nodes | dict.fromkeys(companions, passed)

    def _freeze(self, nodes: Mapping[str, NodeRecord], before: RunReport) -> Qualification:
        site, findings = self.starts.site, self.starts.findings
        tiers = {r.tier for r in nodes.values() if r.kind == "reproducing"}
        findings += [Finding("SUPERSEDED", f"{e['node']}: {e['reason']}") for e in self.submission.superseded]
        guard = self._guard(nodes, before)
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

    def _guard(self, nodes: Mapping[str, NodeRecord], before: RunReport) -> dict[str, float]:
        if self.settings.guard == "off":
            return {}
        leave_out = set(nodes) | self.superseded
        leave_out |= {n for n, outcome in self.after.items() if outcome is not Outcome.PASSED}
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
