"""How the progress of a run is shown on stderr, and which way fits the place where it is shown."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from execcritic.request import Request


class Mode(StrEnum):
    """The values of `--progress`."""

    AUTO = "auto"
    """LIVE at a terminal that can do it, where no role is played by a person; else PLAIN."""
    LIVE = "live"
    PLAIN = "plain"
    JSONL = "jsonl"
    QUIET = "quiet"


class Progress:
    """Shows the events of a run. This one shows none; `show` is called from several threads."""

    def show(self, kind: str, data: Mapping[str, Any]) -> None:
        """Show one event: its name and its data, as the loop emits them."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Write nothing for the time of a `with` block, in which a person is asked; what comes is shown later."""
        yield

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Plain(Progress):
    """One line a step."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holding = False
        self._over = False
        self._waiting: list[str] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._over = True  # an interrupted episode may still be at work, and a question be answered
            self.pause()

    def show(self, kind: str, data: Mapping[str, Any]) -> None:
        line = self.told(kind, data)
        with self._lock:
            if line and self._holding:
                self._waiting.append(line)
            elif line and not self._over:
                self.put(line)

    def told(self, kind: str, data: Mapping[str, Any]) -> str | None:
        """An event in a line; None for one that needs none."""
        from execcritic import view

        return view.line(kind, data)

    def put(self, line: str) -> None:
        """Write a line that fits now."""
        from execcritic import output

        output.say(line)

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._lock:
            self._holding = True
            self.pause()
        try:
            yield
        finally:
            with self._lock:
                self._holding = False
                if not self._over:
                    self.go_on()
                    for line in self._waiting:
                        self.put(line)
                self._waiting = []

    def pause(self) -> None:
        """Leave the terminal to somebody else."""

    def go_on(self) -> None:
        """Take the terminal again."""


class JsonLines(Progress):
    """One JSON object a line (docs/progress.md)."""

    def show(self, kind: str, data: Mapping[str, Any]) -> None:
        from execcritic import events, output

        fields = events.fields(kind, data)
        if fields is not None:
            output.write(sys.stderr, output.event(kind, **fields))


def settle(mode: Mode, request: Request) -> Mode:
    """The way of showing that was asked for, or, for AUTO, the best one here.

    Raises UsageError where the request needs a person and there is no terminal, or no way to show them anything.
    """
    from execcritic_scaffold.errors import UsageError

    asks = [option for option, on in (("--confirm", request.confirm), ("--review-test", request.review)) if on]
    if asks and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"{asks[0]} asks a person, and standard input and error are no terminal; start it in one, or say "
            f"--no-{asks[0].removeprefix('--')}."
        )
    human = "human" in (request.models.get(role) for role in request.roles)
    if mode is Mode.JSONL and (asks or human):
        what = asks[0] if asks else "The model human"
        raise UsageError(f"{what} asks a person, who cannot be asked in JSON lines; choose another --progress.")
    return capable(mode, person=human)


def capable(mode: Mode, person: bool = False) -> Mode:
    """The way of showing that was asked for, or, for AUTO, the best one here. Raises UsageError where standard error
    cannot do it. `person`: somebody plays a role at the terminal."""
    from execcritic_scaffold.errors import UsageError

    able = sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    if mode is Mode.LIVE and not able:
        raise UsageError("Standard error is no terminal that can be redrawn; choose --progress plain or auto.")
    if mode is Mode.AUTO:
        unicode = sys.stderr.encoding.lower() in ("utf-8", "utf8")
        return Mode.LIVE if able and unicode and not person else Mode.PLAIN
    return mode


def shown(mode: Mode) -> Progress:
    """The progress view of a settled mode."""
    if mode is Mode.LIVE:
        from execcritic.live import Live

        return Live()
    return {Mode.JSONL: JsonLines, Mode.QUIET: Progress}.get(mode, Plain)()
