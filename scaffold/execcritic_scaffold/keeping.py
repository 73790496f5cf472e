"""The newest patch, kept while an agent works: a sandbox that dies takes at most the action in progress with it.

After each action the workspace is listed; only where the list differs from the one before is the patch taken. A listing
opens no file that is known and sends nothing that is the same. In a workspace so large that even that is slow, actions
that follow quickly are passed over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from execcritic_scaffold.files import Changes, Entry
from execcritic_scaffold.sandbox.protocol import ActionResult, Session

FREE = 0.25
"""Seconds that may be spent after every action."""
SHARE = 0.1
"""Above that: the most of an episode's time that may be spent."""


class KeepingSession:
    """A `Session` that calls `keep` when an action has changed the workspace."""

    def __init__(self, session: Session, keep: Callable[[], None]) -> None:
        self._session, self._keep = session, keep
        self._seen: dict[str, Entry] = {}
        self._ended, self._cost = 0.0, 0.0
        self.workdir = session.workdir

    def act(self, script: str, seconds: float, output: int = 1 << 20, spool: int | None = None) -> ActionResult:
        result = self._session.act(script, seconds, output, spool)
        started = time.monotonic()
        if self._cost <= FREE or self._cost <= SHARE * (started - self._ended):
            found = self._session.manifest()
            if found != self._seen:
                self._keep()
            self._seen = found
            self._ended = time.monotonic()
            self._cost = self._ended - started
        return result

    def manifest(self) -> dict[str, Entry]:
        return self._session.manifest()

    def read(self, path: str, limit: int = 1 << 30) -> bytes:
        return self._session.read(path, limit)

    def write(self, changes: Changes) -> None:
        self._session.write(changes)

    def close(self) -> None:
        self._session.close()

    def __enter__(self) -> KeepingSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
