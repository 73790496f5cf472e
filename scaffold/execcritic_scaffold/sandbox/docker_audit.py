"""What a command wrote, from the engine's own list of a container's changes: nothing inside has a say in it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from execcritic_scaffold.sandbox.docker_files import HOME, read_tree
from execcritic_scaffold.sandbox.protocol import WORKDIR, Workspace

if TYPE_CHECKING:
    from docker.models.containers import Container

CHANGED, ADDED, REMOVED = 0, 1, 2
"""Kinds of the Engine API ("Get changes on a container's filesystem")."""
_GO_MODE_DIRECTORY = 1 << 31


def changed(container: Container) -> dict[str, int]:
    """What differs from the image: path inside to kind. Mounts (/tmp) are not in it."""
    return {str(entry["Path"]): int(entry["Kind"]) for entry in container.diff() or []}


def writes(container: Container, workspace: Workspace, before: dict[str, int]) -> tuple[str, ...]:
    """Files below the workspace and HOME (`~/`) that the command created, changed or removed.

    `before` is `changed` after the patch was laid and before the command ran. A file of the patch is listed by the
    engine either way, so its bytes are compared.
    """
    after = changed(container)
    above = {str(parent) for path in after for parent in PurePosixPath(path).parents}
    deleted = {f"{WORKDIR}/{path}" for path, file in workspace.changes.items() if file is None}
    found = {path for path in before if path not in after}
    for path, kind in after.items():
        if path in above or before.get(path) == kind:
            continue
        if kind == REMOVED and _removed_for_patch(path, deleted):
            continue
        if kind == CHANGED and _is_directory(container, path):  # something was made in it and is gone again
            continue
        found.add(path)
    for path, file in workspace.changes.items():
        if file is not None and path not in workspace.readonly and read_tree(container, path).get(path) != file:
            found.add(f"{WORKDIR}/{path}")
    return tuple(sorted(name for path in found if (name := _shown(path)) is not None))


def _shown(path: str) -> str | None:
    if path.startswith(f"{WORKDIR}/"):
        return path[len(WORKDIR) + 1 :]
    return f"~/{path[len(HOME) + 1 :]}" if path.startswith(f"{HOME}/") else None


def _removed_for_patch(path: str, deleted: set[str]) -> bool:
    """True for what process 1 removed on the patch's behalf: the paths, their byte code, emptied directories."""
    if path in deleted or any(other.startswith(f"{path}/") for other in deleted):
        return True
    pure = PurePosixPath(path)
    if pure.name == "__pycache__":
        return any(PurePosixPath(other).parent == pure.parent for other in deleted)
    folder = pure.parent
    return folder.name == "__pycache__" and f"{folder.parent}/{pure.name.partition('.')[0]}.py" in deleted


def _is_directory(container: Container, path: str) -> bool:
    chunks, status = container.get_archive(path)
    chunks.close()  # type: ignore[attr-defined]  # a generator: the bytes themselves are not wanted
    return bool((status or {"mode": 0})["mode"] & _GO_MODE_DIRECTORY)
