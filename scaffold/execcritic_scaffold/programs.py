"""Finding this machine's own programs.

A relative entry of PATH (an empty one too) is looked up in the current directory, which is a stranger's repository:
such entries are passed over, and left out of what our child processes get to see.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def search_path(*more: str) -> str:
    """PATH without its relative entries, and the directories `more` after it."""
    return os.pathsep.join([part for part in os.get_exec_path() if Path(part).is_absolute()] + list(more))


def find(name: str) -> str | None:
    """Absolute path of a program on PATH; None where there is none."""
    return shutil.which(name, path=search_path())
