"""What a mutant does to the tests that run its function: broken cleanly, unnoticed, or no use, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from execcritic_scaffold.files import File
from execcritic_scaffold.outcome import NodeResult, Outcome, RunReport, RunStatus
from execcritic_scaffold.settings import HarnessSettings
from execcritic_scaffold.variants import Variant, run_variants
from execcritic_training.factory.mutate import Mutant
from execcritic_training.factory.suite import Suite, Target

MOST_NODES = 150
"""Tests that run a function, beyond which it is not mutated: a fault in it breaks everything."""
MOST_HIDDEN = 12
"""Tests that may fail."""
MOST_SHARE = 0.2
"""Of all passing tests of the package that may fail: most others still pass."""


class Fate(StrEnum):
    """What became of a mutant. Only BROKEN makes a task; SURVIVES may be a right candidate."""

    BROKEN = "broken"
    SURVIVES = "no test fails"
    IMPORT = "the tests cannot be imported"
    TIMEOUT = "time-out"
    CRASH = "the process dies"
    SETUP = "fails outside the behaviour under test"
    MANY = "too many tests fail"
    UNUSABLE = "no usable report"


@dataclass(frozen=True)
class Screened:
    """A mutant with its fate and, where BROKEN, how each test failed."""

    mutant: Mutant
    fate: Fate
    failing: Mapping[str, NodeResult]


def screen(suite: Suite, work: Sequence[tuple[Target, Mutant]], settings: HarnessSettings) -> list[Screened]:
    """Run each mutant under the tests of its function, all in one warm process; the answers in the same order."""
    files = suite.files(tuple(node for target, _ in work for node in target.nodes))
    # The first one collects only: pytest's rewriting of the test files is then done for all.
    variants = [Variant({}, files, (), settings.test_seconds, keep=True)]
    variants += [_variant(suite, target, mutant) for target, mutant in work]
    looked = run_variants(suite.site, variants, settings)[1:]
    return [_screened(suite, target, mutant, one.report) for (target, mutant), one in zip(work, looked, strict=True)]


def _variant(suite: Suite, target: Target, mutant: Mutant) -> Variant:
    mode = suite.site.entries[target.path].mode
    changes = {target.path: File(mutant.data, mode)}
    # By function rather than by file: only those are collected.
    ids = tuple(dict.fromkeys(node.split("[")[0] for node in target.nodes))
    return Variant(changes, ids, target.nodes, bound(suite, target))


def bound(suite: Suite, target: Target) -> float:
    """Seconds after which a mutant counts as endless: ten times what the original's tests took, and ten more."""
    return 10.0 + 10.0 * sum(suite.seconds[node] for node in target.nodes)


def _screened(suite: Suite, target: Target, mutant: Mutant, report: RunReport) -> Screened:
    failing = {node: report.results[node] for node in target.nodes if _fails(report, node)}
    fate = _fate(report, failing, len(suite.seconds))
    return Screened(mutant, fate, failing if fate is Fate.BROKEN else {})


def _fails(report: RunReport, node: str) -> bool:
    return node in report.results and report.outcome(node) is not Outcome.PASSED


def _fate(report: RunReport, failing: Mapping[str, NodeResult], tests: int) -> Fate:
    if report.status is RunStatus.TIMEOUT:
        return Fate.TIMEOUT
    if report.status in (RunStatus.CRASHED, RunStatus.OUT_OF_MEMORY):
        return Fate.CRASH
    if report.collect_errors or report.status is RunStatus.RUNNER_USAGE:
        return Fate.IMPORT
    if not report.valid:
        return Fate.UNUSABLE
    if not failing:
        return Fate.SURVIVES
    if not all(result.outcome.behavioural for result in failing.values()):
        return Fate.SETUP
    if len(failing) > min(MOST_HIDDEN, max(1, int(MOST_SHARE * tests))):
        return Fate.MANY
    return Fate.BROKEN
