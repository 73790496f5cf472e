"""The guard (HARNESS 3.3): existing tests that passed on Base must still pass with the patch."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.cachefile import write_json
from execcritic_scaffold.execute import RunRequest, execute
from execcritic_scaffold.files import Changes
from execcritic_scaffold.freeze import harness_version
from execcritic_scaffold.outcome import GuardReport, Outcome, RunReport
from execcritic_scaffold.replay import readonly_of
from execcritic_scaffold.settings import HarnessSettings
from execcritic_scaffold.site import Site


@dataclass(frozen=True)
class Guarded:
    """The guard's report, with the run that shows it and what stands against a verdict (`problem`), if anything."""

    report: GuardReport
    run: RunReport | None = None
    problem: str | None = None


def guard(site: Site, bundle: FrozenBundle, changes: Changes, settings: HarnessSettings) -> Guarded:
    """Run the guard with the patch. Where something fails, the whole guard runs again on Base and with the patch.

    Only Base excuses a node (it fails there too, so it is flaky). A node that Base passes twice and the patch passes
    once is not a verdict either way.
    """
    if settings.guard == "off":
        return Guarded(GuardReport("off"))
    started = time.monotonic()
    chosen = _nodes(site, bundle, settings)
    if isinstance(chosen, str):
        return Guarded(GuardReport(settings.guard, not_run=len(settings.guard_nodes)), None, chosen)
    nodes, excluded = chosen
    if not nodes:
        return Guarded(GuardReport(settings.guard, not_run=excluded))
    budget = max(settings.test_seconds, 30 + 4 * sum(nodes.values()))
    patched = _run(site, bundle, changes, nodes, settings, budget)
    if not patched.valid:
        report = GuardReport(settings.guard, len(nodes), not_run=len(nodes) + excluded, seconds=_since(started))
        return Guarded(report, patched, f"the guard run is {patched.status}: {patched.detail}")
    failing = [n for n in nodes if patched.outcome(n) is not Outcome.PASSED]
    problem, flaky = None, []
    if failing:
        base = _run(site, bundle, {}, nodes, settings, budget)
        again = _run(site, bundle, changes, nodes, settings, budget)
        if not base.valid or not again.valid:
            broken = again if base.valid else base
            problem = f"the guard cannot be repeated: {broken.status}: {broken.detail}"
        flaky = [n for n in failing if base.outcome(n) is not Outcome.PASSED]
        unsteady = [n for n in failing if n not in flaky and again.outcome(n) is Outcome.PASSED]
        if unsteady and problem is None and len(unsteady) + len(flaky) == len(failing):
            problem = f"with the patch {unsteady[0]} fails once and passes once, on Base it passes"
    newly = tuple(n for n in failing if n not in flaky)
    report = GuardReport(
        mode=settings.guard,
        nodes=len(nodes),
        passed=len(nodes) - len(failing),
        newly_failing=newly,
        flaky=tuple(flaky),
        not_run=excluded,
        seconds=_since(started),
    )
    return Guarded(report, patched, problem)


def _nodes(site: Site, bundle: FrozenBundle, settings: HarnessSettings) -> tuple[Mapping[str, float], int] | str:
    """The nodes to guard with their seconds on Base, in Base's order, and how many asked for do not pass there; a
    sentence where that cannot be found out."""
    if settings.guard == "list":
        on_base = _passing_on_base(site, bundle, settings)
        return on_base if isinstance(on_base, str) else (on_base, len(settings.guard_nodes) - len(on_base))
    total = 0.0
    quick: set[str] = set()
    for node, seconds in sorted(bundle.record.guard.items(), key=lambda pair: (pair[1], pair[0])):
        total += seconds
        if total > settings.guard_seconds:
            break
        quick.add(node)
    chosen = {n: s for n, s in bundle.record.guard.items() if n in quick}
    return chosen, len(bundle.record.guard) - len(chosen)


def _passing_on_base(site: Site, bundle: FrozenBundle, settings: HarnessSettings) -> dict[str, float] | str:
    """Which of the listed nodes pass on Base (with the frozen files laid), kept under the hash of all that decides.

    A sentence where Base's own run gives no answer.
    """
    listed = settings.guard_nodes
    parts = (*listed, bundle.id, site.digest, site.base.tree, site.sandbox.name, harness_version())
    key = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    kept = site.cache / "guards" / f"{key}.json"
    try:
        known: dict[str, float] = json.loads(kept.read_bytes())
        return known
    except (OSError, ValueError):
        pass  # not measured here yet
    files = tuple(f for f in _files(site, listed) if f in site.entries or bundle.changes.get(f) is not None)
    if not files:
        return {}
    every = execute(site, bundle.changes, readonly_of(bundle), RunRequest(files, named=listed, seconds=600), settings)
    if not every.valid:
        return f"the listed guard cannot be measured on Base: {every.status}: {every.detail}"
    frozen = set(bundle.record.nodes)
    wanted = {site.runner.match(given, every.collected) for given in listed} - frozen
    passing = {n: round(r.seconds, 4) for n, r in every.results.items() if n in wanted and r.outcome is Outcome.PASSED}
    write_json(kept, passing)
    return passing


def _run(
    site: Site, bundle: FrozenBundle, changes: Changes, nodes: Iterable[str], settings: HarnessSettings, seconds: float
) -> RunReport:
    chosen = tuple(nodes)
    request = RunRequest(_files(site, chosen), chosen, seconds=seconds)
    return execute(site, {**changes, **bundle.changes}, readonly_of(bundle), request, settings)


def _files(site: Site, nodes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f for n in nodes if (f := site.runner.file_of(n))))


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)
