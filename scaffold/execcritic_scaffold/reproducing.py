"""Which nodes reproduce: what they are made of (A5), and why they fail on Base (B2, B3)."""

from __future__ import annotations

from collections.abc import Mapping

from execcritic_scaffold import assertions, constructs, suspicions, syntax
from execcritic_scaffold.origin import Context, Judgement, judge, judge_collection
from execcritic_scaffold.outcome import Finding, NodeResult, Outcome, RunReport
from execcritic_scaffold.paths import PathKind
from execcritic_scaffold.qualification import Refusal
from execcritic_scaffold.ruletable import Strictness
from execcritic_scaffold.settings import QualifySettings
from execcritic_scaffold.site import Site
from execcritic_scaffold.testpatch import TestPatch


def made_of(
    site: Site, patch: TestPatch, declared: Mapping[str, str], strictness: Strictness
) -> list[Finding] | Refusal:
    """A5: the declared nodes' own functions, where they can be found in the patch's Python files."""
    found: list[Finding] = []
    for located in (_located(site, patch, node) for node in declared.values()):
        if located is None:
            continue
        problem = constructs.hard(located)
        settled = strictness.settle(problem) if problem else None
        if isinstance(settled, Refusal):
            return settled
        found += [settled] if settled else []
        found += [f for f in suspicions.findings(located, _own(site)) if f not in found]
    return found


def _located(site: Site, patch: TestPatch, node: str) -> constructs.Located | None:
    """A node's own function in the patch; None where it cannot be found there."""
    path = site.runner.file_of(node)
    file = patch.changes.get(path) if path else None
    module = syntax.parse(file.data) if file else None
    names = node.split("[")[0].split("::")[1:] if "::" in node else node.split(".")[-2:]
    function = syntax.locate(module, names) if module else None
    return constructs.Located(node, path, function, module) if path and function else None


def _own(site: Site) -> frozenset[str]:
    """What is imported from the repository: its packages, and modules of source that lie at an import root."""
    kind = site.runner.discovery.kind
    roots = [r if r != "." else "" for r in site.source_roots]
    single = {
        p.rsplit("/", 1)[-1].removesuffix(".py")
        for p in site.entries
        if p.endswith(".py") and (p.rsplit("/", 1)[0] if "/" in p else "") in roots and kind(p) is PathKind.SOURCE
    }
    return site.tops | (single - {"setup"})


def tiers(
    site: Site,
    patch: TestPatch,
    issue: str,
    settings: QualifySettings,
    declared: Mapping[str, str],
    whole: RunReport,
    strictness: Strictness,
) -> dict[str, str] | Refusal:
    """B2 and B3: every reproducing node fails behaviourally and for a reason that lies in source; node to tier.

    Where a symbol is absent no assertion has run yet, so one has to be seen in the test's text.
    """
    context = _context(site, patch, issue, settings)
    found: dict[str, str] = {}
    for node in declared.values():
        judgement = _judge(site, node, whole, context)
        if judgement.tier is None:
            return Refusal(judgement.code, judgement.detail, judgement.next)
        found[node] = judgement.tier
        if judgement.tier == "api-absent" and isinstance(refusal := _asserts(site, patch, node, strictness), Refusal):
            return refusal
    return found


def _asserts(site: Site, patch: TestPatch, node: str, strictness: Strictness) -> Refusal | Finding | None:
    """What stands against a node that fails before its first assertion, if its text shows none on behaviour."""
    located = _located(site, patch, node)
    if located is None or assertions.of_behaviour(located.function, located.module, absent=True):
        return None
    detail = f"{node} fails because a symbol is absent, and asserts nothing about what it does"
    return strictness.settle(Refusal("NOTHING_ASSERTED", detail, "Assert on what the new symbol returns or raises."))


def _judge(site: Site, node: str, whole: RunReport, context: Context) -> Judgement:
    result = whole.results.get(node)
    if result is None and whole.collect_errors:
        path = _errored_file(site, node, whole)
        return judge_collection(path, whole.collect_errors[path], context)
    return judge(result or NodeResult(node, Outcome.NOT_COLLECTED), context)


def _context(site: Site, patch: TestPatch, issue: str, settings: QualifySettings) -> Context:
    def read(path: str) -> bytes | None:
        if path in patch.changes:
            file = patch.changes[path]
            return file.data if file else None
        return site.read(path)

    discovery = site.runner.discovery
    return Context(discovery, _own(site), issue, read, settings.tier_value_shape, settings.tier_api_absent)


def _errored_file(site: Site, node: str, whole: RunReport) -> str:
    path = site.runner.file_of(node)
    return path if path is not None and path in whole.collect_errors else next(iter(whole.collect_errors))


def collection_result(site: Site, node: str, whole: RunReport) -> NodeResult:
    """How a node ended whose file could not be imported."""
    return NodeResult(node, Outcome.COLLECT_ERROR, whole.collect_errors[_errored_file(site, node, whole)])
