"""The terminal as it was found, for giving it back: an interrupted question leaves line editing switched on."""

from __future__ import annotations

import os
import termios
from contextlib import suppress
from typing import Any

_INPUT, _ERROR = 0, 2


class Found:
    """The state of the terminal on standard input at the start; of none where that is no terminal."""

    def __init__(self) -> None:
        self._state: list[Any] | None = None
        with suppress(termios.error):
            self._state = termios.tcgetattr(_INPUT)

    def restore(self) -> None:
        """Give it back. Safe in a signal handler, and idempotent; a job in the background leaves it alone."""
        with suppress(termios.error, OSError):
            if self._state is None or os.tcgetpgrp(_INPUT) != os.getpgrp():
                return
            if termios.tcgetattr(_INPUT) != self._state:
                termios.tcsetattr(_INPUT, termios.TCSANOW, self._state)
                if os.isatty(_ERROR):
                    os.write(_ERROR, b"\x1b[?2004l\n")  # readline's marks around what is pasted; its line is not ended
