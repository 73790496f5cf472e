"""What is laid in each new sandbox of a service, and kept here: Base over an image, environments, a patch."""

from __future__ import annotations

import io
import json
import os
import tarfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from execcritic_scaffold.errors import SandboxError, UsageError
from execcritic_scaffold.files import EXECUTABLE, REGULAR, SYMLINK, File
from execcritic_scaffold.sandbox import rundir, venv
from execcritic_scaffold.sandbox.docker_files import Archive, support_digest, walk
from execcritic_scaffold.sandbox.docker_image import key_of
from execcritic_scaffold.sandbox.overlay import checked_path
from execcritic_scaffold.sandbox.prepare import cache_root
from execcritic_scaffold.sandbox.protocol import WORKDIR, Interpreter, Workspace

ENVIRONMENTS = "/opt/execcritic-environments"
"""Where environments that set-up commands made lie inside, by key."""


class Setup(venv.Setup):
    """A set-up whose environment lies in sandboxes of a service, not on this machine."""

    @property
    def venv(self) -> Path:
        return Path(ENVIRONMENTS, self.key)

    @property
    def archive(self) -> Path:
        return self.directory / "venv.tar.gz"


@dataclass(frozen=True)
class KeptBase:
    """How Base differs from what an image has in its workspace, with byte code; a directory of two files."""

    directory: Path

    @property
    def archive(self) -> Path:
        return self.directory / "base.tar.gz"

    @property
    def removed(self) -> Path:
        return self.directory / "removed.json"

    def exists(self) -> bool:
        return self.directory.is_dir()

    def store(self, archive: bytes, removed: Sequence[str]) -> None:
        """Keep it: whole or not at all; of two processes that do, the first one wins. Raises SandboxError."""
        partial = self.directory.with_name(f".{self.directory.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
        try:
            partial.mkdir(parents=True, mode=0o700)
            made = KeptBase(partial)
            made.archive.write_bytes(archive)
            made.removed.write_text(json.dumps(list(removed)))
            try:
                partial.rename(self.directory)
            except OSError:
                if not self.exists():
                    raise
        except OSError as error:
            raise SandboxError(
                f"Base cannot be stored below {partial.parent} ({error}); free space there or set EXECCRITIC_CACHE."
            ) from None
        finally:
            if partial.exists():
                rundir.remove(partial)


def key(tree: str, interpreter: Interpreter) -> str:
    return key_of(interpreter.image, interpreter.digest, interpreter.python, tree, support_digest())


def base(key: str) -> KeptBase:
    return KeptBase(cache_root() / "remote" / "base" / key)


def packed(source: Path) -> bytes:
    """The files of Base as an archive."""
    archive = Archive()
    for name, file in walk(source):
        if file is None:
            archive.directory(name)
        else:
            archive.file(name, file)
    return archive.data()


def unpacked(data: bytes) -> dict[str, File]:
    """The files of an archive that was made inside, in memory: nothing of it is laid on this machine."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8", errors="surrogateescape") as tar:
        for info in tar:
            if info.issym():
                found[info.name] = File(os.fsencode(info.linkname), SYMLINK)
            elif info.isreg():
                content = tar.extractfile(info)
                assert content is not None
                found[info.name] = File(content.read(), EXECUTABLE if info.mode & 0o100 else REGULAR)
    return found


def environments(interpreter: Interpreter) -> list[tuple[str, bytes]]:
    """Where the environments that an interpreter needs lie inside, and their archives."""
    return [(path, _read(cache_root() / "remote" / "environments" / Path(path).name / "venv.tar.gz"))
            for path in interpreter.binds]  # fmt: skip


def laying(workspace: Workspace, own: Sequence[str] = ()) -> tuple[Mapping[str, Any], bytes]:
    """The request that lays a workspace. `own`: folders that are made for the agent to write.

    Raises UsageError for changes that cannot be laid, SandboxError when the cache was cleared in between.
    """
    kept = base(workspace.prepared.key)
    parts = [(WORKDIR, _read(kept.archive)), *environments(workspace.prepared.interpreter)]
    files, payload = [], [data for _, data in parts]
    for path, file in workspace.changes.items():
        checked_path(path)
        if file is not None and file.mode not in (REGULAR, EXECUTABLE, SYMLINK):
            raise UsageError(f"{path} has mode {file.mode}; only files and symbolic links can be laid.")
        if file is not None and file.mode == SYMLINK and path in workspace.readonly:
            raise UsageError(f"{path} is a symbolic link and cannot be made read-only; freeze the file it points to.")
        files.append((path, file.mode if file else None, len(file.data) if file else 0))
        payload.append(file.data if file else b"")
    request = {
        "op": "lay",
        "removed": json.loads(_read(kept.removed)),
        "parts": [(root, len(data)) for root, data in parts],
        "files": files,
        "readonly": sorted(checked_path(path) for path in workspace.readonly),
        "own": list(own),
    }
    return request, b"".join(payload)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise SandboxError(f"What is laid in sandboxes is gone from {path.parent}; run the command again.") from None
