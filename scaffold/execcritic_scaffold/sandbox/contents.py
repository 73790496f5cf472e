"""What to start in a bubblewrap sandbox, and which file system can take what it writes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from execcritic_scaffold.files import Changes
from execcritic_scaffold.sandbox import rundir
from execcritic_scaffold.sandbox.etc import UID
from execcritic_scaffold.sandbox.protocol import Limits


@dataclass(frozen=True)
class Contents:
    """What to start in a sandbox, and over what. `writable` are host directories shown read-write at their own path.

    `layout`: "overlay" is a fresh workspace; "base" lets the harness's own command write into Base itself.
    """

    base: Path
    argv: Sequence[str]
    env: Mapping[str, str]
    limits: Limits
    binds: Sequence[str] = ()
    writable: Sequence[str] = ()
    changes: Changes = field(default_factory=dict)
    readonly: frozenset[str] = frozenset()
    cwd: str = "."
    network: bool = False
    audit: bool = False
    layout: str = "overlay"
    counting: bool = True
    """Run the command below a shell that counts what it leaves behind; False: the command is process 1."""


@cache
def owner() -> int | None:
    """The user and group id that commands drop to, which must own what they may edit; None: they run as this user.

    Root can drop only where its user namespace has that id, which a container of a single user has not.
    """
    if os.geteuid() != 0:
        return None
    ranges = (line.split() for line in Path("/proc/self/uid_map").read_text().splitlines())
    mapped = any(int(first) <= UID < int(first) + int(count) for first, _, count in ranges)
    return UID if mapped else None


@cache
def tmpfs_upper(root: bool) -> bool:
    """True when a tmpfs can be the upper layer: for a user it must store user attributes (Linux 6.6)."""
    if root:
        return True
    probe = rundir.make(shared=False)
    try:
        where = Path("/dev/shm", probe.name)
        where.touch()
        try:
            os.setxattr(where, "user.execcritic", b"1")
        finally:
            where.unlink()
    except OSError:
        return False
    finally:
        shutil.rmtree(probe)
    return True
