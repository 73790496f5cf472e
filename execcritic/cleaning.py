"""What this program leaves on a machine, and its removal: caches, folders of killed runs, Docker containers and images.

Runs and bundles are the user's and stay. In the cache only what has a name of ours goes: EXECCRITIC_CACHE may name a
folder that holds other things too.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from execcritic import output, places
from execcritic_scaffold.errors import SandboxError
from execcritic_scaffold.sandbox import rundir
from execcritic_scaffold.sandbox.registry import NAMES

CACHED = ("store", "environments", "guards", "replays", "collections", "sources", "setup.log", *NAMES)
"""What lies directly in the cache: Bases, what is known of environments and tests, what data sets needed, a folder for
each sandbox."""


def caches(dry_run: bool) -> list[str]:
    """Remove the caches; returns what was, or with `dry_run` would be, removed."""
    root = places.cache()
    found = [root / name for name in CACHED if (root / name).exists()]
    if not dry_run:
        _remove(found)
        if root.is_dir() and not any(root.iterdir()):
            root.rmdir()
    return [str(path) for path in found]


def temporary(dry_run: bool) -> list[str]:
    """Remove the temporary folders of runs whose process was killed."""
    found = [
        path
        for folder in sorted({Path(tempfile.gettempdir()).resolve(), Path("/tmp")})
        for path in sorted(folder.glob(f"{rundir.prefix()}*"))
        if rundir.abandoned(path) and path.lstat().st_uid == os.geteuid()
    ]
    if not dry_run:
        _remove(found)
    return [str(path) for path in found]


def engine(dry_run: bool) -> list[str]:
    """Remove containers and images of ours from the Docker engine. Without an engine there are none."""
    from execcritic_scaffold.sandbox import docker_engine

    try:
        client = docker_engine.connect()
    except SandboxError as error:
        output.say(f"Docker was passed over: {error}")
        return []
    label: dict[str, str | list[str] | bool] = {"label": f"{docker_engine.LABEL}=1"}
    with docker_engine.engine_errors("cleaning up"):
        containers = [str(found.id) for found in client.containers.list(all=True, sparse=True, filters=label)]
        images = [(found.tags or [str(found.id)])[0] for found in client.images.list(filters=label)]
        if not dry_run:
            docker_engine.clean(client)
    client.close()
    return [f"container {name[:12]}" for name in containers] + [f"image {name}" for name in images]


def _remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            rundir.remove(path)
        else:
            path.unlink(missing_ok=True)
