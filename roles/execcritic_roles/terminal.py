"""The one terminal at which a person is shown things and asked, by whoever has the floor.

Two episodes go on side by side and share it, so that a question with all that belongs to it holds the floor until it
is answered. What is shown is made printable here; nothing that a model wrote can command the terminal.
"""

from __future__ import annotations

import io
import os
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TextIO

from execcritic_roles.printable import printable
from execcritic_scaffold.stoppable import Background

_AROUND = 6
"""Rows of the screen that a page leaves for what stands around it."""


class Terminal:
    """A person's input and what they see. `still` keeps others from writing while somebody has the floor."""

    def __init__(
        self, source: TextIO, sink: TextIO, still: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._source, self._sink, self._still = source, sink, still
        self._lock = threading.Lock()
        self.interactive = source.isatty() and sink.isatty()
        if isinstance(source, io.TextIOWrapper):
            source.reconfigure(errors="backslashreplace")  # a typing error is no crash

    @contextmanager
    def floor(self) -> Iterator[None]:
        """For the time of a `with` block nobody else asks, shows or reports anything. Not to be nested."""
        with self._lock, self._still():
            yield

    def show(self, text: str) -> None:
        """Write a text and a line end. Where nobody can read it there is nobody to tell."""
        with suppress(OSError):
            self._sink.write(printable(text) + "\n")
            self._sink.flush()

    def line(self, prompt: str, *, answer: bool = False) -> str:
        """One line of the person's, with line editing and history where they sit at a terminal. Raises EOFError.

        `answer`: it answers a question, so what was typed before the question came does not count, and it is no
        command to come back to.
        """
        if answer and self.interactive:
            termios.tcflush(self._source.fileno(), termios.TCIFLUSH)
        if threading.current_thread() is threading.main_thread():
            # While readline waits, a signal may go unnoticed in the main thread until the next key.
            return Background(lambda: self._read(prompt, answer), "person").result()
        return self._read(prompt, answer)

    def _read(self, prompt: str, answer: bool) -> str:
        if self.interactive and self._source is sys.stdin and sys.stdout.isatty():
            import readline

            readline.set_auto_history(not answer)
            return input(prompt)
        self._sink.write(prompt)
        self._sink.flush()
        line = self._source.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    def lines(self, prompt: str) -> str:
        """Lines up to one that holds a single dot. Raises EOFError."""
        found = []
        while (line := self.line(prompt)) != ".":
            found.append(line)
        return "\n".join(found)

    def page(self, text: str) -> None:
        """Show a text, a screenful at a time."""
        rows, most = self._rows(text)
        shown = 0
        while shown < len(rows):
            self.show("\n".join(rows[shown : shown + most]))
            shown += most
            if shown < len(rows) and self._enough(shown, len(rows)):
                return

    def excerpt(self, text: str) -> None:
        """Show what of a text fits on the screen, its beginning and end, and say how much does not."""
        rows, most = self._rows(text)
        if len(rows) > most:
            head, tail = rows[: most * 2 // 3], rows[len(rows) - most // 3 :]
            rows = [*head, f"[... {len(rows) - len(head) - len(tail)} of {len(rows)} rows not shown ...]", *tail]
        self.show("\n".join(rows))

    def _rows(self, text: str) -> tuple[list[str], int]:
        """The rows that a text takes on the screen, and how many of them fit."""
        lines = printable(text).split("\n")
        if not self.interactive:
            return lines, len(lines)
        try:
            width, height = os.get_terminal_size(self._sink.fileno())
        except OSError:
            width, height = 0, 0
        width, height = width or 80, height or 24
        wrapped = [line[start : start + width] for line in lines for start in range(0, len(line) or 1, width)]
        return wrapped, max(5, height - _AROUND)

    def _enough(self, shown: int, total: int) -> bool:
        try:
            return self.line(f"-- {shown} of {total} rows; Enter: more, q: enough -- ").strip().lower() == "q"
        except EOFError:
            return True
