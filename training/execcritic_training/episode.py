"""How an episode ended, read from the run directory that it left (see `execcritic.runs`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from execcritic_roles import trajectory
from execcritic_scaffold.agents import StopKind
from execcritic_scaffold.errors import UsageError

Role = Literal["test", "repair"]

CUT_OFF: Mapping[Role, frozenset[str]] = {
    "test": frozenset({StopKind.SECONDS, StopKind.TOKENS, StopKind.COST, StopKind.CONTEXT, StopKind.TURNS}),
    # The last turn of a round forces a check (METHOD 4): that ends an episode as it should end.
    "repair": frozenset({StopKind.SECONDS, StopKind.TOKENS, StopKind.COST, StopKind.CONTEXT}),
}
"""Limits that cut an episode off before it came to its own end."""
RAN_ON_BASE = frozenset({"PASSES_ON_BASE"})
"""Refusals of a test that was applied, bound and run on Base without an error, and did not fail there: it was valid,
and no clean Base failure (METHOD 5)."""


@dataclass(frozen=True)
class Episode:
    """One role's part of a run. `turns` it took; `rounds` of revision were begun; `patch` is the terminal one, empty
    where there is none; `ran_on_base`: a submission was valid and did not fail on Base; `operational`: what of the
    machine or the endpoint broke it, None where nothing did."""

    role: Role
    turns: int
    truncated: bool
    operational: str | None
    bundle: Path | None = None
    ran_on_base: bool = False
    patch: bytes = b""
    rounds: int = 0


def read(run: Path, role: Role) -> Episode:
    """The episode of this role in a run directory. A run that did not end is operational, not an error.

    Raises UsageError for a folder that is no run, or whose record is damaged.
    """
    if not (run / "journal.jsonl").is_file():
        raise UsageError(f"{run} is no run directory; name one that `resolve`, `test` or `repair` wrote.")
    try:
        return _read(run, role)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"The record in {run} is damaged ({type(error).__name__}: {error}); collect this episode again."
        ) from None


def _read(run: Path, role: Role) -> Episode:
    path = run / role / "trajectory.jsonl"
    turns, kind, reason = 0, None, ""
    for event in trajectory.read(path) if path.exists() else ():
        turns += event["event"] == "reply"
        if event["event"] == "stop":
            kind, reason = event["kind"], event["reason"]
    result = _verdict(run)
    broken = _broken(result, kind, reason)
    if role == "test":
        return _tested(run, turns, kind, broken)
    cut = kind in CUT_OFF["repair"]
    fix = run / "fix.patch"
    patch = fix.read_bytes() if fix.exists() else b""
    return Episode("repair", turns, cut, broken, patch=patch, rounds=int((result or {}).get("rounds") or 0))


def _tested(run: Path, turns: int, kind: str | None, broken: str | None) -> Episode:
    ran, ended = False, None
    for event in _events(run):
        if event.get("event") == "test.qualification":
            ran |= event["qualification"]["code"] in RAN_ON_BASE
        elif event.get("event") == "test.ended":
            ended = event["gate"]
    folder = run / "test" / "bundle"
    if ended is None:
        return Episode("test", turns, False, broken or "the Test episode did not end")
    if folder.is_dir():  # what came after the test was frozen is not the Test agent's
        return Episode("test", turns, False, None, folder)
    if ended["status"] == "INFRASTRUCTURE":
        last = ended.get("last") or {}
        why = ended.get("error") or last.get("detail") or broken or "the harness could not answer"
        return Episode("test", turns, False, str(why))
    return Episode("test", turns, kind in CUT_OFF["test"], None, ran_on_base=ran)


def _broken(result: Mapping[str, Any] | None, kind: str | None, reason: str) -> str | None:
    if kind == StopKind.MODEL:
        return f"the model failed: {reason}"
    if kind == StopKind.QUIT:
        return "a person ended the episode"
    if result is None:
        return "the run did not end"
    return str(result["error"]) if result.get("error") else None


def _verdict(run: Path) -> Mapping[str, Any] | None:
    path = run / "verdict.json"
    if not path.exists():
        return None
    body: Mapping[str, Any] = json.loads(path.read_bytes())
    return body


def _events(run: Path) -> Iterator[dict[str, Any]]:
    """The journal, without lines that a crash tore."""
    for line in (run / "journal.jsonl").read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
