"""Run directories as the program leaves them, without running it; the end-to-end test holds them against real ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def reply(text: str, **more: Any) -> dict[str, Any]:
    return {"event": "reply", "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **more}


def said(role: str, text: str) -> dict[str, Any]:
    return {"event": "message", "message": {"role": role, "content": text}}


def stop(kind: str, reason: str = "") -> dict[str, Any]:
    return {"event": "stop", "kind": kind, "reason": reason, "usage": {}}


def write_run(
    folder: Path,
    *events: Mapping[str, Any],
    role: str = "test",
    gate: Mapping[str, Any] | None = None,
    codes: Sequence[str] = (),
    test_patch: bytes | None = None,
    result: Mapping[str, Any] | None = None,
    fix: bytes = b"",
) -> Path:
    """One run. `events` are the trajectory's after its start; `codes` the qualifications'; `gate` how a Test episode
    ended; `test_patch` that of the frozen test, where there is one."""
    (folder / role).mkdir(parents=True)
    start = {"event": "start", "role_name": role, "model": "m", "limits": {}, "tools": [{"type": "function"}]}
    write_lines(folder / role / "trajectory.jsonl", [start, *events])
    journal: list[Mapping[str, Any]] = [{"event": "run.started"}]
    journal += [{"event": "test.qualification", "qualification": {"status": "x", "code": code}} for code in codes]
    if gate is not None:
        journal.append({"event": "test.ended", "gate": gate})
    write_lines(folder / "journal.jsonl", journal)
    if test_patch is not None:
        (folder / "test" / "bundle").mkdir()
        (folder / "test" / "bundle" / "test.patch").write_bytes(test_patch)
    if result is not None:
        (folder / "verdict.json").write_text(json.dumps(result))
    if fix:
        (folder / "fix.patch").write_bytes(fix)
    return folder


def write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
