"""The environment's check: are the repository's tests collected at all? Nothing is run, the network is off.

What is missing is told by name. The answer depends on Base, the environment and the runner only, and is kept.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from execcritic_scaffold.cachefile import write_json
from execcritic_scaffold.execute import RunRequest, execute
from execcritic_scaffold.freeze import harness_version
from execcritic_scaffold.outcome import Failure, RunReport, RunStatus
from execcritic_scaffold.paths import PathKind
from execcritic_scaffold.settings import HarnessSettings
from execcritic_scaffold.site import Site

RUNNERS = ("pytest", "unittest")
"""Of these the whole suite can be collected in one start; the own runners of large projects are passed over."""
_ABSENT = re.compile(rb"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)")
_NO_MODULE = re.compile(r"No module named '?([\w.]+)")
_NOT_INSTALLED = "importlib.metadata.PackageNotFoundError"


@dataclass(frozen=True)
class Collection:
    """What was collected. `broken` maps a test module to its cause in one clause; `missing` are top-level modules, and
    distributions whose metadata was asked for, that are not there and not the repository's own. `problem`: why nothing
    can be said (in one clause)."""

    tests: int = 0
    broken: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    """Modules of the repository itself that cannot be imported, as it is not built."""
    problem: str | None = None

    @property
    def unusable(self) -> bool:
        """True where the environment, not the code, keeps every test from being collected."""
        return self.tests == 0 and bool(self.missing or self.own)


def collect(site: Site, settings: HarnessSettings, seconds: float) -> Collection | None:
    """What the whole suite's collection shows; None for a runner of which it cannot be asked.

    Raises SandboxError. A time-out is an answer too: it is kept, so that it is paid for once.
    """
    if site.runner.name not in RUNNERS:
        return None
    parts = (site.digest, site.base.tree, site.sandbox.name, site.runner.name, *site.runner.arguments)
    parts += (*site.source_roots, f"{seconds:g}", harness_version())
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    kept = site.cache / "collections" / f"{key}.json"
    try:
        known: dict[str, Any] = json.loads(kept.read_bytes())
        return Collection(**{**known, "missing": tuple(known["missing"]), "own": tuple(known["own"])})
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not asked before
    found = _ask(site, settings, seconds)
    write_json(kept, asdict(found))
    return found


def _ask(site: Site, settings: HarnessSettings, seconds: float) -> Collection:
    files: tuple[str, ...] = ()  # pytest finds them by its own configuration
    if site.runner.name == "unittest":
        files = tuple(path for path in site.entries if site.runner.discovery.kind(path) is PathKind.TEST)
        if not files:
            return Collection()
    report = execute(site, {}, frozenset(), RunRequest(files, nodes=(), seconds=seconds), settings)
    own = site.root_modules | site.tops
    absent: list[str] = []
    broken = {}
    for path, failure in report.collect_errors.items():
        broken[path] = f"{failure.kind.removeprefix('builtins.')}: {_line(failure.message)}"
        absent += _absent(failure)
    if not report.valid:
        absent += [name.decode() for name in _ABSENT.findall(report.log)]
    tops = list(dict.fromkeys(name.split(".")[0] for name in absent))
    return Collection(
        len(report.collected),
        broken,
        tuple(name for name in tops if name not in own),
        tuple(name for name in tops if name in own),
        None if report.valid else _problem(report),
    )


def _absent(failure: Failure) -> Iterable[str]:
    if failure.is_a(_NOT_INSTALLED, "importlib_metadata.PackageNotFoundError", "pkg_resources.DistributionNotFound"):
        return [failure.name] if failure.name else []
    if failure.is_a("builtins.ModuleNotFoundError"):
        return _NO_MODULE.findall(failure.message)[:1]
    return []


def _problem(report: RunReport) -> str:
    if report.status is RunStatus.TIMEOUT:
        return f"collecting was stopped after {report.seconds:.0f} s"
    lines = [line for line in report.log.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(E\s|ERROR|\w*Error\b)", line.strip())]
    said = _line((errors or lines or [""])[-1])
    return f"{report.detail}{f' ({said})' if said else ''}"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else f"{line[:159]}…"
