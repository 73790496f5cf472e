"""Which existing tests stand next to a new one: the control (B1), what must keep its status (B6), and the guard."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from execcritic_scaffold.outcome import Outcome, RunReport
from execcritic_scaffold.paths import PathKind
from execcritic_scaffold.site import Site

_MOST = 3


def neighbouring(site: Site, touched: Iterable[str]) -> tuple[str, ...]:
    """Up to three existing test files nearest to the touched ones that are not touched themselves: nearer by folder
    first, then smaller ones (a quick control is enough). Empty files do not count."""
    mine = set(touched)
    existing = [p for p in site.entries if p not in mine and site.runner.discovery.kind(p) is PathKind.TEST]
    if not mine or not existing:
        return ()
    homes = [PurePosixPath(p).parent.parts for p in mine]

    def distance(path: str) -> int:
        here = PurePosixPath(path).parent.parts
        return min(len(home) + len(here) - 2 * _shared(home, here) for home in homes)

    near = sorted(existing, key=lambda p: (distance(p), p))[: 8 * _MOST]
    sizes = site.base.store.read_blobs(site.entries[p].oid for p in near)
    ranked = sorted(near, key=lambda p: (distance(p), len(sizes[site.entries[p].oid]), p))
    return tuple(p for p in ranked if sizes[site.entries[p].oid].strip())[:_MOST]


def _shared(one: tuple[str, ...], two: tuple[str, ...]) -> int:
    count = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        count += 1
    return count


def guardable(report: RunReport, seconds: float, leave_out: Iterable[str] = ()) -> dict[str, float]:
    """Nodes that passed on Base with the seconds they took there: as many, quickest first, as fit into `seconds`;
    in the order they ran."""
    gone = set(leave_out)
    passed = sorted((r.seconds, n) for n, r in report.results.items() if r.outcome is Outcome.PASSED and n not in gone)
    chosen: dict[str, float] = {}
    total = 0.0
    for cost, node in passed:
        total += cost
        if total > seconds:
            break
        chosen[node] = round(cost, 4)
    return {n: chosen[n] for n in report.results if n in chosen}
