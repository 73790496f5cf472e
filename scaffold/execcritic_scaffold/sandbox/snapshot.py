"""What changed in a directory between two moments, where no overlay keeps it apart (the local sandbox)."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from execcritic_scaffold.files import EXECUTABLE, REGULAR, SYMLINK, File

Stamp = tuple[int, ...]


def snapshot(root: Path) -> dict[str, Stamp]:
    """Every path below `root` that is no directory, with what changes when it is written, replaced or touched."""
    found: dict[str, Stamp] = {}
    for directory, folders, files in os.walk(root):
        links = [name for name in folders if Path(directory, name).is_symlink()]
        for name in files + links:
            path = Path(directory, name)
            info = path.lstat()
            stamp = (info.st_mode, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
            found[str(path.relative_to(root))] = stamp
    return found


def differences(root: Path, before: Mapping[str, Stamp]) -> dict[str, File | None]:
    """Files that were created, changed or removed since `before`, without `.git` and byte code."""
    after = snapshot(root)
    found: dict[str, File | None] = {path: None for path in before if path not in after and not _ignored(path)}
    for path, stamp in after.items():
        if before.get(path) == stamp or _ignored(path):
            continue
        full = root / path
        if stat.S_ISLNK(stamp[0]):
            found[path] = File(os.fsencode(full.readlink()), SYMLINK)
        elif stat.S_ISREG(stamp[0]):
            found[path] = File(full.read_bytes(), EXECUTABLE if stamp[0] & stat.S_IXUSR else REGULAR)
    return found


def _ignored(path: str) -> bool:
    return path.endswith(".pyc") or ".git" in path.split("/")
