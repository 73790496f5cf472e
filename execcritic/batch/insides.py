"""The repository inside an image, read out by the engine into a tree of ours.

No container is started for it, and no git runs in what comes out: of the image's git directory only the list of
tracked paths is read, from a copy of its index. History stays behind.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from execcritic_scaffold.errors import EnvironmentFailure
from execcritic_scaffold.files import EXECUTABLE, GITLINK, REGULAR, SYMLINK, Entry
from execcritic_scaffold.ignore import ignored_paths
from execcritic_scaffold.leftovers import is_cache
from execcritic_scaffold.plumbing import Git, GitFailure, create
from execcritic_scaffold.sandbox import docker_engine as engine
from execcritic_scaffold.store import Store

if TYPE_CHECKING:
    from docker import DockerClient

_INDEX = ".git/index"


def digest(image: str) -> str:
    """The id of an image by its content. Raises EnvironmentFailure where the engine has none, and SandboxError."""
    from docker.errors import ImageNotFound, NullResource

    client = engine.connect()
    try:
        with engine.engine_errors(f"looking at image {image}"):
            try:
                return str(client.images.get(image).id)
            except (ImageNotFound, NullResource):
                raise EnvironmentFailure(f"The engine has no image {image}; run `docker pull {image}`.") from None
    finally:
        client.close()


def tree_of(image: str, workdir: str, store: Store) -> str:
    """The tree of what the repository in an image tracks, or has and does not ignore. Submodules' files are in it.

    Raises EnvironmentFailure where `workdir` is not there or holds no files, and SandboxError.
    """
    client = engine.connect()
    try:
        with engine.engine_errors(f"reading {workdir} of image {image}"), _archive(client, image, workdir) as tar:
            return _tree(tar, store, f"{workdir} of image {image}")
    finally:
        client.close()


def _archive(client: DockerClient, image: str, workdir: str) -> tarfile.TarFile:
    """The folder as an archive. It is kept in an unnamed file: hard links need it to be read out of order."""
    from docker.errors import NotFound

    container: Any = client.containers.create(image, ["-"], labels=engine.labels("prepare"), network_mode="none")
    spool: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the archive
    try:
        chunks, _ = container.get_archive(workdir)
        for chunk in chunks:
            spool.write(chunk)
    except NotFound:
        raise EnvironmentFailure(f"Image {image} has no {workdir}; name an image with the repository there.") from None
    finally:
        engine.remove(container)
    spool.seek(0)
    return tarfile.open(fileobj=spool, encoding="utf-8", errors="surrogateescape")


def _tree(tar: tarfile.TarFile, store: Store, where: str) -> str:
    modes: dict[str, str] = {}
    index = b""

    def contents() -> Iterator[bytes]:
        nonlocal index
        for info in tar:
            path = str(PurePosixPath(*PurePosixPath(info.name).parts[1:]))  # without the folder's own name
            if path == _INDEX and info.isreg():
                index = _data(tar, info)
            if not _is_kept(path):
                continue
            if info.issym():
                modes[path] = SYMLINK
                yield os.fsencode(info.linkname)
            elif info.isreg() or info.islnk():
                modes[path] = EXECUTABLE if info.mode & 0o100 else REGULAR
                yield _data(tar, info)

    oids = store.write_blobs(contents())
    entries = {path: Entry(mode, oid) for (path, mode), oid in zip(modes.items(), oids, strict=True)}
    if not entries:
        raise EnvironmentFailure(f"{where} holds no files; name an image with the repository there.")
    everything = store.write_tree(entries)
    left_out = set(filter(is_cache, entries)) | ignored_paths(store, everything, entries)
    left_out -= _tracked(index)
    return store.write_tree({path: entry for path, entry in entries.items() if path not in left_out})


def _data(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(info)
    assert file is not None
    return file.read()


def _is_kept(path: str) -> bool:
    """Neither git's own nor byte code. git takes some other spellings for its own directory too."""
    return ".git" not in path.lower().split("/") and not path.endswith(".pyc")


def _tracked(index: bytes) -> set[str]:
    """The paths that an index lists; none where git cannot read it."""
    with tempfile.TemporaryDirectory(prefix="execcritic-index-") as folder:
        copy = Path(folder, "index")
        copy.write_bytes(index)
        create(Path(folder, "git"))
        try:
            listing = (
                Git(Path(folder, "git"), index=copy).run("ls-files", "-z", "--cached", "--stage") if index else b""
            )
        except GitFailure:
            return set()
    records = [record.partition(b"\t") for record in listing.split(b"\0")[:-1]]
    return {os.fsdecode(path) for head, _, path in records if not head.startswith(GITLINK.encode())}
