"""Files into and out of containers as tar archives: Base, the harness's own programs, and a patch's changes.

Everything goes in before the container starts, by the engine, so nothing that runs inside can be in the way.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.files import EXECUTABLE, REGULAR, SYMLINK, Changes, File
from execcritic_scaffold.sandbox.overlay import caches, checked_path
from execcritic_scaffold.sandbox.protocol import SUPPORT, WORKDIR, Workspace

if TYPE_CHECKING:
    from docker.models.containers import Container

AGENT = 65534
"""The uid and gid that everything but the harness's own preparation runs under (nobody)."""
HOME = "/home/agent"
MTIME = 946684800
"""One time stamp for all files (2000-01-01): contents alone decide what an image holds."""


class Archive:
    """A tar archive in the making. Names are relative to the container's root; bytes beyond UTF-8 survive."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - both are closed by `put`
        self._tar = tarfile.open(  # noqa: SIM115
            fileobj=self._file, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
        )

    def _info(self, name: str, kind: bytes, mode: int, owner: int) -> tarfile.TarInfo:
        info = tarfile.TarInfo(name.lstrip("/"))
        info.type, info.mode, info.mtime = kind, mode, MTIME
        info.uid = info.gid = owner
        return info

    def directory(self, name: str, mode: int = 0o755, owner: int = AGENT) -> None:
        self._tar.addfile(self._info(name, tarfile.DIRTYPE, mode, owner))

    def file(self, name: str, file: File, owner: int = AGENT, mode: int | None = None) -> None:
        if file.mode == SYMLINK:
            info = self._info(name, tarfile.SYMTYPE, 0o777, owner)
            info.linkname = os.fsdecode(file.data)
            self._tar.addfile(info)
            return
        info = self._info(name, tarfile.REGTYPE, mode or (0o755 if file.mode == EXECUTABLE else 0o644), owner)
        info.size = len(file.data)
        self._tar.addfile(info, io.BytesIO(file.data))

    def data(self) -> bytes:
        """The whole archive, which ends here."""
        self._tar.close()
        with self._file:
            self._file.seek(0)
            return self._file.read()

    def put(self, container: Container) -> None:
        """Unpack into the container at `/`."""
        self._tar.close()
        self._file.seek(0)
        container.put_archive("/", self._file)
        self._file.close()


def support_files() -> dict[str, bytes]:
    """The programs of the package `inject`, by name."""
    folder = resources.files("execcritic_scaffold.inject")
    return {item.name: item.read_bytes() for item in folder.iterdir() if item.is_file()}


def support_digest() -> str:
    """SHA-256 (hex) of the harness's own in-sandbox programs."""
    found = hashlib.sha256()
    for name, data in sorted(support_files().items()):
        found.update(b"%s %d\n" % (name.encode(), len(data)) + data)
    return found.hexdigest()


def put_base(container: Container, source: Path, manifest: str) -> None:
    """Base at the workspace, owned by the agent; the harness's programs, owned by root; the list of Base's files."""
    archive = Archive()
    archive.directory(SUPPORT, owner=0)
    for name, data in sorted(support_files().items()):
        archive.file(f"{SUPPORT}/{name}", File(data), owner=0, mode=0o444)
    archive.directory(WORKDIR)
    archive.directory(HOME)
    names: list[bytes] = []
    for name, file in walk(source):
        if file is None:
            archive.directory(f"{WORKDIR}/{name}")
        else:
            archive.file(f"{WORKDIR}/{name}", file)
            names.append(os.fsencode(name))
    archive.file(manifest, File(b"\0".join(names)), owner=0)
    archive.put(container)


def walk(source: Path) -> Iterator[tuple[str, File | None]]:
    """Files of a tree by relative path; None for a directory. Byte code and `.git` are left out."""
    for folder, folders, files in os.walk(source):
        below = os.path.relpath(folder, source)
        prefix = "" if below == "." else f"{below}/"
        for name in [n for n in folders if (Path(folder) / n).is_symlink()]:
            folders.remove(name)
            files.append(name)
        folders[:] = sorted(n for n in folders if n not in (".git", "__pycache__"))
        for name in folders:
            yield prefix + name, None
        for name in sorted(files):
            path = Path(folder, name)
            if name == ".git" or name.endswith(".pyc"):
                continue
            if path.is_symlink():
                yield prefix + name, File(os.fsencode(path.readlink()), SYMLINK)
            elif path.is_file():
                yield prefix + name, File(path.read_bytes(), EXECUTABLE if os.access(path, os.X_OK) else REGULAR)


DELETED = "/execcritic.deleted"
"""Where process 1 finds the paths it is to remove, in a container whose patch deletes any (`deletes`)."""


def deletes(changes: Changes) -> bool:
    """True where some path of a patch is deleted."""
    return any(file is None for file in changes.values())


def put_changes(container: Container, workspace: Workspace) -> None:
    """Lay a patch over Base and make the read-only paths so; what is to be removed is listed in DELETED.

    A read-only file is root's in sticky directories of root's: the agent may add files beside it, but neither
    write, replace, rename nor remove it, nor move a directory above it out of the way, nor forge its byte code.
    """
    changes = workspace.changes
    present = {path: file for path, file in changes.items() if file is not None}
    for path, file in changes.items():
        checked_path(path)
        if file is not None and file.mode not in (REGULAR, EXECUTABLE, SYMLINK):
            raise UsageError(f"{path} has mode {file.mode}; only files and symbolic links can be laid.")
    frozen = {path: present[path] for path in workspace.readonly if path in present}
    for path in sorted(workspace.readonly - changes.keys()):
        frozen.update(read_tree(container, checked_path(path)))
    for path, file in frozen.items():
        if file.mode == SYMLINK:  # what it points to would still be writable
            raise UsageError(f"{path} is a symbolic link and cannot be made read-only; freeze the file it points to.")
    if not (changes or frozen):
        return
    sticky = _parents(frozen)
    archive = Archive()
    if frozen:
        archive.directory(WORKDIR, 0o1777, owner=0)
    for path in sorted(_parents(present) | sticky):
        if path in sticky:
            archive.directory(f"{WORKDIR}/{path}", 0o1777, owner=0)
        else:
            archive.directory(f"{WORKDIR}/{path}")
    for path, file in sorted(present.items()):
        if path not in frozen:
            archive.file(f"{WORKDIR}/{path}", file)
    for path, file in sorted(frozen.items()):
        archive.file(f"{WORKDIR}/{path}", file, owner=0, mode=0o555 if file.mode == EXECUTABLE else 0o444)
    for folder in caches(frozen):
        archive.directory(f"{WORKDIR}/{folder}", 0o555, owner=0)
        for path, file in read_tree(container, folder).items():
            archive.file(f"{WORKDIR}/{path}", file, owner=0, mode=0o444)
    if deletes(changes):
        removed = _removed(changes, present)
        archive.file(DELETED, File(b"\0".join(os.fsencode(path) for path in removed)), owner=0)
    archive.put(container)


def _removed(changes: Changes, present: Iterable[str]) -> list[str]:
    """Deleted paths that a file or directory of the patch has not replaced already."""
    taken = set(present)
    replaced = taken | _parents(taken)
    return sorted(
        path for path, file in changes.items() if file is None and path not in replaced and not taken & _parents([path])
    )


def _parents(paths: Iterable[str]) -> set[str]:
    """Every directory above the paths, the root left out."""
    return {str(parent) for path in paths for parent in PurePosixPath(path).parents if str(parent) != "."}


def read_tree(container: Container, path: str) -> dict[str, File]:
    """Files at or below a path, empty where there is none. Paths are relative to the workspace, or absolute inside;
    results are named relative to the workspace where they lie in it, else to the root."""
    from docker.errors import NotFound

    where = PurePosixPath(WORKDIR, path)
    try:
        chunks, _ = container.get_archive(os.fsencode(str(where)))  # type: ignore[arg-type]  # need not be UTF-8
    except NotFound:
        return {}
    found: dict[str, File] = {}
    with tempfile.TemporaryFile() as spool:
        for chunk in chunks:
            spool.write(chunk)
        spool.seek(0)
        with tarfile.open(fileobj=spool, encoding="utf-8", errors="surrogateescape") as tar:
            for info in tar:
                name = str(where.parent / info.name).removeprefix(f"{WORKDIR}/").lstrip("/")
                if info.issym():
                    found[name] = File(os.fsencode(info.linkname), SYMLINK)
                elif info.isreg() or info.islnk():
                    data = tar.extractfile(info)
                    assert data is not None
                    found[name] = File(data.read(), EXECUTABLE if info.mode & 0o100 else REGULAR)
    return found
