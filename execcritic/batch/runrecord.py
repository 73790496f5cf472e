"""What can be read of one run directory, in whatever state it was left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Record:
    """`there`: the directory exists. `patch` is what the run submits, empty where there is none; `round0` the patch of
    the first check, None where nothing was checked. `bundle` is the id of the test it froze, `frozen` the folder of
    that test, or of the one it was given."""

    there: bool = False
    verdict: Mapping[str, Any] | None = None
    patch: bytes = field(default=b"", repr=False)
    round0: bytes | None = field(default=None, repr=False)
    bundle: str | None = None
    frozen: Path | None = None


def read(run: Path, notes: list[str]) -> Record:
    """The record; what is damaged is left out and said in `notes`."""
    if not run.is_dir():
        return Record()
    own = run / "test" / "bundle"
    manifest = _object(run / "manifest.json", notes) or {}
    given = (manifest.get("request") or {}).get("bundle")
    frozen = own if own.is_dir() else Path(given) if isinstance(given, str) else None
    verdict = _object(run / "verdict.json", notes)
    named = (_object(frozen / "bundle.json", notes) or {}).get("id") if frozen else None
    return Record(
        True,
        verdict,
        _bytes(run / "fix.patch") or b"",
        _bytes(run / "repair" / "checks" / "1.patch"),
        named if isinstance(named, str) else None,
        frozen,
    )


def _object(path: Path, notes: list[str]) -> dict[str, Any] | None:
    data = _bytes(path)
    if data is None:
        return None
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        notes.append(f"{path} is damaged and was left out.")
        return None
    return body


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
