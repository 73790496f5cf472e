"""Two episodes side by side that an interruption can end without losing the patch in the workspace.

`StoppableSession` is what an agent gets instead of the session itself: actions and extraction exclude each other,
and after `stop` every further action of the agent raises `Interrupted`. `Background` runs one episode in a daemon
thread, so that a model call that hangs cannot keep the program alive after Ctrl-C.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Generic, TypeVar

from execcritic_scaffold.errors import Interrupted
from execcritic_scaffold.files import Changes, Entry
from execcritic_scaffold.sandbox.protocol import ActionResult, Session

T = TypeVar("T")

POLL = 0.2
"""Seconds between two looks at a waiting episode; Python delivers signals to the main thread in between."""


class StoppableSession:
    """A `Session` that can be taken away from the agent that works in it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._busy = threading.RLock()
        self._stopped = threading.Event()
        self.workdir = session.workdir

    def stop(self) -> None:
        """Refuse every further use by the agent; what runs now may end."""
        self._stopped.set()

    @contextmanager
    def taken(self, seconds: float) -> Iterator[Session | None]:
        """The session itself, for the harness, once the action in progress has ended; None if it did not in time."""
        if not self._busy.acquire(timeout=seconds):
            yield None
            return
        try:
            yield self._session
        finally:
            self._busy.release()

    @contextmanager
    def _use(self) -> Iterator[Session]:
        if self._stopped.is_set():
            raise Interrupted("The episode was interrupted; go on with `--resume`.")
        with self._busy:
            yield self._session

    def act(self, script: str, seconds: float, output: int = 1 << 20, spool: int | None = None) -> ActionResult:
        with self._use() as session:
            return session.act(script, seconds, output, spool)

    def manifest(self) -> dict[str, Entry]:
        with self._use() as session:
            return session.manifest()

    def read(self, path: str, limit: int = 1 << 30) -> bytes:
        with self._use() as session:
            return session.read(path, limit)

    def write(self, changes: Changes) -> None:
        with self._use() as session:
            session.write(changes)

    def close(self) -> None:
        self._session.close()

    def __enter__(self) -> StoppableSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Background(Generic[T]):
    """A function running in a daemon thread; `result` re-raises what it raised."""

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._function = function
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value.append(self._function())
        except BaseException as error:  # re-raised in the thread that asks for the result
            self._error = error

    def done(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> T:
        """Wait for the function and return its value. Signals are served while the main thread waits here."""
        while self._thread.is_alive():
            self._thread.join(POLL)
        if self._error is not None:
            raise self._error
        return self._value[0]
