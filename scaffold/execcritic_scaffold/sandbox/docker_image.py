"""Base as an image, made once for each (environment image, Base tree, harness), and set-up commands as an image."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from execcritic_scaffold.errors import EnvironmentFailure, SandboxError
from execcritic_scaffold.files import Changes, File
from execcritic_scaffold.sandbox import docker_engine as engine
from execcritic_scaffold.sandbox import setup_log
from execcritic_scaffold.sandbox.docker_audit import REMOVED, changed
from execcritic_scaffold.sandbox.docker_container import NETWORK, Factory
from execcritic_scaffold.sandbox.docker_files import AGENT, Archive, put_base, read_tree, support_digest
from execcritic_scaffold.sandbox.docker_run import attend, removed
from execcritic_scaffold.sandbox.prepare import cache_root
from execcritic_scaffold.sandbox.protocol import SUPPORT, WORKDIR, Interpreter, Limits, Prepared
from execcritic_scaffold.sandbox.venv import ENVIRONMENT

if TYPE_CHECKING:
    from docker.models.containers import Container

PREPARE = Limits(seconds=1200, output=1 << 16, memory=8 << 30, processes=1024, disk=64 << 30)
OWNERSHIP = ("CHOWN", "DAC_OVERRIDE", "FOWNER")
"""Capabilities for laying out files; the code that runs with them is ours."""
INSTALLING = (*OWNERSHIP, "SETGID", "SETUID")
"""Capabilities for set-up commands: package managers change owners and drop privileges."""
MANIFEST = "/execcritic.manifest"
_SCRIPT = """exec 2>&1
for command; do printf '+ %s\\n' "$command"; /bin/sh -e -c "$command"; done"""
LEFT = "execcritic.left"
"""In an environment image, at the root: the workspace paths that set-up wrote (true) or removed (false), as JSON."""


def key_of(*parts: object) -> str:
    """A cache key (hex) of JSON-able values."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def exists(factory: Factory, name: str) -> bool:
    """True where the engine has an image of that name."""
    from docker.errors import ImageNotFound

    try:
        factory.client.images.get(name)
    except ImageNotFound:
        return False
    return True


def ready(factory: Factory, tree: str, interpreter: Interpreter) -> Prepared | None:
    """`Sandbox.ready`: one question to the engine."""
    key = key_of(interpreter.digest, interpreter.python, tree, support_digest())
    name = f"{engine.BASE_REPOSITORY}:{key}"
    return Prepared(tree, key, interpreter, image=name) if exists(factory, name) else None


def prepare(factory: Factory, tree: str, source: Path, interpreter: Interpreter) -> Prepared:
    """`Sandbox.prepare`: the work is done once; later calls ask the engine whether the image is there."""
    key = key_of(interpreter.digest, interpreter.python, tree, support_digest())
    name = f"{engine.BASE_REPOSITORY}:{key}"
    if not exists(factory, name):
        argv = [interpreter.python, "-I", "-S", f"{SUPPORT}/container_base.py", MANIFEST, str(AGENT)]
        container = factory.create(
            interpreter.digest,
            argv,
            PREPARE,
            env=factory.environment(interpreter.digest, interpreter, {}),
            cwd="/",
            home_in_layer=True,
            user=0,
            capabilities=OWNERSHIP,
        )
        with removed(container):
            put_base(container, source, MANIFEST)
            ended = attend(container, PREPARE)
            if ended["exit_code"] != 0:
                said = ended["stderr"].decode("utf-8", "replace").strip()[-500:]
                raise SandboxError(
                    f"Base could not be prepared in image {interpreter.image} ({said or ended['exit_code']}); "
                    "check that the image has room and a working Python."
                )
            if not exists(factory, name):  # another process may have been quicker
                commit(container, engine.BASE_REPOSITORY, key, "base")
    return Prepared(tree, key, interpreter, image=name)


def commit(container: Container, repository: str, tag: str, kind: str) -> None:
    """Keep a container's file system as an image of ours."""
    container.commit(repository, tag, changes=engine.image_labels(kind))


def build(
    factory: Factory, prepared: Prepared, commands: Sequence[str], env: Mapping[str, str], log: Path, limits: Limits
) -> str:
    """Run set-up commands over Base as root of a container and keep the result; the image's name.

    What a command can reach is the network and the container; on an engine without a bridge, the container only
    (the log says so). The output is kept in the cache, and copied to `log`. Raises EnvironmentFailure with its last
    words when a command fails.
    """
    assert prepared.image is not None
    key = key_of(prepared.key, list(commands), sorted(env.items()))
    name = f"{engine.ENVIRONMENT_REPOSITORY}:{key}"
    kept = cache_root() / "docker" / "environments" / key / setup_log.NAME
    if exists(factory, name):
        setup_log.copy(kept, log)
        return name
    container = factory.create(
        prepared.image,
        ["/bin/sh", "-e", "-c", _SCRIPT, "setup", *commands],
        limits,
        env={**factory.environment(prepared.image, prepared.interpreter, {**ENVIRONMENT, **env}), "HOME": "/tmp"},
        network=True,
        home_in_layer=True,
        user=0,
        capabilities=INSTALLING,
    )
    with removed(container):
        ended = attend(container, limits)
        output = ended["stdout"] + ended["stderr"]
        if not factory.has_network:
            output = f"This engine has no {NETWORK} network: set-up ran without one.\n".encode() + output
        setup_log.keep(kept, output)
        setup_log.copy(kept, log)
        if ended["exit_code"] != 0:
            timed_out = f"did not end within {limits.seconds:.0f} s"
            how = timed_out if ended["timed_out"] else f"ended with {ended['exit_code']}"
            raise EnvironmentFailure(setup_log.failure(output, how, kept))
        archive = Archive()
        archive.file(LEFT, File(json.dumps(left_in_workspace(container)).encode()), owner=0)
        archive.put(container)
        commit(container, engine.ENVIRONMENT_REPOSITORY, key, "environment")
    return name


def left_in_workspace(container: Container) -> dict[str, bool]:
    """Workspace paths that the commands wrote (True) or removed (False). Byte code is never taken over."""
    found: dict[str, bool] = {}
    for path, kind in changed(container).items():
        if path.startswith(f"{WORKDIR}/") and not path.endswith(".pyc") and ".git" not in path.split("/"):
            found[path[len(WORKDIR) + 1 :]] = kind != REMOVED
    return found


def built_changes(factory: Factory, name: str) -> Changes:
    """The files that set-up commands left in the workspace of an environment image."""
    container = factory.create(name, ["-"], PREPARE, env={}, home_in_layer=True)
    with removed(container):
        listed: dict[str, bool] = json.loads(read_tree(container, f"/{LEFT}")[LEFT].data)
        files = read_tree(container, WORKDIR) if any(listed.values()) else {}
    changes: dict[str, File | None] = {path: files[path] for path in listed if path in files}
    changes.update({path: None for path, written in listed.items() if not written})
    return changes
