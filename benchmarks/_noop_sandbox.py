"""A sandbox whose sessions do nothing: what is left of an episode's time is the program's own.

What asks for the interpreter's facts (once for each environment) runs as in the local sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from execcritic_scaffold.files import Changes, Entry
from execcritic_scaffold.inject.workspace_files import Workspace as Tree
from execcritic_scaffold.sandbox.local import Local
from execcritic_scaffold.sandbox.protocol import WORKDIR, ActionResult, Limits, Session, Workspace


class NoSession:
    """A workspace that stays as it is."""

    workdir = WORKDIR

    def __init__(self, listed: Mapping[str, Entry]) -> None:
        self._listed = listed

    def act(self, script: str, seconds: float, output: int = 1 << 20, spool: int | None = None) -> ActionResult:
        return ActionResult(0, b"", 0.0)

    def manifest(self) -> dict[str, Entry]:
        return dict(self._listed)

    def read(self, path: str, limit: int = 1 << 30) -> bytes:
        raise FileNotFoundError(path)

    def write(self, changes: Changes) -> None:
        pass

    def close(self) -> None:
        pass

    def __enter__(self) -> NoSession:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class NoSandbox(Local):
    """`Sandbox`."""

    name = "noop"

    def open(self, workspace: Workspace, limits: Limits, *, network: bool = False) -> Session:  # type: ignore[override]
        listed = {}
        for record in Tree(str(workspace.prepared.directory)).manifest().split(b"\0")[:-1]:
            mode, oid, path = record.split(b" ", 2)
            listed[os.fsdecode(path)] = Entry(mode.decode(), oid.decode())
        return NoSession(listed)
