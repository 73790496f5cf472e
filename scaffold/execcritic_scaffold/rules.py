"""The admission rules that read runs on Base (HARNESS 2: A1, A4, B4 to B8), each its own small function.

Each returns what the next one needs, or a Refusal with a stable code, the evidence and one next action.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from execcritic_scaffold.agents import Submission
from execcritic_scaffold.files import Changes
from execcritic_scaffold.neighbours import neighbouring
from execcritic_scaffold.normalise import signature
from execcritic_scaffold.outcome import Finding, Outcome, RunReport, RunStatus
from execcritic_scaffold.paths import PathKind
from execcritic_scaffold.qualification import Refusal, brief
from execcritic_scaffold.sideeffects import side_effects
from execcritic_scaffold.site import Site
from execcritic_scaffold.testpatch import TestPatch

_STEADY = "Make the test independent of order, of hash seeds, of the time zone and of earlier runs."
_CHILDREN = (b"subprocess", b"Popen", b"pytester", b"testdir", b"runpytest", b"multiprocessing", b"os.system")
_BROKEN_OFF = (RunStatus.VALID, RunStatus.TIMEOUT, RunStatus.CRASHED, RunStatus.OUT_OF_MEMORY)
_MACHINE = (RunStatus.RUNNER_USAGE, RunStatus.ENVIRONMENT, RunStatus.WRONG_IMPORT_TARGET)


def files_of(site: Site, submission: Submission, patch: TestPatch) -> tuple[str, ...]:
    """The test files the runner is given: those the patch touches and those the declared nodes name."""
    named = (site.runner.file_of(n) for n in (*submission.nodes, *submission.companions))
    known = set(site.entries) | {p for p, f in patch.changes.items() if f}
    touched = patch.files(site.runner.discovery)
    return tuple(dict.fromkeys([*touched, *(f for f in named if f and f in known)]))


def affected(site: Site, patch: TestPatch) -> tuple[str, ...]:
    """Existing test files whose tests the patch can change: those it touches, and their neighbours where it brings
    fixtures, helpers or data."""
    discovery = site.runner.discovery
    touched = patch.files(discovery)
    shared = any(discovery.kind(p) in (PathKind.CONFTEST, PathKind.SUPPORT) for p in patch.changes)
    near = neighbouring(site, touched) if shared else ()
    return tuple(p for p in (*touched, *near) if p in site.entries)


def believable(report: RunReport) -> Refusal | None:
    """A run that broke off still says how its nodes ended; one whose report does not hold together says nothing."""
    if report.status in _BROKEN_OFF and (report.valid or report.collected):
        return None
    return Refusal(
        str(report.status),
        f"the run on Base cannot be believed: {report.detail}",
        "Write a test that leaves the runner, its report and the interpreter alone.",
        "INCONCLUSIVE" if report.status in _MACHINE else "REJECTED",
    )


def bind(site: Site, submission: Submission, files: tuple[str, ...], whole: RunReport) -> dict[str, str] | Refusal:
    """A4: declared reproducing nodes, as given, to the ids the runner collected. A node of a file that cannot be
    collected is bound as it was given."""
    if not submission.nodes:
        return Refusal("NO_NODES", "no node is declared", "Declare the node that must fail on Base.")
    bound: dict[str, str] = {}
    for given in submission.nodes:
        node = site.runner.match(given, whole.collected)
        if node is None and whole.collect_errors:
            file = site.runner.file_of(given)
            node = given if file in whole.collect_errors or (file is None and len(files) == 1) else None
        if node is not None:
            bound[given] = node
        elif site.runner.file_of(given) in whole.collect_skips or (whole.collect_skips and not whole.collected):
            return Refusal("SKIPPED", f"the file of {given} is skipped as a whole", "Remove the skip.")
        elif not whole.collected and not whole.collect_errors:
            return Refusal(
                "NO_TESTS_COLLECTED",
                "the runner collects no test from the patch",
                f"Name test files and functions as the runner asks ({', '.join(site.runner.discovery.patterns)}).",
            )
        else:
            seen = ", ".join(whole.collected[:20]) or "nothing"
            return Refusal("NODE_NOT_FOUND", f"{given} is not collected", f"Declare an id the runner reports: {seen}.")
    return bound


def companions(
    site: Site, submission: Submission, declared: Mapping[str, str], before: RunReport, whole: RunReport
) -> tuple[dict[str, bool], list[Finding]] | Refusal:
    """A4: nodes that must keep passing. Declared ones map to True, added ones that pass on Base to False.

    An added node that fails on Base and is not declared is refused (for a person's test: a finding).
    """
    kept: dict[str, bool] = {}
    findings: list[Finding] = []
    for given in submission.companions:
        node = site.runner.match(given, whole.collected)
        if node is None or whole.outcome(node) is not Outcome.PASSED:
            what = "is not collected" if node is None else f"is {whole.outcome(node)} on Base"
            return Refusal("COMPANION_FAILS", f"the companion {given} {what}", "Companions must pass on Base.")
        kept[node] = True
    known = {*before.collected, *declared.values(), *kept}
    for node in (n for n in whole.collected if n not in known):
        outcome = whole.outcome(node)
        if outcome is Outcome.PASSED:
            kept[node] = False
        elif outcome in (Outcome.SKIPPED, Outcome.NOT_COLLECTED):
            continue
        else:
            detail = f"{node} is added, ends {outcome} on Base and is not declared"
            findings.append(Finding("UNDECLARED_NODE", detail))
    return kept, findings


def neighbours_kept(
    site: Site,
    superseded: Collection[str],
    touched: Iterable[str],
    declared: Mapping[str, str],
    before: RunReport,
    whole: RunReport,
) -> list[Finding]:
    """B6: tests that were in the touched files keep their status, superseded ones apart."""
    if whole.collect_errors and not whole.results:
        return []  # the files cannot be imported yet: nothing of them has a status on Base
    mine = set(touched)
    excused = {*declared.values(), *superseded}
    changed = [
        node
        for node, result in before.results.items()
        if result.outcome is Outcome.PASSED
        and site.runner.file_of(node) in mine
        and node not in excused
        and whole.outcome(node) is not Outcome.PASSED
    ]
    return [
        Finding("NEIGHBOUR_CHANGED", f"{n} passed on Base and is {whole.outcome(n)} there with the patch")
        for n in changed[:20]
    ]


def same_outcomes(
    site: Site,
    patch: TestPatch,
    nodes: Iterable[str],
    companions: Mapping[str, bool],
    whole: RunReport,
    again: RunReport,
) -> set[str] | Refusal:
    """B4 and B5: the same outcome and signature alone as among neighbours. Returns undeclared companions that differ;
    any other difference is refused as FLAKY."""
    if not again.valid and again.status is not whole.status:
        return Refusal("FLAKY", f"alone it ends otherwise than among its neighbours: {again.detail}", _STEADY)
    dropped: set[str] = set()
    for node in nodes:
        one, two = whole.results.get(node), again.results.get(node)
        if one is not None and two is not None and signature(one) == signature(two):
            continue
        if companions.get(node) is False:
            dropped.add(node)
            continue
        return Refusal("FLAKY", f"{node} was {brief(one)} and then {brief(two)}", _STEADY)
    return dropped


def effects(site: Site, changes: Changes, report: RunReport, before: RunReport) -> list[Finding] | Refusal:
    """B7: no write to the repository's files; milder effects are findings."""
    found = side_effects(site, changes, report, bool(before.sockets))
    if found.modified:
        return Refusal(
            "MODIFIES_TREE",
            f"running the test changes {found.modified[0]} of the repository",
            "Work in a temporary folder (tmp_path) and leave the repository's files alone.",
        )
    return list(found.findings)


def executes_source(site: Site, patch: TestPatch, whole: RunReport, tiers: Iterable[str]) -> list[Finding]:
    """B8: a function of the repository's source ran, seen in the tests' own process. Where the symbol is absent,
    nothing can have run yet; where the test starts other processes, what runs there is not seen."""
    ran = any(site.runner.discovery.kind(p) is PathKind.SOURCE for p in whole.executed)
    if ran or "api-absent" in tiers:
        return []
    texts = [f.data for f in patch.changes.values() if f]
    if any(word in text for text in texts for word in _CHILDREN):
        return [Finding("SOURCE_IN_CHILD", "the test starts other processes; whether they run source is not seen")]
    return [Finding("NO_SOURCE_EXECUTED", "no function of the repository's source ran")]
