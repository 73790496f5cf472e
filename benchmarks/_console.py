"""The console script as users and CI run it: a subprocess whose answer is one JSON object."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = Path(sys.executable).parent / "execcritic"
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Answer:
    """`body` is what stood on stdout; `orphans` are processes that outlived the command."""

    code: int
    body: dict[str, Any]
    stderr: str
    seconds: float
    orphans: tuple[int, ...]

    @property
    def status(self) -> str:
        """QUALIFIED, PASS, FAIL, …"""
        return str(self.body.get("verdict") or self.body.get("status"))


def execcritic(
    *argv: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, limit: float = 600.0
) -> Answer:
    """Run `execcritic … --json`. Raises subprocess.TimeoutExpired after `limit` seconds, and AssertionError with
    what was printed where stdout is not one JSON object."""
    before = _children()
    # What a command leaves behind becomes our child and so can be seen; what others leave later is none of ours.
    reaper = ctypes.CDLL(None).prctl
    reaper(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.monotonic()
    try:
        done = subprocess.run(
            [str(SCRIPT), *map(str, argv), "--json"], env={**os.environ, **(env or {})}, cwd=cwd,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=limit,
        )  # fmt: skip
        seconds = time.monotonic() - started
        orphans = tuple(_children() - before)
    finally:
        reaper(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    stderr = done.stderr.decode(errors="replace")
    try:
        body = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"exit {done.returncode}, no JSON: {done.stdout[-500:]!r}\n{stderr[-3000:]}") from None
    return Answer(done.returncode, body, stderr, seconds, orphans)


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    """A file of node ids, one a line; returns its path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _children() -> frozenset[int]:
    """Our child processes that still run (a zombie that waits to be reaped does not)."""
    listed = (int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split())
    return frozenset(pid for pid in listed if not _is_zombie(pid))


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
