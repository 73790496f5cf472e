"""Files as values: what a tree holds and how a tree differs from another.

Paths are `str` relative to the root of the tree, `/`-separated, as `os.fsdecode` gives them
(surrogate escapes stand for bytes that are not UTF-8). Contents are bytes. Modes are git's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Mode = Literal["100644", "100755", "120000", "160000"]
REGULAR: Mode = "100644"
EXECUTABLE: Mode = "100755"
SYMLINK: Mode = "120000"
GITLINK: Mode = "160000"


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a stored tree: git mode and blob id (hex SHA-1)."""

    mode: str
    oid: str


@dataclass(frozen=True, slots=True)
class File:
    """One file's bytes. For a symbolic link `data` is the link's target."""

    data: bytes
    mode: str = REGULAR


Changes = Mapping[str, File | None]
"""How a tree differs from Base: path to its new file, or None where the path is deleted."""
