"""The live view: lines of what was decided, and below them what either agent is doing, redrawn in place.

Built on rich.live and on nothing else of the terminal: it must be left clean whatever ends the run, so the cursor is
never hidden, and a terminal that goes away does not end the run.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO, cast

from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.live import Live as Panel
from rich.text import Text

from execcritic import view
from execcritic.progress import Plain
from execcritic_roles.printable import one_line
from execcritic_scaffold.wording import count

PER_SECOND = 4
"""Redraws."""
WIDEST = 400
"""Characters of a line that are laid out at most; the terminal cuts it to its own width."""


@dataclass
class Row:
    """What is known of one role."""

    turns: int = 0
    """All turns of the episode so far."""
    begun: int = 0
    """Turns before this round."""
    most: int = 0
    """Turns that this round may take."""
    where: str = ""
    does: str = ""
    last: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0

    def add(self, usage: Mapping[str, Any]) -> None:
        """Once a price is unknown the sum stays unknown."""
        self.input_tokens += usage["input_tokens"]
        self.output_tokens += usage["output_tokens"]
        self.cost = None if self.cost is None or usage["cost"] is None else self.cost + usage["cost"]


class Live(Plain):
    """A view for a terminal that can be redrawn."""

    def __init__(self) -> None:
        super().__init__()
        self._console = _Screen(
            file=cast(TextIO, _Stderr()),
            force_terminal=True,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        self._panel: Panel | None = None
        self._rows = {"test": Row(), "repair": Row()}
        self._verdicts: list[str] = []
        self._started = time.monotonic()

    def __enter__(self) -> Live:
        self.go_on()
        return self

    def show(self, kind: str, data: Mapping[str, Any]) -> None:
        with self._lock:
            self._note(kind, data)
        if kind != "turn":
            super().show(kind, data)

    def put(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)

    def pause(self) -> None:
        panel, self._panel = self._panel, None
        if panel is not None:
            panel.stop()

    def go_on(self) -> None:
        # A new one: rich would move up by the height of the old one, which is gone.
        self._panel = Panel(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._panel.start()

    def _note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Keep what the panel tells of an event."""
        test, fix = self._rows["test"], self._rows["repair"]
        row = self._rows.setdefault(data.get("role", "test"), Row())
        match kind:
            case "test.started":
                test.most, test.does = data["turns"], "thinks"
            case "round.started":
                fix.begun, fix.most, fix.does = fix.turns, data["turns"], "thinks"
                fix.where = f"round {data['round']}, "
            case "turn":
                row.turns, row.last, row.does = data["turn"], view.doing(data["message"]), "runs"
                row.add(data["usage"])
            case "action":
                row.does = "thinks"
            case "model.waiting":
                row.does = f"waits {data['seconds']:.0f} s ({data['reason']})"
            case "test.submitted":
                test.does = "is judged"
            case "test.rejected" | "test.qualification":
                test.does = "thinks"
                result = data.get("qualification")
                self._verdicts.append(f"test {data['number']} {result.status if result else 'REJECTED'}")
            case "test.ended":
                test.does = "has ended"
            case "repair.stopped":
                fix.does = "is judged"
            case "check":
                self._verdicts.append(f"check {data['number']} {data['verdict'].decision}")
            case "check.repeated":
                fix.does = "thinks"
            case "repair.ended":
                fix.does = "has ended"

    def _render(self) -> RenderableType:
        # Without our lock: rich calls this inside its own, which `put` takes inside ours. A line that is one event old
        # is redrawn in a moment.
        lines: list[Text] = []
        for role, row in list(self._rows.items()):
            if row.does:
                turn = f"turn {row.turns - row.begun}" + (f" of {row.most}" if row.most else "")
                told = f"  {row.where}{turn}  {row.does}  {_tokens(row)}  {money(row.cost)}"
                lines.append(_line((view.AGENTS.get(role, role), "bold"), (told, "")))
                lines.append(_line(("  " + row.last, "dim")))
        seconds = int(time.monotonic() - self._started)
        clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        lines.append(_line((f"{clock}  {'  '.join(self._verdicts[-6:]) or 'no verdict yet'}", "")))
        return Group(*lines)


def _line(*parts: tuple[str, str]) -> Text:
    """A line that is cut where the terminal ends."""
    line = Text(no_wrap=True, overflow="ellipsis", end="\n")
    for text, style in parts:
        line.append(one_line(text, WIDEST), style)
    return line


def plain_line(text: str) -> Text:
    """A line without a style, cut where the terminal ends."""
    return _line((text, ""))


def _tokens(row: Row) -> str:
    return f"{_short(row.input_tokens)} + {count(row.output_tokens, 'token')}"


def _short(number: int) -> str:
    return str(number) if number < 10_000 else f"{number / 1000:.0f}k" if number < 1_000_000 else f"{number / 1e6:.1f}M"


def money(cost: float | None) -> str:
    """A sum in US dollars, which may be unknown."""
    return "cost unknown" if cost is None else f"${cost:.2f}"


class _Stderr:
    """Standard error, as long as it is there; rich asks for no more than these."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        try:
            return sys.stderr.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            sys.stderr.flush()
        except OSError:
            return

    def fileno(self) -> int:
        return sys.stderr.fileno()

    def isatty(self) -> bool:
        return True


class _Screen(Console):
    """A console as large as the terminal is now, whatever COLUMNS said at the start, with a visible cursor."""

    @property  # type: ignore[misc]  # nobody sets it
    def size(self) -> ConsoleDimensions:
        try:
            width, height = os.get_terminal_size(self.file.fileno())
        except OSError:
            width, height = 0, 0
        return ConsoleDimensions(width or 80, height or 24)

    def show_cursor(self, show: bool = True) -> bool:
        return False
