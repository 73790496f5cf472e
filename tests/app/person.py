"""A person at a terminal: the real console script in a real pseudo-terminal, seen through a terminal emulator."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyte

SECONDS = 90
"""Until a test that waits for words in vain fails."""
_SEQUENCE = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|.)")


class Person:
    """Reads and types at the terminal of one command. `stdout`: where its result goes, the terminal if None."""

    def __init__(
        self,
        arguments: Sequence[object],
        environment: Mapping[str, str],
        cwd: Path,
        rows: int = 30,
        columns: int = 100,
        stdout: Path | None = None,
    ) -> None:
        self.master, self.slave = os.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._read = 0
        out = open(stdout, "wb") if stdout else None  # noqa: SIM115
        self.process = subprocess.Popen(
            [str(argument) for argument in arguments],
            env={"TERM": "xterm", **environment},
            cwd=cwd,
            stdin=self.slave,
            stdout=out or self.slave,
            stderr=self.slave,
            preexec_fn=self._own_terminal,
        )
        if out:
            out.close()

    def _own_terminal(self) -> None:
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the window; the program is sent SIGWINCH."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if hasattr(self, "screen"):
            self.screen.resize(rows, columns)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, *words: str) -> str:
        """Wait until each of the words has been written, in this order, after what was waited for before.

        Returns what was written since then, up to the last word.
        """
        start = self._read
        for word in words:
            end = time.monotonic() + SECONDS
            while word not in (new := self.text[self._read :]):
                assert time.monotonic() < end, f"no {word!r} in {self.text[-3000:]!r}"
                assert self._take(0.2) or self.process.poll() is None, f"ended without {word!r}: {self.text[-3000:]!r}"
            self._read += new.index(word) + len(word)
        return self.text[start : self._read]

    def answer(self, prompt: str, text: str) -> None:
        """Wait for a prompt, then type a line."""
        self.until(prompt)
        self.type(text + "\n")

    def end(self) -> int:
        """Wait for the command to end; its exit code."""
        end = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < end, self.text[-3000:]
            self._take(0.1)
        while self._take(0):
            pass
        return self.process.returncode

    @property
    def text(self) -> str:
        """All that was written, without what the terminal obeys."""
        return _SEQUENCE.sub("", self.raw.decode("utf-8", "replace")).replace("\r", "")

    def clean(self) -> bool:
        """Whether the terminal is as it was: echo and line editing by the kernel, a visible cursor, no paste marks."""
        last = self.raw.rfind(b"\x1b[?2004l") >= self.raw.rfind(b"\x1b[?2004h")
        return termios.tcgetattr(self.slave) == self.before and not self.screen.cursor.hidden and last

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def _take(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return False
        data = os.read(self.master, 65536)
        self.raw += data
        self._stream.feed(data)
        return True
