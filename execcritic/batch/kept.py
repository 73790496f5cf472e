"""What was fetched or made for data sets and is kept: below the program's cache, each entry whole or not at all."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

from execcritic import places

FOLDER = "sources"


def root() -> Path:
    """Where it all lies; safe to delete."""
    return places.cache() / FOLDER


def once(directory: Path, make: Callable[[Path], None]) -> Path:
    """`directory`, made by `make` unless it is complete; several processes may ask at once.

    It is made in place, because virtual environments cannot be moved; the marker beside it says that it is whole. What
    `make` raises is passed on, and the next one tries again.
    """
    done = directory.with_name(f"{directory.name}.ok")
    if not done.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with directory.with_name(f"{directory.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(directory, ignore_errors=True)
                make(directory)
                done.touch()
    return directory
