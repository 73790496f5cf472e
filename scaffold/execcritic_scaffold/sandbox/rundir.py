"""Short-lived directories of one run, and the removal of those that a killed process of ours left behind."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def make(*, shared: bool) -> Path:
    """A new directory that no other run uses; `shared`: other user ids may pass through it (not list it)."""
    path = Path(tempfile.mkdtemp(prefix=f"{prefix()}{os.getpid()}-", dir=_parent()))
    if shared:
        path.chmod(0o711)
    return path


def remove(path: Path) -> None:
    """Remove a run's directory, whatever modes the command gave to what is inside. Others may be removing it too;
    nothing outside it is ever touched."""

    def force(function: Callable[..., Any], name: str, error: Any) -> None:
        target = Path(name)
        if not os.path.lexists(target):
            return
        for place in (target.parent, target):
            if (place == path or path in place.parents) and place.is_dir() and not place.is_symlink():
                place.chmod(0o700)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target, onerror=_unless_gone)
        else:
            target.unlink(missing_ok=True)

    shutil.rmtree(path, onerror=force)


def _unless_gone(function: Callable[..., Any], name: str, error: Any) -> None:
    if os.path.lexists(name):
        raise error[1]


def sweep() -> None:
    """Remove directories of ours whose process is gone."""
    for path in Path(_parent()).glob(f"{prefix()}*"):
        try:
            if abandoned(path) and path.lstat().st_uid == os.geteuid():
                remove(path)
        except OSError:
            continue  # another process sweeps the same directory


def abandoned(path: Path) -> bool:
    """True when `path` is named after a process that is gone."""
    pid = path.name.removeprefix(prefix()).partition("-")[0]
    return pid.isdigit() and not Path("/proc", pid).exists()


def prefix() -> str:
    """Process ids mean something only inside one pid namespace, so its id is part of the name."""
    try:
        return f"execcritic-{Path('/proc/self/ns/pid').stat().st_ino}-"
    except OSError:
        return "execcritic-0-"


def _parent() -> str:
    """A temporary directory that every user can pass through: TMPDIR may lie in a private home."""
    chosen = Path(tempfile.gettempdir()).resolve()
    if all(part.stat().st_mode & stat.S_IXOTH for part in (chosen, *chosen.parents)):
        return str(chosen)
    return "/tmp"
