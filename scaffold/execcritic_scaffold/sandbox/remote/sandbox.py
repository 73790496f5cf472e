"""The remote sandbox: a fresh sandbox of a service for every one-shot command and every session.

The service keeps no image of ours, so what Base adds to the image (and what set-up commands made) is worked out once in
a sandbox there, kept here, and laid again in each one. Inside, our supervisor is root and everything else is not.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from execcritic_scaffold.errors import EnvironmentFailure, SandboxError, UsageError
from execcritic_scaffold.files import Changes
from execcritic_scaffold.sandbox import interpreter as host
from execcritic_scaffold.sandbox import venv
from execcritic_scaffold.sandbox.docker import PYTHONS
from execcritic_scaffold.sandbox.docker_container import JUDGING, PATH, directory
from execcritic_scaffold.sandbox.docker_files import HOME
from execcritic_scaffold.sandbox.protocol import (
    SUPPORT,
    WORKDIR,
    Built,
    Command,
    Completed,
    Interpreter,
    Limits,
    Prepared,
    Workspace,
)
from execcritic_scaffold.sandbox.remote import kept, leases
from execcritic_scaffold.sandbox.remote.box import Box, BoxChannel, delete
from execcritic_scaffold.sandbox.remote.service import Gone, Service
from execcritic_scaffold.sandbox.remote.settings import RemoteSettings
from execcritic_scaffold.sandbox.session import RunnerSession

PREPARE = Limits(seconds=1200, output=1 << 20, memory=8 << 30, processes=1024, disk=64 << 30)
LOOK = Limits(seconds=60, output=1 << 20, memory=1 << 30, processes=64, disk=1 << 26)
SLACK = 60.0
"""Seconds a command's answer may take beyond the command itself."""
PROBE_SECONDS = 5.0
_UNWANTED = rf"(?:{JUDGING.pattern})|KUBERNETES_"


class Remote:
    """`Sandbox` at a service. `settings` say where it is."""

    name = "remote"
    support = SUPPORT
    isolates = True

    def __init__(self, settings: RemoteSettings | None = None) -> None:
        self._settings = settings or RemoteSettings()
        self._lock, self._preparing = threading.Lock(), threading.Lock()
        self._connected: tuple[int, Service] | None = None
        self._interpreters: dict[tuple[str, str | None], Interpreter] = {}
        self._sessions: dict[str, RunnerSession] = {}

    def probe(self) -> str | None:
        try:
            self._service().ask("GET", "/sandboxes/execcritic-probe", seconds=PROBE_SECONDS, patience=PROBE_SECONDS)
        except Gone:
            return None
        except SandboxError as error:
            return str(error)
        return None

    def inspect(self, python: str | None, image: str | None) -> Interpreter:
        if not image:
            raise UsageError("The remote sandbox needs an image that holds the environment; name it with --image.")
        known = self._interpreters.get((image, python))
        if known is None:
            with self._box(image, python, LOOK.memory) as box:
                if python and python not in (box.python, posixpath.basename(box.python)):
                    raise EnvironmentFailure(
                        f"Image {image} has no Python {python}; name one in it with --python, or another --image."
                    )
                made = Interpreter(box.python, "", image)
                command = Command([box.python, "-I", "-c", host.QUESTION])
                done = _complete(box, made, command, LOOK, cwd="/")
            # A Python too old to answer is still one in an image of this name.
            content = json.dumps([image, box.python, done.stdout.decode("utf-8", "replace")])
            digest = f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"
            known = self._interpreters[image, python] = replace(made, digest=digest)
        return known

    def ready(self, tree: str, interpreter: Interpreter) -> Prepared | None:
        key = kept.key(tree, interpreter)
        return Prepared(tree, key, interpreter, image=interpreter.image) if kept.base(key).exists() else None

    def prepare(self, tree: str, source: Path, interpreter: Interpreter) -> Prepared:
        with self._preparing:  # one at a time: two threads that need the same Base would both make it
            if found := self.ready(tree, interpreter):
                return found
            key = kept.key(tree, interpreter)
            with self._box(interpreter.image, interpreter.python, PREPARE.memory) as box:
                answer, archive = box.ask({"op": "base"}, kept.packed(source), PREPARE.seconds)
            kept.base(key).store(archive, [str(path) for path in answer["removed"]])
            return Prepared(tree, key, interpreter, image=interpreter.image)

    def build(
        self, prepared: Prepared, commands: Sequence[str], env: Mapping[str, str], log: Path, limits: Limits
    ) -> Built:
        setup = kept.Setup(prepared, tuple(commands), env, self.name)

        def execute(_: venv.Setup) -> tuple[Completed, Changes]:
            interpreter = prepared.interpreter
            with self._laid(Workspace(prepared), limits, network=True, own=(str(setup.venv),)) as box:
                command = Command(setup.argv, env={**venv.ENVIRONMENT, **env})
                done = _complete(box, interpreter, command, limits, network=True, audit=True)
                if done.exit_code != 0:
                    return done, {}
                paths = [path for path in done.writes or () if not path.endswith(".pyc")]
                packed = box.ask({"op": "pack", "root": WORKDIR, "paths": paths})[1] if paths else b""
                archive = box.ask({"op": "pack", "root": str(setup.venv), "paths": None})[1]
            setup.archive.write_bytes(archive)
            found = kept.unpacked(packed) if packed else {}
            return done, {path: found.get(path) for path in paths}

        def describe(made: Interpreter) -> bytes:
            made = replace(made, image=prepared.interpreter.image)
            command = Command([made.python, "-I", "-c", host.QUESTION])
            with self._laid(Workspace(replace(prepared, interpreter=made)), LOOK) as box:
                return _complete(box, made, command, LOOK).stdout

        built = venv.build(setup, log, limits, execute, describe)
        return replace(built, interpreter=replace(built.interpreter, image=prepared.interpreter.image))

    def run(
        self,
        workspace: Workspace,
        command: Command,
        limits: Limits,
        *,
        network: bool = False,
        audit: bool = False,
    ) -> Completed:
        with self._laid(workspace, limits, network=network) as box:
            return _complete(box, workspace.prepared.interpreter, command, limits, network=network, audit=audit)

    def open(self, workspace: Workspace, limits: Limits, *, network: bool = False) -> RunnerSession:
        interpreter = workspace.prepared.interpreter
        box = self._new(workspace.prepared.image, interpreter.python, limits.memory, network)
        try:
            _lay(box, workspace)
            runner = [interpreter.python, "-I", "-S", f"{SUPPORT}/agent_runner.py", WORKDIR, HOME]
            box.ask({"op": "open", "argv": runner, **_surroundings(interpreter, {}, limits, network)})
            session = RunnerSession(BoxChannel(box), WORKDIR, lambda: self._release(box))
            session.ping()
        except BaseException:
            box.close()
            raise
        self._sessions[box.lease.id] = session
        return session

    def close(self) -> None:
        while self._sessions:
            self._sessions.popitem()[1].close()
        with self._lock:
            if self._connected is not None and self._connected[0] == os.getpid():
                self._connected[1].close()
            self._connected = None

    def _release(self, box: Box) -> str:
        self._sessions.pop(box.lease.id, None)
        box.close()
        return ""

    def _service(self) -> Service:
        """The service, reached on first use, when what dead owners left there goes. A forked child connects anew."""
        with self._lock:
            if self._connected is None or self._connected[0] != os.getpid():
                service = Service(self._settings)
                leases.reap(lambda lease: delete(service, lease, patience=PROBE_SECONDS), service.url)
                self._connected = (os.getpid(), service)
            return self._connected[1]

    @contextmanager
    def _box(self, image: str | None, python: str | None, memory: int, network: bool = False) -> Iterator[Box]:
        """A sandbox for the time of a `with` block, with the supervisor on the interpreter itself where it is there."""
        box = self._new(image, python, memory, network)
        try:
            yield box
        except TimeoutError as error:
            raise SandboxError(f"The sandbox's supervisor gave {error}; start again.") from None
        finally:
            box.close()

    @contextmanager
    def _laid(
        self, workspace: Workspace, limits: Limits, *, network: bool = False, own: Sequence[str] = ()
    ) -> Iterator[Box]:
        """The same with a workspace laid."""
        prepared = workspace.prepared
        with self._box(prepared.image, prepared.interpreter.python, limits.memory, network) as box:
            _lay(box, workspace, own)
            yield box

    def _new(self, image: str | None, python: str | None, memory: int, network: bool) -> Box:
        assert image is not None
        pythons = (python, *PYTHONS) if python else PYTHONS
        return Box(self._service(), self._settings, image, pythons, memory, network)


def _lay(box: Box, workspace: Workspace, own: Sequence[str] = ()) -> None:
    answer, _ = box.ask(*kept.laying(workspace, own))
    if refused := answer.get("refused"):
        raise UsageError(f"{refused} is a symbolic link and cannot be made read-only; freeze the file it points to.")


def _surroundings(interpreter: Interpreter, env: Mapping[str, str], limits: Limits, network: bool) -> dict[str, Any]:
    """Fields of a request that starts a process of the agent's."""
    fixed = {"HOME": HOME, "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    return {
        "env": {**fixed, **env},
        "folder": posixpath.dirname(interpreter.python),
        "path": PATH,
        "unwanted": _UNWANTED,
        "network": network,
        "processes": limits.processes,
        "disk": limits.disk,
    }


def _complete(
    box: Box,
    interpreter: Interpreter,
    command: Command,
    limits: Limits,
    *,
    cwd: str | None = None,
    network: bool = False,
    audit: bool = False,
) -> Completed:
    request = {
        "op": "run",
        "argv": list(command.argv),
        "cwd": cwd or directory(command),
        "seconds": limits.seconds,
        "output": limits.output,
        "audit": audit,
        **_surroundings(interpreter, command.env, limits, network),
    }
    answer, data = box.ask(request, command.stdin, limits.seconds + SLACK)
    try:
        size, writes = int(answer["stdout"]), None
        if audit:
            tree, home = answer["writes"]
            writes = (*map(str, tree), *(f"~/{path}" for path in home))
        return Completed(
            exit_code=None if answer["code"] is None else int(answer["code"]),
            stdout=data[:size],
            stderr=data[size:],
            seconds=float(answer["seconds"]),
            timed_out=bool(answer["timed_out"]),
            out_of_memory=bool(answer["out_of_memory"]),
            dropped=(int(answer["dropped"][0]), int(answer["dropped"][1])),
            left_behind=int(answer["left_behind"]),
            writes=writes,
            unenforced=tuple(map(str, answer["unenforced"])),
        )
    except (KeyError, TypeError, ValueError, IndexError):
        raise SandboxError("The sandbox's supervisor sent an answer without sense; start again.") from None
