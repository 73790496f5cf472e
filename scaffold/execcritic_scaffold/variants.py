"""Many variants of Base through one warm pytest: the reports of each, at a fraction of a start of its own.

For looking through mutants: all share one workspace and one warm process (see `inject/variants.py`). Every report is
cross-checked as usual, but what decides something is run again through `execute`, in a workspace of its own.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from execcritic_scaffold.events import interpret
from execcritic_scaffold.execute import RunRequest, body_of, canary_names, environment, expected_of, limits_of, located
from execcritic_scaffold.files import Changes
from execcritic_scaffold.outcome import RunReport, RunStatus
from execcritic_scaffold.sandbox.protocol import Command, Completed
from execcritic_scaffold.settings import MEGABYTE, HarnessSettings
from execcritic_scaffold.site import Site

_END = re.compile(rb'\n(\{"variant": [^\n]*\})\n')
_OUTPUT = 128 * MEGABYTE
"""Of all reports of one sandbox together."""
_START = 60.0
"""Seconds for the warm process itself."""

Place = tuple[str, int]
"""A function: path and first line, that of its first decorator where it has one."""


@dataclass(frozen=True)
class Variant:
    """One run over Base with `changes`. `nodes` None: all of `files`. `seconds`: when it is stopped.

    `cover`: tell which functions each test runs. `keep`: leave the byte code of the test files, which must be Base's
    own, to the variants after it; that saves them pytest's rewriting.
    """

    changes: Changes
    files: tuple[str, ...]
    nodes: tuple[str, ...] | None
    seconds: float
    cover: bool = False
    keep: bool = False


@dataclass(frozen=True)
class Looked:
    """What came of a variant. `covered`: node id to the repository's functions it ran, where that was asked for."""

    report: RunReport
    covered: Mapping[str, frozenset[Place]] = field(default_factory=dict)


def run_variants(site: Site, variants: Sequence[Variant], settings: HarnessSettings) -> list[Looked]:
    """What came of each, in order. A variant that ends the warm process is reported so, and the rest go on in another.

    Only for sites whose runner is pytest. Raises SandboxError when the engine failed.
    """
    done: list[Looked] = []
    while len(done) < len(variants):
        done += _some(site, variants[len(done) :], settings)
    return done


def _some(site: Site, variants: Sequence[Variant], settings: HarnessSettings) -> list[Looked]:
    """At least the first of them."""
    nonces = [secrets.token_hex(12) for _ in variants]
    canaries = canary_names() if site.canaries else {}
    request = RunRequest(())
    body = body_of(site, request, canaries)
    body["variants"] = [_told(v, nonce) for v, nonce in zip(variants, nonces, strict=True)]
    argv = [site.interpreter.python, f"{site.sandbox.support}/variants.py"]
    command = Command(argv, json.dumps(body).encode(), environment(site, request))
    limits = replace(limits_of(settings, _START + sum(v.seconds for v in variants)), output=_OUTPUT)
    done = site.sandbox.run(site.workspace({}), command, limits)
    if done.dropped[0]:
        lost = RunReport(RunStatus.NO_REPORT, "the reports are larger than the output limit")
        return [Looked(lost)] * len(variants)
    parts = _END.split(done.stdout)
    found = []
    for number, (variant, nonce) in enumerate(zip(variants, nonces, strict=True)):
        stdout, ended = parts[2 * number], _ending(parts[2 * number + 1 :])
        how, code = (done, done.exit_code) if ended is None else _as_one(done, ended, variant)
        report = interpret(how, stdout, code, expected_of(nonce, variant.nodes, canaries))
        found.append(Looked(located(site, report, stdout), _covered(ended) if ended else {}))
        if ended is None:
            break
    return found


def _told(variant: Variant, nonce: str) -> dict[str, Any]:
    changes = {path: None if f is None else base64.b64encode(f.data).decode() for path, f in variant.changes.items()}
    return {
        "nonce": nonce,
        "files": list(variant.files),
        "nodes": None if variant.nodes is None else list(variant.nodes),
        "seconds": variant.seconds,
        "changes": changes,
        "cover": variant.cover,
        "keep": variant.keep,
    }


def _ending(rest: Sequence[bytes]) -> Mapping[str, Any] | None:
    """The record of a variant's end; None where the warm process ended before it, or it makes no sense."""
    try:
        record = json.loads(rest[0])
        return record if type(record["variant"]) is int and type(record["late"]) is bool else None
    except (IndexError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _as_one(done: Completed, ended: Mapping[str, Any], variant: Variant) -> tuple[Completed, int | None]:
    """How the variant's own process ended."""
    late = bool(ended["late"])
    how = replace(done, timed_out=late, out_of_memory=False, seconds=variant.seconds if late else 0.0)
    return how, None if late else int(ended["variant"])


def _covered(ended: Mapping[str, Any]) -> dict[str, frozenset[Place]]:
    """The tests with the functions they ran; empty where the record has not the form that `covering.py` writes."""
    try:
        record = ended.get("covered") or {"functions": [], "tests": {}}
        functions = [(str(path), int(line)) for path, line in record["functions"]]
        return {str(node): frozenset(functions[i] for i in found) for node, found in record["tests"].items()}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return {}
