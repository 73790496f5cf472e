"""B7: what a run left behind, told apart: changed repository files, new files, files in HOME, processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from execcritic_scaffold.files import Changes
from execcritic_scaffold.outcome import Finding, RunReport
from execcritic_scaffold.site import Site

_CACHES = frozenset((".pytest_cache", "__pycache__", ".hypothesis", ".mypy_cache", ".ruff_cache", ".cache"))
_CACHE_FILES = (".coverage", ".pyc", ".pyo")


@dataclass(frozen=True)
class SideEffects:
    """`modified`: files of Base or of the bundle that a run changed or removed; `findings`: the milder rest."""

    modified: tuple[str, ...]
    findings: tuple[Finding, ...]


def side_effects(site: Site, changes: Changes, report: RunReport, usual: bool = False) -> SideEffects:
    """Read from an audited run; temporary folders and tool caches do not count. `usual`: the neighbours on Base turn
    to the network as well, so that it is this suite's habit."""
    own = {p for p, f in changes.items() if f is not None}
    written = [w for w in report.writes if not _cache(w)]
    home = sorted(w for w in written if w.startswith("~/"))
    inside = [w for w in written if not w.startswith("~/")]
    modified = tuple(sorted(w for w in inside if w in site.entries))
    folders = {str(p) for e in (*site.entries, *own) for p in PurePosixPath(e).parents}
    fresh = sorted(w for w in inside if w not in site.entries and w not in own and w not in folders)
    findings = []
    if fresh:
        findings.append(Finding("WRITES_FILES", f"the test leaves files in the repository: {', '.join(fresh[:5])}"))
    if home:
        findings.append(Finding("WRITES_HOME", f"the test leaves files in the home folder: {', '.join(home[:5])}"))
    if report.sockets:
        code = "NETWORK" if usual else "REACHES_NETWORK"
        where = ", ".join(report.sockets[:5])
        findings.append(Finding(code, f"the test turns to addresses beyond the own machine: {where}"))
    if report.left_behind:
        findings.append(Finding("LEAVES_PROCESSES", f"{report.left_behind} processes outlived the test and were ended"))
    return SideEffects(modified, tuple(findings))


def _cache(path: str) -> bool:
    parts = PurePosixPath(path.removeprefix("~/")).parts
    return any(part in _CACHES for part in parts) or path.endswith(_CACHE_FILES)
