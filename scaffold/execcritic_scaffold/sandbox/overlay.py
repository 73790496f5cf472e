"""The layers of an overlay workspace: changes as a lower layer over Base, and what a command left in the upper one.

Laying changes as a layer of their own costs no copy of Base, replaces a file by a directory (or the reverse) without
a special case, and leaves in the upper layer exactly what the command itself wrote. A deletion is a "whiteout", a
character device 0/0, which any user may create (Linux 5.8); see the kernel's filesystems/overlayfs document.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.files import EXECUTABLE, REGULAR, SYMLINK, Changes, File

_BYTECODE = "__pycache__"


def checked_path(path: str) -> str:
    """`path` when it stays inside a tree and outside any `.git`. Raises UsageError otherwise."""
    if not path or "\0" in path or any(part in ("", ".", "..", ".git") for part in path.split("/")):
        raise UsageError(f"{path!r} is not a path inside the workspace; name files relative to the repository's root.")
    return path


def parents(path: str) -> Iterator[str]:
    """The directories above `path`, innermost first, without the root."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def caches(paths: Iterable[str]) -> list[str]:
    """The directories in which Python looks for byte code of these modules."""
    return sorted({f"{path.rpartition('/')[0]}/{_BYTECODE}".lstrip("/") for path in paths if path.endswith(".py")})


def write_layer(layer: Path, base: Path, changes: Changes, owner: int | None, directories: Iterable[str] = ()) -> None:
    """Write `changes` relative to `base` into the empty directory `layer`, owned by uid and gid `owner` if given.
    `directories` are there too, empty ones where neither has any."""
    present = {path for path, file in changes.items() if file is not None}
    above = {parent for path in present for parent in parents(path)}
    for path, file in changes.items():
        checked_path(path)
        if file is not None:
            if file.mode not in (REGULAR, EXECUTABLE, SYMLINK):
                raise UsageError(f"{path} has mode {file.mode}; only files and symbolic links can be laid.")
            _create(layer / path, file)
    for path in _removed(base, changes, above):
        # Below a new file or a new directory-in-place-of-a-file there is nothing of Base left to hide.
        if path not in present and path not in above and not any(p in present for p in parents(path)):
            (layer / path).parent.mkdir(parents=True, exist_ok=True)
            os.mknod(layer / path, stat.S_IFCHR, os.makedev(0, 0))
    for path in directories:
        try:
            (layer / path).mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(f"{path} must be a directory; leave it out of the changes.") from None
    if owner is not None:
        give_to(layer, owner)


def give_to(directory: Path, owner: int) -> None:
    """Make user and group id `owner` own everything below `directory`, or it could not be edited inside."""
    os.chown(directory, owner, owner)
    for _, names, files, fd in os.fwalk(directory):
        for name in (*names, *files):
            os.chown(name, owner, owner, dir_fd=fd, follow_symlinks=False)


def _create(path: Path, file: File) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.mode == SYMLINK:
        path.symlink_to(os.fsdecode(file.data))
    else:
        path.write_bytes(file.data)
        path.chmod(0o755 if file.mode == EXECUTABLE else 0o644)


def _removed(base: Path, changes: Changes, above: set[str]) -> list[str]:
    """Paths to hide: the deleted files that Base has, and directories that lose their last file, outermost only."""
    removed = {path for path, file in changes.items() if file is None and os.path.lexists(base / path)}
    for directory in sorted({p for path in removed for p in parents(path)}, key=lambda p: -p.count("/")):
        left = {entry.name for entry in (base / directory).iterdir() if entry.name != _BYTECODE}
        if directory not in above and all(f"{directory}/{name}" in removed for name in left):
            removed.add(directory)
    return [path for path in removed if not any(parent in removed for parent in parents(path))]


def written(upper: int, lowers: tuple[Path, ...]) -> Iterator[str]:
    """Paths that a command created, changed or removed, from the open upper directory.

    A directory counts when it is new, or replaced another; one that is only on the way to a change does not.
    """
    for directory, names, files, fd in _walk(upper):
        prefix = directory[2:] + "/" if directory != "." else ""
        for name in files:
            yield prefix + name
        for name in names:
            path = prefix + name
            if _is_opaque(name, fd) or not any((lower / path).is_dir() for lower in lowers):
                yield path


def differences(upper: int, lowers: tuple[Path, ...]) -> dict[str, File | None]:
    """What a command changed, as changes relative to the lower layers; `.git` and byte code are left out."""
    found: dict[str, File | None] = {}
    for directory, names, files, fd in _walk(upper):
        names[:] = [name for name in names if name not in (".git", _BYTECODE)]
        prefix = directory[2:] + "/" if directory != "." else ""
        for name in names:
            if _is_opaque(name, fd):
                found.update(dict.fromkeys(_files_below(lowers, prefix + name)))
        for name in files:
            path = prefix + name
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if name == ".git" or name.endswith(".pyc"):
                continue
            if stat.S_ISLNK(info.st_mode):
                found[path] = File(os.fsencode(os.readlink(name, dir_fd=fd)), SYMLINK)
            elif stat.S_ISREG(info.st_mode):
                with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd), "rb") as data:
                    found[path] = File(data.read(), EXECUTABLE if info.st_mode & stat.S_IXUSR else REGULAR)
            elif stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
                below = _files_below(lowers, path)
                found.update(dict.fromkeys(below) if below else {path: None})
    return found


def _walk(upper: int) -> Iterator[tuple[str, list[str], list[str], int]]:
    """`os.fwalk`, which lists a link to a directory among the directories, with such a link among the files."""
    for directory, names, files, fd in os.fwalk(".", dir_fd=upper, follow_symlinks=False):
        links = [name for name in names if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)]
        names[:] = [name for name in names if name not in links]
        yield directory, names, files + links, fd


def _is_opaque(name: str, parent: int) -> bool:
    """True when the directory hides what lies below it in the lower layers."""
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        for attribute in ("trusted.overlay.opaque", "user.overlay.opaque"):
            try:
                if os.getxattr(fd, attribute) == b"y":
                    return True
            except OSError:
                continue
        return False
    finally:
        os.close(fd)


def _files_below(lowers: tuple[Path, ...], path: str) -> list[str]:
    return [
        str(Path(directory, name).relative_to(lower))
        for lower in lowers
        for directory, _, files in os.walk(lower / path)
        for name in files
        if not name.endswith(".pyc")
    ]
