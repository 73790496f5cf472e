"""The docker sandbox: a fresh container for every command, on an image that Base is baked into.

Works with engines from 20.10 and honours DOCKER_HOST. Nothing is pulled implicitly: what a verdict rests on is
named by the user and is there before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from execcritic_scaffold.errors import EnvironmentFailure, SandboxError, UsageError
from execcritic_scaffold.sandbox import docker_engine as engine
from execcritic_scaffold.sandbox import docker_image, docker_run
from execcritic_scaffold.sandbox.docker_container import Factory
from execcritic_scaffold.sandbox.docker_files import HOME, put_changes
from execcritic_scaffold.sandbox.docker_stream import Attached, ContainerChannel
from execcritic_scaffold.sandbox.protocol import (
    SUPPORT,
    WORKDIR,
    Built,
    Command,
    Completed,
    Interpreter,
    Limits,
    Prepared,
    Session,
    Workspace,
)
from execcritic_scaffold.sandbox.session import RunnerSession

if TYPE_CHECKING:
    from docker.models.containers import Container

PYTHONS = ("/opt/miniconda3/envs/testbed/bin/python", "python", "python3")
"""Where Python is looked for in an image: first the environment that SWE-bench images install the task into."""
LOOK = Limits(seconds=60, output=1 << 16, memory=1 << 30, processes=64, disk=1 << 26)
_FIND = """
for name in "$@"; do
    found=$(command -v -- "$name") || continue
    exec "$found" -I -c 'import sys; print(sys.executable or sys.argv[1])' "$found"
done
echo "no Python there (looked for: $*)" >&2
exit 127
"""


class Docker:
    """`Sandbox` on a Docker engine. `run` labels the containers with the run's name; `image` is used to probe."""

    name = "docker"
    support = SUPPORT
    isolates = True

    def __init__(self, run: str = "", image: str | None = None) -> None:
        self._run, self._image = run, image
        self._lock = threading.RLock()
        self._connected: tuple[int, Factory] | None = None
        self._interpreters: dict[tuple[str, str | None], Interpreter] = {}
        self._preparing = threading.Lock()
        self._open: dict[str, RunnerSession] = {}

    def probe(self) -> str | None:
        try:
            factory = self._factory()
            if self._image is not None:
                self.inspect(None, self._image)
            else:
                with engine.engine_errors("asking for its version"):
                    factory.client.version()
        except (SandboxError, EnvironmentFailure) as error:
            return str(error)
        return None

    def inspect(self, python: str | None, image: str | None) -> Interpreter:
        from docker.errors import ImageNotFound, NullResource

        if not image:
            raise UsageError("The docker sandbox needs an image that holds the environment; name it with --image.")
        factory = self._factory()
        with engine.engine_errors(f"looking at image {image}"):
            try:
                digest = factory.client.images.get(image).id
            except (ImageNotFound, NullResource):
                raise EnvironmentFailure(
                    f"The engine has no image {image}; run `docker pull {image}` or name another with --image."
                ) from None
            assert digest is not None
            known = self._interpreters.get((digest, python))
            if known is None:
                found = self._find_python(factory, digest, image, python)
                known = self._interpreters[digest, python] = Interpreter(found, digest, image)
        return known

    def _find_python(self, factory: Factory, digest: str, image: str, python: str | None) -> str:
        names = (python,) if python else PYTHONS
        argv = ["/bin/sh", "-c", _FIND, "sh", *names]
        container = factory.create(digest, argv, LOOK, env=factory.environment(digest, None, {}), cwd="/")
        with docker_run.removed(container):
            ended = docker_run.attend(container, LOOK)
        found = ended["stdout"].decode("utf-8", "replace").strip()
        if ended["exit_code"] != 0 or not found.startswith("/"):
            said = (ended["stderr"].decode("utf-8", "replace").strip() or f"exit code {ended['exit_code']}")[-300:]
            raise EnvironmentFailure(
                f"Image {image} has no usable Python ({said}); name one in it with --python, or another --image."
            )
        return str(found)

    def ready(self, tree: str, interpreter: Interpreter) -> Prepared | None:
        with engine.engine_errors("looking for Base"):
            return docker_image.ready(self._factory(), tree, interpreter)

    def prepare(self, tree: str, source: Path, interpreter: Interpreter) -> Prepared:
        factory = self._factory()
        # One at a time: two threads that need the same Base would both make it.
        with self._preparing, engine.engine_errors("preparing Base"):
            return docker_image.prepare(factory, tree, source, interpreter)

    def build(
        self, prepared: Prepared, commands: Sequence[str], env: Mapping[str, str], log: Path, limits: Limits
    ) -> Built:
        factory = self._factory()
        with engine.engine_errors("running set-up"):
            name = docker_image.build(factory, prepared, commands, env, log, limits)
            return Built(self.inspect(prepared.interpreter.python, name), docker_image.built_changes(factory, name))

    def run(
        self,
        workspace: Workspace,
        command: Command,
        limits: Limits,
        *,
        network: bool = False,
        audit: bool = False,
    ) -> Completed:
        factory = self._factory()
        with engine.engine_errors("running a command"):
            return docker_run.run(factory, workspace, command, limits, network=network, audit=audit)

    def open(self, workspace: Workspace, limits: Limits, *, network: bool = False) -> Session:
        factory = self._factory()
        image, interpreter = workspace.prepared.image, workspace.prepared.interpreter
        assert image is not None
        with engine.engine_errors("starting a session"):
            env = factory.environment(image, interpreter, {})
            container = factory.create(
                image,
                [*docker_run.init(workspace, "-", 0), *_runner(interpreter, env["PATH"])],
                limits,
                env=env,
                network=network,
                stdin=True,
            )
            try:
                put_changes(container, workspace)
                attached = Attached(container, stdin=True)
                container.start()
            except BaseException:
                engine.remove(container)
                raise
        channel = ContainerChannel(attached)
        session = RunnerSession(channel, WORKDIR, lambda: self._release(container, channel))
        try:
            session.ping()
        except BaseException:
            session.close()
            raise
        self._open[str(container.id)] = session
        return session

    def _release(self, container: Container, channel: ContainerChannel) -> str:
        """Remove a session's container; why it died, if it did so by itself."""
        self._open.pop(str(container.id), None)
        with engine.engine_errors("ending a session"):
            engine.remove(container)
        return channel.stderr()

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
        with self._lock:
            if self._connected is not None and self._connected[0] == os.getpid():
                self._connected[1].client.close()
            self._connected = None

    def _factory(self) -> Factory:
        """The engine, reached on first use, when what dead owners left behind goes. A forked child connects anew."""
        with self._lock:
            if self._connected is None or self._connected[0] != os.getpid():
                client = engine.connect()
                with engine.engine_errors("removing containers of processes that are gone"):
                    engine.reap(client)
                    self._connected = (os.getpid(), Factory(client, self._run))
            return self._connected[1]


def _runner(interpreter: Interpreter, path: str) -> list[str]:
    return [interpreter.python, "-I", f"{SUPPORT}/agent_runner.py", WORKDIR, HOME, path]
