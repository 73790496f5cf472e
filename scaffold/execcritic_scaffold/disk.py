"""Reading files below a folder, never through a symbolic link and never anything but a file."""

from __future__ import annotations

import errno
import os
import stat
from functools import cache
from pathlib import Path

from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.files import EXECUTABLE, REGULAR, SYMLINK, File


class Disk:
    """The files below `root` as they lie on disk. Paths are relative, as in `files`."""

    def __init__(self, root: Path) -> None:
        self.root = os.fspath(root)
        self._real = cache(self._is_real_folder)

    def file(self, path: str) -> File | None:
        """Bytes and git mode; None where there is no file or link: nothing, a folder, a special file, or a path
        that leads through a symbolic link (git too takes such a path for deleted).

        Raises UsageError for a file that may not be read.
        """
        if not self._real(path.rpartition("/")[0]):
            return None
        full = f"{self.root}/{path}"
        try:
            status = os.lstat(full)
            if stat.S_ISLNK(status.st_mode):
                return File(os.fsencode(os.readlink(full)), SYMLINK)  # noqa: PTH115
            if not stat.S_ISREG(status.st_mode):
                return None
            # The second look, at the open file, is the one that counts: nothing can be put in its place any more.
            descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as source:
                mode = os.fstat(descriptor).st_mode
                if not stat.S_ISREG(mode):
                    return None
                return File(source.read(), EXECUTABLE if mode & stat.S_IXUSR else REGULAR)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise UsageError(f"{full} cannot be read ({error.strerror}); make it readable or remove it.") from None

    def special(self, folder: str) -> list[str]:
        """Sockets, pipes and devices directly in a folder (`""` is the root), as paths."""
        prefix = f"{folder}/" if folder else ""
        try:
            with os.scandir(f"{self.root}/{folder}") as entries:
                return sorted(prefix + e.name for e in entries if _is_special(e))
        except OSError:
            return []

    def _is_real_folder(self, folder: str) -> bool:
        if not folder:
            return True
        if not self._real(folder.rpartition("/")[0]):
            return False
        try:
            return stat.S_ISDIR(os.lstat(f"{self.root}/{folder}").st_mode)
        except OSError:
            return False


def _is_special(entry: os.DirEntry[str]) -> bool:
    return not (entry.is_symlink() or entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False))
