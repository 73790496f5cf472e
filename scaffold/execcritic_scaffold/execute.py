"""Run tests once in a fresh one-shot workspace and say what can be believed of it."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from execcritic_scaffold.events import Expected, interpret
from execcritic_scaffold.files import Changes
from execcritic_scaffold.outcome import RunReport, RunStatus
from execcritic_scaffold.sandbox.protocol import Command, Completed, Limits
from execcritic_scaffold.settings import MEGABYTE, HarnessSettings
from execcritic_scaffold.site import Site

_AGAIN = re.compile(rb'\{"again": (-?\d{1,6})\}')


@dataclass(frozen=True)
class RunRequest:
    """One run. `nodes` None runs everything in `files`. `hash_seed`, `timezone` and `order` are what repeats vary."""

    files: tuple[str, ...]
    nodes: tuple[str, ...] | None = None
    named: tuple[str, ...] = ()
    """Without `nodes`: what runs although the suite's own options leave it out of a plain run."""
    hash_seed: str = "0"
    timezone: str = "UTC"
    order: str = "given"
    trace: bool = False
    audit: bool = False
    listen: bool = False
    """Tell which addresses beyond the own machine the tests turn to."""
    times: int = 1
    """How often the runner is started in the one workspace; more than once shows state that outlives a run."""
    seconds: float | None = None


def limits_of(settings: HarnessSettings, seconds: float | None = None) -> Limits:
    return Limits(
        seconds=seconds or settings.test_seconds,
        output=settings.output_mb * MEGABYTE,
        memory=settings.memory_mb * MEGABYTE,
        processes=settings.processes,
        disk=settings.disk_mb * MEGABYTE,
    )


def execute(
    site: Site, changes: Changes, readonly: frozenset[str], request: RunRequest, settings: HarnessSettings
) -> RunReport:
    """The report of one run (of the last one, where `times` is more than one; of the first that is not VALID).

    Raises SandboxError when the engine failed; never for what the code under test did.
    """
    return execute_all(site, changes, readonly, request, settings)[-1]


def execute_all(
    site: Site, changes: Changes, readonly: frozenset[str], request: RunRequest, settings: HarnessSettings
) -> list[RunReport]:
    """The reports of `request.times` starts of the runner in one fresh workspace, in order."""
    nonces = [secrets.token_hex(12) for _ in range(request.times)]
    canaries = canary_names() if site.canaries else {}
    body = {**body_of(site, request, canaries), "nonce": nonces[0]}
    program = f"{site.sandbox.support}/{site.runner.program}"
    argv = [site.interpreter.python, program]
    if request.times > 1:
        argv = [site.interpreter.python, f"{site.sandbox.support}/again.py", program]
        body["nonces"] = nonces
    command = Command(argv, json.dumps(body).encode(), environment(site, request))
    limits = limits_of(settings, (request.seconds or settings.test_seconds) * request.times)
    done = site.sandbox.run(site.workspace(changes, readonly), command, limits, audit=request.audit)
    expected = [expected_of(nonce, request.nodes, canaries) for nonce in nonces]
    if done.dropped[0]:
        return [RunReport(RunStatus.NO_REPORT, "the report is larger than the output limit", log=done.stderr[-64_000:])]
    if request.times == 1:
        return [located(site, interpret(done, done.stdout, done.exit_code, expected[0]), done.stdout)]
    return _each(site, done, expected)


def body_of(site: Site, request: RunRequest, canaries: Mapping[str, str]) -> dict[str, Any]:
    """What a reporting program is told, without a nonce."""
    return {
        **site.runner.options(),
        "files": list(request.files),
        "nodes": list(request.nodes) if request.nodes is not None else None,
        "named": list(request.named),
        "order": request.order,
        "roots": list(site.source_roots),
        "runner_in_tree": site.runner_in_tree,
        "canaries": dict(canaries) or None,
        "trace": request.trace,
        "sockets": request.listen,
        "tops": list(site.tops),
    }


def expected_of(nonce: str, nodes: tuple[str, ...] | None, canaries: Mapping[str, str]) -> Expected:
    """What the report of a run is checked against."""
    failing = tuple(canaries[name] for name in ("early", "fail") if name in canaries)
    passing = tuple(canaries[name] for name in ("pass",) if name in canaries)
    return Expected(nonce, nodes, passing, failing)


def _each(site: Site, done: Completed, expected: Sequence[Expected]) -> list[RunReport]:
    """The reports of several starts, up to the first that is not VALID."""
    parts, codes = _split(done.stdout)
    finished = done.exit_code == 0 and not done.timed_out and not done.out_of_memory
    if len(codes) > len(expected) or (finished and (len(codes) < len(expected) or parts[-1])):
        detail = f"{len(codes)} starts of the runner were reported, and {len(expected)} were made"
        return [RunReport(RunStatus.TAMPERED, detail, seconds=done.seconds, log=done.stderr[-64_000:])]
    reports: list[RunReport] = []
    for number, want in enumerate(expected):
        ended = number < len(codes)
        # A start that has no record of its end is the one that ended all of them.
        code = codes[number] if ended else done.exit_code
        how = replace(done, timed_out=False, out_of_memory=False) if ended else done
        reports.append(located(site, interpret(how, parts[number], code, want), parts[number]))
        if not reports[-1].valid or not ended:
            break
    return reports


def _split(stdout: bytes) -> tuple[list[bytes], list[int]]:
    """Cut the stream of `again.py` at the exit records it writes after each start: a part more than records."""
    parts: list[list[bytes]] = [[]]
    codes: list[int] = []
    for line in stdout.split(b"\n"):
        if ended := _AGAIN.fullmatch(line):
            codes.append(int(ended[1]))
            parts.append([])
        else:
            parts[-1].append(line)
    # Every part but the last lost its final line's end to the record that follows it.
    return [b"\n".join(part) + (b"\n" if part and part is not parts[-1] else b"") for part in parts], codes


def located(site: Site, report: RunReport, stdout: bytes) -> RunReport:
    """The checkout is what must have been imported: a package of Base that came from elsewhere voids the run."""
    if not report.valid:
        return report
    end = json.loads(stdout.rstrip(b"\n").rsplit(b"\n", 1)[-1])
    for name, path in sorted(end["imports"].items()):
        detail = f"{name} was imported from {path}, not from the checkout"
        return replace(report, status=RunStatus.WRONG_IMPORT_TARGET, detail=detail)
    return report


def environment(site: Site, request: RunRequest) -> dict[str, str]:
    """The environment of a runner's process."""
    env = {
        "PYTHONHASHSEED": request.hash_seed,
        "PYTHONDONTWRITEBYTECODE": "1",
        "TZ": request.timezone,
        "LANG": "C.UTF-8",
    }
    if site.interpreter.image is None:
        env["PATH"] = f"{PurePosixPath(site.interpreter.python).parent}:/usr/local/bin:/usr/bin:/bin"
    return env


def canary_names() -> dict[str, str]:
    """Names of the control tests: one that must pass, one that must fail at once, one that must fail at the end."""
    return {what: f"test_{secrets.token_hex(5)}" for what in ("pass", "early", "fail")}
