"""Room on the disks that a run writes to: its folder, the cache of Bases and environments, temporary files."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from execcritic import places


def scarce(folder: Path, megabytes: int) -> str | None:
    """One sentence where a disk has less room than this; None where all have it."""
    for path in (folder, places.cache(), Path(tempfile.gettempdir())):
        there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
        free = shutil.disk_usage(there).free >> 20
        if free < megabytes:
            return f"{there} has {free} MB free, less than batch.free_mb={megabytes}; free some space and start again."
    return None
