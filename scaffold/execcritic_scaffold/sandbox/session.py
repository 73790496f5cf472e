"""The host's side of the framed runner (`inject/agent_runner.py`): one Session for every sandbox.

A frame is a 4-byte big-endian length, that many bytes of JSON, then `size` bytes of payload, in both directions.
Everything received was written by a process next to an agent: it is data, bounded and checked, and a stream
that ends, stalls or makes no sense is a SandboxError, never a result.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol

from execcritic_scaffold.errors import SandboxError
from execcritic_scaffold.files import Changes, Entry
from execcritic_scaffold.sandbox.protocol import ActionResult, Spooled

MAX_HEADER = 64 << 20
MAX_PAYLOAD = 1 << 30
GRACE = 30.0
"""Seconds the runner gets beyond an action's own limit to kill the tree and answer."""
FILES_SECONDS = 600.0
"""Seconds for listing, reading and writing files."""
_TEXT, _TEXTS = 500, 100
"""Most characters of a text in an answer, and most texts of one kind."""
_ENTRY = re.compile(rb"(100644|100755|120000|160000) ([0-9a-f]{40}) (.+)", re.DOTALL)


class Channel(Protocol):
    """A two-way byte stream to the runner's stdin and stdout."""

    def send(self, data: bytes, seconds: float) -> None:
        """Send all of `data`. Raises OSError when the peer is gone, TimeoutError after `seconds`."""

    def receive(self, limit: int, seconds: float) -> bytes:
        """Between 1 and `limit` bytes, b"" at the end of the stream. Raises TimeoutError after `seconds`."""

    def close(self) -> None:
        """Close both directions. Idempotent."""


class PipeChannel:
    """A Channel over two pipe ends; it owns them. `watch` is called a few times a second while waiting."""

    def __init__(self, writer: int, reader: int, watch: Callable[[], None] | None = None) -> None:
        self._writer, self._reader, self._watch = writer, reader, watch
        self._open = True
        os.set_blocking(writer, False)

    def send(self, data: bytes, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        view = memoryview(data)
        while view:
            self._wait([], [self._writer], deadline)
            view = view[os.write(self._writer, view) :]

    def receive(self, limit: int, seconds: float) -> bytes:
        self._wait([self._reader], [], time.monotonic() + seconds)
        return os.read(self._reader, min(limit, 1 << 20))

    def _wait(self, readers: list[int], writers: list[int], deadline: float) -> None:
        # poll, not select: a host with many sessions has descriptors above 1023.
        poll = select.poll()
        for fd in readers:
            poll.register(fd, select.POLLIN)
        for fd in writers:
            poll.register(fd, select.POLLOUT)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("no answer in time")
            if poll.poll(min(left, 0.25 if self._watch else left) * 1000):
                return
            if self._watch:
                self._watch()

    def close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._writer)
            os.close(self._reader)


class RunnerSession:
    """A Session (`protocol.py`) over a Channel. `release` ends the sandbox behind it and says why it died, or ""."""

    def __init__(self, channel: Channel, workdir: str, release: Callable[[], str]) -> None:
        self.workdir = workdir
        self._channel, self._release = channel, release
        self._closed = False
        self._dead: str | None = None
        self._listed: tuple[str, dict[str, Entry]] = "", {}
        """The last manifest, with the runner's digest of it: one that is the same is not sent again."""
        self._ending = threading.Lock()
        self._end: str | None = None

    def ping(self) -> None:
        """Return when the runner answers. Raises SandboxError when it does not."""
        self._call({"op": "ping"}, b"", FILES_SECONDS)

    def act(self, script: str, seconds: float, output: int = 1 << 20, spool: int | None = None) -> ActionResult:
        request = {"op": "act", "seconds": seconds, "output": output, "spool": spool}
        header, data = self._call(request, os.fsencode(script), seconds + GRACE)
        try:
            code, kept = header["code"], header["spool"]
            return ActionResult(
                exit_code=None if code is None else int(code),
                output=data,
                seconds=float(header["seconds"]),
                timed_out=bool(header["timed_out"]),
                dropped=int(header["dropped"]),
                spooled=None if kept is None else _spooled(kept),
                left_behind=int(header["left_behind"]),
                left_names=_texts(header["left_names"]),
                running=int(header["running"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self._fail(f"sent an answer without sense ({error!r})") from None

    def manifest(self) -> dict[str, Entry]:
        known, found = self._listed
        header, data = self._call({"op": "manifest", "known": known}, b"", FILES_SECONDS)
        if not known or header.get("digest") != known:
            found = {}
            for record in data.split(b"\0")[:-1]:
                match = _ENTRY.fullmatch(record)
                if match is None:
                    raise self._fail("sent a file list without sense")
                found[os.fsdecode(match[3])] = Entry(match[1].decode(), match[2].decode())
            self._listed = str(header.get("digest", "")), found
        return dict(found)

    def read(self, path: str, limit: int = MAX_PAYLOAD) -> bytes:
        header, data = self._call({"op": "read", "path": path, "limit": limit}, b"", FILES_SECONDS)
        if header.get("large"):
            raise OSError(errno.EFBIG, f"more than {limit} bytes", path)
        if header.get("missing"):
            raise FileNotFoundError(path)
        return data

    def write(self, changes: Changes) -> None:
        listed, payload = [], []
        for path, file in changes.items():
            listed.append([path, None, 0] if file is None else [path, file.mode, len(file.data)])
            if file is not None:
                payload.append(file.data)
        header, _ = self._call({"op": "write", "files": listed}, b"".join(payload), FILES_SECONDS)
        if refused := header.get("refused"):
            raise SandboxError(f"The workspace did not take the files ({refused}); undo what blocks them.")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._channel.close()
        self._released()

    def __enter__(self) -> RunnerSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, header: Mapping[str, Any], payload: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        if self._dead is not None:
            raise SandboxError(self._dead)
        if self._closed:
            raise SandboxError("The sandbox session is closed; open a new one.")
        head = json.dumps({**header, "size": len(payload)}).encode()
        try:
            self._channel.send(len(head).to_bytes(4, "big") + head + payload, seconds)
            deadline = time.monotonic() + seconds
            length = int.from_bytes(self._exactly(4, deadline), "big")
            if length > MAX_HEADER:
                raise self._fail("sent an answer without sense")
            answer = json.loads(self._exactly(length, deadline))
            size = answer.get("size", 0) if isinstance(answer, dict) else -1
            if not isinstance(size, int) or not 0 <= size <= MAX_PAYLOAD:
                raise self._fail("sent an answer without sense or too large a one")
            data = self._exactly(size, deadline)
        except TimeoutError:
            raise self._fail(f"did not answer within {seconds:.0f} s") from None
        except OSError as error:
            raise self._fail(f"is gone ({error})") from None
        except ValueError:
            raise self._fail("sent an answer without sense") from None
        if "error" in answer:
            raise self._fail(f"failed: {str(answer['error'])[:500]}")
        return answer, data

    def _exactly(self, count: int, deadline: float) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._channel.receive(count - len(parts), max(deadline - time.monotonic(), 0.001))
            if not part:
                raise ConnectionResetError("its output ended")
            parts += part
        return bytes(parts)

    def _fail(self, what: str) -> SandboxError:
        """Mark the session as dead: after a lost frame nothing that follows can be trusted to belong together."""
        self._channel.close()
        self._closed = True
        why = self._released().strip()
        self._dead = f"The sandbox's runner {what}{': ' + why.rstrip('.') if why else ''}; start the episode again."
        return SandboxError(self._dead)

    def _released(self) -> str:
        """End the sandbox, once: after an interruption two threads come here, one of which finds the runner dead."""
        with self._ending:
            if self._end is None:
                self._end = self._release()
            return self._end


def _spooled(value: Mapping[str, Any]) -> Spooled:
    return Spooled(str(value["path"])[:_TEXT], int(value["kept"]), int(value["dropped"]), _texts(value["removed"]))


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(str(value)[:_TEXT] for value in values[:_TEXTS])
