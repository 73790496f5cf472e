"""What a container writes, as bytes: the engine's multiplexed attach stream taken apart, capped while it is read.

Without a terminal the engine sends frames of an 8-byte header (stream number, three zeros, big-endian length) and
payload over the attached socket (Engine API, "Attach to a container").
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from execcritic_scaffold.sandbox.capture import Capped

if TYPE_CHECKING:
    from docker.models.containers import Container

STDOUT, STDERR = 1, 2
_HEADER = struct.Struct(">BxxxI")
_CHUNK = 1 << 16
_STDERR_KEPT = 1 << 14


class WithTrailer:
    """A capped stream whose last `size` bytes are told apart from it (what process 1 writes at the very end)."""

    def __init__(self, limit: int, size: int) -> None:
        self.body = Capped(limit)
        self.trailer = b""
        self._size = size

    def add(self, data: bytes) -> None:
        data = self.trailer + data
        end = max(len(data) - self._size, 0)
        self.body.add(data[:end])
        self.trailer = data[end:]


class Attached:
    """The attached socket of a container; made before the container starts, so that nothing is missed."""

    def __init__(self, container: Container, *, stdin: bool = False) -> None:
        wanted = {"stream": 1, "stdout": 1, "stderr": 1, "stdin": int(stdin)}
        self._io: Any = container.attach_socket(params=wanted)
        # The SDK hands out a read-only SocketIO around the socket for some transports, the socket for others.
        self._socket: Any = getattr(self._io, "_sock", self._io)
        self._ahead = b""

    def frames(self, seconds: float) -> Iterator[tuple[int, bytes]]:
        """Stream number and bytes until the container ends. Raises TimeoutError after `seconds` of silence."""
        self._socket.settimeout(seconds)
        while header := self._exactly(_HEADER.size):
            stream, left = _HEADER.unpack(header)
            while left:
                part = self._socket.recv(min(left, _CHUNK))
                if not part:
                    return
                left -= len(part)
                yield stream, part

    def _exactly(self, count: int) -> bytes:
        while len(self._ahead) < count:
            part = self._socket.recv(count - len(self._ahead))
            if not part:
                return b""
            self._ahead += part
        found, self._ahead = self._ahead, b""
        return found

    def send(self, data: bytes, seconds: float) -> None:
        self._socket.settimeout(seconds)
        self._socket.sendall(data)

    def settimeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def close(self) -> None:
        self._io.close()
        self._socket.close()


class StdinFeeder:
    """Sends a command its stdin over a connection of its own and closes that: the end of input for the command.

    Half-closing the output's connection would do for a Unix socket, but TLS has no half-close.
    """

    def __init__(self, container: Container, data: bytes) -> None:
        io: Any = container.attach_socket(params={"stream": 1, "stdin": 1})
        self._io, self._socket, self._data = io, getattr(io, "_sock", io), data
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _feed(self) -> None:
        try:
            self._socket.sendall(self._data)
        except OSError:
            pass  # the command ended without reading all of its input, which is its own affair
        self.close()

    def close(self) -> None:
        self._io.close()
        self._socket.close()


class ContainerChannel:
    """The two-way byte stream to the framed runner in a container (`session.Channel`)."""

    def __init__(self, attached: Attached) -> None:
        self._attached = attached
        self._frames: Iterator[tuple[int, bytes]] | None = None
        self._ready = bytearray()
        self._stderr = Capped(_STDERR_KEPT)

    def send(self, data: bytes, seconds: float) -> None:
        self._attached.send(data, seconds)

    def receive(self, limit: int, seconds: float) -> bytes:
        if self._frames is None:
            self._frames = self._attached.frames(seconds)
        self._attached.settimeout(seconds)
        while not self._ready:
            found = next(self._frames, None)
            if found is None:
                return b""
            stream, data = found
            if stream == STDOUT:
                self._ready += data
            else:
                self._stderr.add(data)
        part = bytes(self._ready[:limit])
        del self._ready[:limit]
        return part

    def stderr(self) -> str:
        """What the runner complained about, for the message that says why it died."""
        return self._stderr.value().decode("utf-8", "replace")

    def close(self) -> None:
        self._attached.close()
