"""The guard (HARNESS 3.3): existing tests that passed on Base must still pass with the patch."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from execcritic_scaffold.bundle import FrozenBundle
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
    """Run the guard with the patch. A failure counts when it shows twice with the patch and not on Base again."""
    if settings.guard == "off":
        return Guarded(GuardReport("off"))
    started = time.monotonic()
    nodes, excluded = _nodes(site, bundle, settings)
    if not nodes:
        return Guarded(GuardReport(settings.guard, not_run=excluded))
    budget = max(settings.test_seconds, 30 + 4 * sum(nodes.values()))
    patched = _run(site, bundle, changes, nodes, settings, budget)
    if not patched.valid:
        report = GuardReport(settings.guard, len(nodes), not_run=len(nodes) + excluded, seconds=_since(started))
        return Guarded(report, patched, f"the guard run is {patched.status}: {patched.detail}")
    failing = [n for n in nodes if patched.outcome(n) is not Outcome.PASSED]
    flaky: list[str] = []
    if failing:
        base = _run(site, bundle, bundle.changes, failing, settings, budget)
        again = _run(site, bundle, changes, failing, settings, budget)
        flaky = [n for n in failing if base.outcome(n) is not Outcome.PASSED or again.outcome(n) is Outcome.PASSED]
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
    return Guarded(report, patched)


def _nodes(site: Site, bundle: FrozenBundle, settings: HarnessSettings) -> tuple[Mapping[str, float], int]:
    """The nodes to guard with their seconds on Base, and how many were asked for and do not pass there."""
    if settings.guard == "auto":
        chosen: dict[str, float] = {}
        total = 0.0
        for node, seconds in sorted(bundle.record.guard.items(), key=lambda pair: pair[1]):
            total += seconds
            if total > settings.guard_seconds:
                break
            chosen[node] = seconds
        return chosen, len(bundle.record.guard) - len(chosen)
    on_base = _passing_on_base(site, bundle, settings)
    return on_base, len(settings.guard_nodes) - len(on_base)


def _passing_on_base(site: Site, bundle: FrozenBundle, settings: HarnessSettings) -> dict[str, float]:
    """Which of the listed nodes pass on Base (with the frozen files laid), kept under the hash of all that decides."""
    listed = settings.guard_nodes
    parts = (*listed, bundle.id, site.digest, site.base.tree, site.sandbox.name, harness_version())
    key = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    kept = site.cache / "guards" / f"{key}.json"
    try:
        known: dict[str, float] = json.loads(kept.read_bytes())
        return known
    except (OSError, ValueError):
        pass  # not measured here yet
    files = _files(site, listed)
    if not files:
        return {}
    every = execute(site, bundle.changes, readonly_of(bundle), RunRequest(files, seconds=600), settings)
    passing: dict[str, float] = {}
    frozen = set(bundle.record.nodes)
    for given in listed:
        node = site.runner.match(given, every.collected)
        if node and node not in frozen and every.outcome(node) is Outcome.PASSED:
            passing[node] = round(every.results[node].seconds, 4)
    if every.valid:
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(passing))
        partial.replace(kept)
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
