"""A package's own suite on the original: which tests pass whatever their order, and which functions they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from execcritic_scaffold import syntax
from execcritic_scaffold.errors import EnvironmentFailure, UsageError
from execcritic_scaffold.execute import RunRequest, execute
from execcritic_scaffold.outcome import Outcome, RunReport
from execcritic_scaffold.paths import PathKind
from execcritic_scaffold.qualification import Refusal
from execcritic_scaffold.settings import QualifySettings
from execcritic_scaffold.site import Site
from execcritic_scaffold.starts import Starts
from execcritic_scaffold.syntax import Function
from execcritic_scaffold.variants import Place, Variant, run_variants

SLOWER = 20.0
"""How many times longer a suite may take while it is traced."""


@dataclass(frozen=True)
class Target:
    """A function that tests run. `name` is its qualified name in the module; `nodes` are the tests, in order."""

    path: str
    name: str
    line: int
    nodes: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.path}::{self.name}"


@dataclass(frozen=True)
class Suite:
    """The stable part of a suite: `seconds` a passing test took, by node in the order of the run."""

    site: Site
    seconds: Mapping[str, float]
    targets: tuple[Target, ...]

    @cached_property
    def texts(self) -> dict[str, bytes]:
        """Bytes of every Python file of Base."""
        paths = {p: e.oid for p, e in self.site.entries.items() if p.endswith(".py") and e.mode.startswith("100")}
        blobs = self.site.base.store.read_blobs(paths.values())
        return {path: blobs[oid] for path, oid in paths.items()}

    def files(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """The test files of these nodes."""
        found = (self.site.runner.file_of(node) for node in nodes)
        return tuple(sorted({path for path in found if path}))


def read(site: Site, settings: QualifySettings) -> Suite:
    """The suite of a package, by three runs: twice in fresh workspaces, in both orders, and once traced.

    Raises EnvironmentFailure where no test passes, UsageError where the tests are not pytest's or the environment
    holds a copy of the package.
    """
    if site.runner.name != "pytest":
        raise UsageError(f"The tests run with {site.runner.name}; the factory needs a package whose tests pytest runs.")
    files = tuple(sorted(p for p in site.entries if site.runner.discovery.kind(p) is PathKind.TEST))
    if not files:
        raise UsageError("The package has no test files; give a source distribution that carries its tests.")
    if copies := sorted(site.tops & set(site.description["installed"])):
        raise UsageError(f"The environment has a copy of {copies[0]}, which shows what to repair; leave it out of it.")
    starts = Starts(site, {}, frozenset(), settings)
    first = starts.control(files, ())
    if isinstance(first, Refusal):
        raise EnvironmentFailure(f"No test of the package passes ({first.detail}); add what it needs to the pins.")
    site = starts.site
    second = execute(site, {}, frozenset(), RunRequest(files, order="reversed"), settings)
    traced = Variant({}, files, None, settings.test_seconds + SLOWER * first.seconds, cover=True)
    third = run_variants(site, [traced], settings)[0]
    seconds = {
        node: result.seconds
        for node, result in first.results.items()
        if all(_passes(report, node) for report in (first, second, third.report))
    }
    if not seconds:
        detail = second.detail or third.report.detail or "they fail in another order"
        raise EnvironmentFailure(f"No test of the package passes steadily ({detail}); see that it needs no network.")
    suite = Suite(site, seconds, ())
    return replace(suite, targets=_targets(suite, third.covered))


def _passes(report: RunReport, node: str) -> bool:
    return report.outcome(node) is Outcome.PASSED


def _targets(suite: Suite, covered: Mapping[str, frozenset[Place]]) -> tuple[Target, ...]:
    """The functions of the source with the passing tests that run them, by place."""
    by_place: dict[Place, list[str]] = {}
    for node in suite.seconds:
        for place in covered.get(node, ()):
            by_place.setdefault(place, []).append(node)
    found = []
    for path in sorted({path for path, _ in by_place}):
        data = suite.texts.get(path)
        module = syntax.parse(data) if data is not None else None
        if module is None or suite.site.runner.discovery.kind(path) is not PathKind.SOURCE:
            continue
        for owner, function in syntax.functions(module):
            nodes = by_place.get((path, first_line(function)))
            if nodes:
                found.append(Target(path, ".".join((*owner, function.name)), first_line(function), tuple(nodes)))
    return tuple(sorted(found, key=lambda target: (target.path, target.line)))


def first_line(function: Function) -> int:
    """Where its code object says that it begins."""
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
