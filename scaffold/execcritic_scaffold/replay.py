"""Base replay (HARNESS 3.0): the frozen nodes fail on unpatched Base here, as they did when they were frozen.

The answer depends on nothing but the bundle, Base, the environment and the sandbox, so it is kept under their hash.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.cachefile import write_json
from execcritic_scaffold.execute import RunRequest, execute
from execcritic_scaffold.freeze import harness_version
from execcritic_scaffold.normalise import location, signature
from execcritic_scaffold.outcome import NodeResult, Outcome, RunReport
from execcritic_scaffold.settings import HarnessSettings
from execcritic_scaffold.site import Site


def reproduced(site: Site, bundle: FrozenBundle, settings: HarnessSettings) -> str | None:
    """None where Base is reproduced, else what differs, in one clause."""
    kept = _cache_file(site, bundle)
    try:
        if json.loads(kept.read_bytes())["bundle"] == bundle.id:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not reproduced here before
    report = execute(
        site, bundle.changes, readonly_of(bundle), RunRequest(files_of(site, bundle), nodes_of(bundle)), settings
    )
    differs = _compare(site, bundle, report)
    if differs is None:  # a failure is not kept: it may pass by
        write_json(kept, {"bundle": bundle.id})
    return differs


def files_of(site: Site, bundle: FrozenBundle) -> tuple[str, ...]:
    """The files the frozen nodes lie in."""
    named = {site.runner.file_of(n) for n in bundle.record.nodes}
    if None in named:
        named |= {p for p, b in bundle.record.files.items() if b and site.runner.discovery.kind(p).value == "test"}
    return tuple(sorted(f for f in named if f is not None))


def nodes_of(bundle: FrozenBundle) -> tuple[str, ...]:
    """All frozen nodes, reproducing ones first."""
    return (*bundle.reproducing, *bundle.companions)


def readonly_of(bundle: FrozenBundle) -> frozenset[str]:
    return frozenset(bundle.record.readonly)


def _compare(site: Site, bundle: FrozenBundle, report: RunReport) -> str | None:
    same_environment = bundle.record.environment.get("digest") == site.digest
    if not report.valid:
        return f"the run on Base is {report.status}: {report.detail}"
    for node, record in bundle.record.nodes.items():
        result = report.results.get(node)
        if result is None and record.base_outcome == Outcome.COLLECT_ERROR and report.collect_errors:
            path = site.runner.file_of(node) or ""
            failure = report.collect_errors.get(path) or next(iter(report.collect_errors.values()))
            result = NodeResult(node, Outcome.COLLECT_ERROR, failure)
        if result is None:
            return f"{node} is not collected on Base"
        now = signature(result)
        same = now == record.signature if same_environment else location(now) == location(record.signature)
        if not same:
            return f"{node} was {record.base_outcome} and is {result.outcome} on Base now"
    return None


def _cache_file(site: Site, bundle: FrozenBundle) -> Path:
    parts = (bundle.id, site.digest, site.base.tree, site.sandbox.name, harness_version(), *site.source_roots)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return site.cache / "replays" / f"{key}.json"
