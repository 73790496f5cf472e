"""How the progress of a batch is shown: one line a run, a table that is redrawn in place, or JSON lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType

from execcritic import output
from execcritic.live import WIDEST, Live, money, plain_line
from execcritic.progress import Mode, Plain, Progress
from execcritic_roles.printable import one_line

SHOWN = 12
"""Runs at work that the table names."""


def line(kind: str, data: Mapping[str, Any]) -> str | None:
    """An event in one line, printable and cut; None for one that needs none."""
    said = _said(kind, data)
    return None if said is None else one_line(said, WIDEST)


def _said(kind: str, data: Mapping[str, Any]) -> str | None:
    match kind:
        case "warning":
            return str(data["text"])
        case "image.waiting":
            return f"{data['image']}  waits {data['seconds']:.0f} s ({data['reason']})"
        case "image.pulling":
            return f"{data['image']}  {data['done'] >> 20} of {data['total'] >> 20} MB" if _tenth(data) else None
        case "oracle":
            found = "is frozen" if data["frozen"] else "is refused, so Round 0 is kept"
            return (
                f"{data['instance']}  the official test {found if not data['reason'] else 'failed: ' + data['reason']}"
            )
        case "batch.started":
            ended = sum(data["endings"].values())
            return f"{data['out']}: {data['todo']} of {data['runs']} runs to do, {ended} have ended before"
        case "instance.started":
            again = f", attempt {data['attempt']}" if data["attempt"] > 1 else ""
            return f"{_name(data)}  started{again}"
        case "instance.ended":
            status = f" {data['status']}" if data["status"] else ""
            why = f"  {data['reason']}" if data["reason"] else ""
            so_far = f"{data['seconds']:.0f} s  [{_so_far(data)}]"
            return f"{_name(data)}  {data['ending']}{status}  {so_far}{why}"
    return None


def _tenth(data: Mapping[str, Any]) -> bool:
    """A pull is told of at every tenth of what is known of it: events come at each percent."""
    return int(100 * data["done"] // data["total"]) % 10 == 0


def shown(mode: Mode) -> Progress:
    """The view of a settled mode."""
    return {Mode.LIVE: Table, Mode.JSONL: Lines, Mode.QUIET: Progress}.get(mode, Log)()


def _name(data: Mapping[str, Any]) -> str:
    return f"{data['instance']}#{data['repeat']}" if data["repeat"] else str(data["instance"])


def _so_far(data: Mapping[str, Any]) -> str:
    ended = sum(data["endings"].values())
    return f"{ended}/{data['runs']}, {data['resolved']} resolved, {money(data['spent'])}"


class Log(Plain):
    """One line a step."""

    def told(self, kind: str, data: Mapping[str, Any]) -> str | None:
        return line(kind, data)


class Lines(Progress):
    """One JSON object a line."""

    def show(self, kind: str, data: Mapping[str, Any]) -> None:
        output.write(sys.stderr, output.event(kind, **data))


class Table(Live):
    """A table for a terminal that can be redrawn; above it a line for each run that has ended."""

    def __init__(self) -> None:
        super().__init__()
        self._at_work: dict[str, float] = {}
        self._last: Mapping[str, Any] = {}
        self._done = 0

    def told(self, kind: str, data: Mapping[str, Any]) -> str | None:
        return None if kind == "instance.started" else line(kind, data)

    def _note(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "instance.started":
            self._at_work[_name(data)] = time.monotonic()
        elif kind == "instance.ended":
            self._at_work.pop(_name(data), None)
            self._done += 1
        if "endings" in data:
            self._last = data

    def _render(self) -> RenderableType:
        from rich.table import Table as Grid
        from rich.text import Text

        now = time.monotonic()
        grid = Grid.grid(padding=(0, 2))
        for name, started in sorted(self._at_work.items(), key=lambda item: item[1])[:SHOWN]:
            grid.add_row(Text(f"  {name}", no_wrap=True, overflow="ellipsis"), Text(_clock(now - started)))
        more = len(self._at_work) - SHOWN
        lines: list[RenderableType] = [grid, *([plain_line(f"  and {more} more")] if more > 0 else [])]
        if self._last:
            endings = "  ".join(f"{name} {number}" for name, number in self._last["endings"].items() if number)
            lines.append(plain_line(f"{_clock(now - self._started)}  {_so_far(self._last)}  {endings}{self._eta(now)}"))
        return Group(*lines)

    def _eta(self, now: float) -> str:
        """When it will have ended, at the pace of this start."""
        left = int(self._last["runs"]) - sum(self._last["endings"].values())
        if not self._done or left <= 0:
            return ""
        return f"  about {_clock((now - self._started) / self._done * left)} left"


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
