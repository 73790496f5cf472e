"""Wait for a one-shot command: feed its stdin, read its output capped, end it at the time limit."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

DRAIN = 0.2
"""Seconds to go on reading once the command has ended and something else still holds its pipes."""
TICK = 0.1
"""Seconds between two calls of `watch`."""


class Capped:
    """The first and the last half of `limit` bytes of a stream; what lies between is counted in `dropped`."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head, self._tail, self._kept = bytearray(), deque[bytes](), 0
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = max(self._half - len(self._head), 0)
        self._head += data[:room]
        if len(data) > room:
            self._tail.append(data[room:])
            self._kept += len(data) - room
        while self._tail and self._kept - len(self._tail[0]) >= self._half:
            self._kept -= len(self._tail[0])
            self.dropped += len(self._tail.popleft())

    def value(self) -> bytes:
        tail = b"".join(self._tail)
        surplus = max(len(tail) - self._half, 0)
        if surplus:
            self.dropped += surplus
            tail = tail[surplus:]
            self._tail, self._kept = deque([tail]), len(tail)
        return bytes(self._head) + tail


@dataclass(frozen=True)
class Captured:
    """Output of a command and how its wait ended; `seconds` is wall time from the start of the wait."""

    stdout: bytes
    stderr: bytes
    dropped: tuple[int, int]
    timed_out: bool
    seconds: float


def capture(
    process: subprocess.Popen[bytes],
    stdin: bytes,
    seconds: float,
    limit: int,
    kill: Callable[[], None],
    watch: Callable[[], None] | None = None,
) -> Captured:
    """Wait until `process` ends, at most `seconds`, then `kill()`. Its three streams must be pipes; they are closed.

    Never waits for the end of a pipe that a left-over process holds. `watch` is called every TICK seconds.
    """
    assert process.stdin and process.stdout and process.stderr
    started = time.monotonic()
    deadline, timed_out = started + seconds, False
    outputs = {process.stdout.fileno(): Capped(limit), process.stderr.fileno(): Capped(limit)}
    pending = memoryview(stdin)
    ended = os.pidfd_open(process.pid)
    with selectors.DefaultSelector() as selector, process.stdin, process.stdout, process.stderr:
        try:
            selector.register(ended, selectors.EVENT_READ)
            for fd in outputs:
                os.set_blocking(fd, False)
                selector.register(fd, selectors.EVENT_READ)
            os.set_blocking(process.stdin.fileno(), False)
            if pending:
                selector.register(process.stdin, selectors.EVENT_WRITE)
            else:
                process.stdin.close()
            running, open_streams = True, set(outputs)
            while running or (open_streams and time.monotonic() < deadline):
                left = deadline - time.monotonic()
                if running and left <= 0:
                    timed_out, left, deadline = True, DRAIN, time.monotonic() + DRAIN
                    kill()
                    process.wait()
                for key, _ in selector.select(min(left, TICK) if watch and running else left):
                    if key.fd == ended:
                        selector.unregister(ended)
                        running, deadline = False, time.monotonic() + DRAIN
                    elif key.fd in open_streams:
                        if not _take(key.fd, outputs[key.fd]):
                            selector.unregister(key.fd)
                            open_streams.discard(key.fd)
                    else:
                        pending = _feed(process, pending)
                        if not pending:
                            selector.unregister(process.stdin)
                            process.stdin.close()
                if watch and running:
                    watch()
        finally:
            os.close(ended)
    process.wait()
    out, err = outputs.values()
    values = out.value(), err.value()
    return Captured(*values, (out.dropped, err.dropped), timed_out, time.monotonic() - started)


def _take(fd: int, output: Capped) -> bool:
    """Read once; False at the end of the stream."""
    try:
        data = os.read(fd, 1 << 16)
    except BlockingIOError:
        return True
    output.add(data)
    return bool(data)


def _feed(process: subprocess.Popen[bytes], pending: memoryview) -> memoryview:
    assert process.stdin
    try:
        return pending[os.write(process.stdin.fileno(), pending) :]
    except BlockingIOError:
        return pending
    except BrokenPipeError:  # the command does not read its stdin
        return pending[:0]
