"""One command in one fresh container: start it, read it, stop it in time, and say how it ended."""

from __future__ import annotations

import math
import secrets
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from execcritic_scaffold.errors import SandboxError
from execcritic_scaffold.sandbox import docker_engine as engine
from execcritic_scaffold.sandbox.capture import Capped
from execcritic_scaffold.sandbox.docker_audit import changed, writes
from execcritic_scaffold.sandbox.docker_container import Factory, directory
from execcritic_scaffold.sandbox.docker_files import DELETED, deletes, put_changes
from execcritic_scaffold.sandbox.docker_stream import STDERR, STDOUT, Attached, StdinFeeder, WithTrailer
from execcritic_scaffold.sandbox.protocol import SUPPORT, Command, Completed, Limits, Workspace

if TYPE_CHECKING:
    from docker.models.containers import Container

INIT = f"{SUPPORT}/container_init.py"
ORPHANED = 30.0
"""Seconds after its limit at which a container whose harness has died ends by itself."""
STALLED = 60.0
"""Seconds after its limit at which a container that the engine does not stop is given up."""
_TRAILER = struct.Struct(">Ii")
_NONCE = 16


@contextmanager
def removed(container: Container) -> Iterator[Container]:
    """The container, removed whatever happens."""
    try:
        yield container
    finally:
        engine.remove(container)


def init(workspace: Workspace, nonce: str, seconds: float) -> list[str]:
    """Command line of process 1 (`inject/container_init.py`), to which the command's own is appended."""
    python = workspace.prepared.interpreter.python
    deleted = DELETED if deletes(workspace.changes) else "-"
    return [python, "-I", "-S", INIT, nonce, str(math.ceil(seconds)), deleted]


def run(
    factory: Factory, workspace: Workspace, command: Command, limits: Limits, *, network: bool, audit: bool
) -> Completed:
    """`Sandbox.run`. With `audit` HOME lies in the container's layer, because the engine's list of changes knows
    no mounts. Raises the SDK's exceptions and SandboxError."""
    prepared = workspace.prepared
    assert prepared.image is not None
    nonce = secrets.token_hex(_NONCE // 2)
    argv = [*init(workspace, nonce, limits.seconds + ORPHANED), *command.argv]
    container = factory.create(
        prepared.image,
        argv,
        limits,
        env=factory.environment(prepared.image, prepared.interpreter, command.env),
        cwd=directory(command),
        network=network,
        stdin=bool(command.stdin),
        home_in_layer=audit,
    )
    with removed(container):
        put_changes(container, workspace)
        before = changed(container) if audit else {}
        ended = attend(container, limits, command.stdin, nonce)
        written = writes(container, workspace, before) if audit else None
    return Completed(**ended, writes=written, unenforced=factory.unenforced)


def attend(container: Container, limits: Limits, stdin: bytes = b"", nonce: str | None = None) -> dict[str, Any]:
    """Start a container and read it to its end; the fields of Completed that can be known then.

    With `nonce` process 1 is ours and its trailer says how the command ended; without, the engine's word is all.
    """
    stdout, stderr = Capped(limits.output), WithTrailer(limits.output, _NONCE + _TRAILER.size if nonce else 0)
    streams: dict[int, Capped | WithTrailer] = {STDOUT: stdout, STDERR: stderr}
    stop = _Deadline(container, limits.seconds)
    attached = Attached(container)
    feeder = StdinFeeder(container, stdin) if stdin else None
    begun = time.monotonic()
    try:
        container.start()
        stop.start()
        if feeder:
            feeder.start()
        for stream, data in attached.frames(limits.seconds + STALLED):
            if stream in streams:
                streams[stream].add(data)
        status = int(container.wait(timeout=STALLED)["StatusCode"])
        seconds = time.monotonic() - begun
    except TimeoutError:
        raise SandboxError(
            f"The Docker engine did not stop a container after {limits.seconds:.0f} s; check the engine."
        ) from None
    finally:
        stop.cancel()
        attached.close()
        if feeder:
            feeder.close()
    container.reload()
    left, code = 0, _exit_code(status)
    if nonce and stderr.trailer.startswith(nonce.encode()) and not stop.passed and fits(stderr.trailer, status):
        left, code = _TRAILER.unpack(stderr.trailer[_NONCE:])
    else:
        stderr.body.add(stderr.trailer)
    return {
        "exit_code": None if stop.passed else code,
        "stdout": stdout.value(),
        "stderr": stderr.body.value(),
        "seconds": seconds,
        "timed_out": stop.passed,
        "out_of_memory": bool(container.attrs["State"].get("OOMKilled")),
        "dropped": (stdout.dropped, stderr.body.dropped),
        "left_behind": left,
    }


class _Deadline:
    """Kills a container through the API when its time is over; stopping a client would leave it running."""

    def __init__(self, container: Container, seconds: float) -> None:
        self.passed = False
        self._container = container
        self._ended = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._kill)
        self._timer.daemon = True

    def start(self) -> None:
        self._timer.start()

    def cancel(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._ended = True

    def _kill(self) -> None:
        from docker.errors import APIError

        with self._lock:
            if self._ended:
                return
            try:
                self._container.kill()
                self.passed = True
            except APIError:
                pass  # it ended by itself in this very moment; a live one is noticed by the reader's own time limit


def fits(trailer: bytes, status: int) -> bool:
    """Whether the trailer says of the command what process 1 then ended with. One that does not is not process 1's:
    whatever runs inside may end its output like that."""
    code: int = _TRAILER.unpack(trailer[_NONCE:])[1]
    return (code if code >= 0 else 128 - code) == status


def _exit_code(code: int) -> int:
    """The engine's 128 + n for a signal as -n."""
    return 128 - code if 128 < code <= 192 else code
