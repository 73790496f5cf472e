"""The bubblewrap sandbox: namespaces, a fresh overlay over Base, an unprivileged user, limits (SANDBOX.md 1, 3).

As root the sandbox runs as user 65534, dropped to before bubblewrap starts. As an ordinary user it runs as that user,
in a user namespace, and sees nothing of the user's files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from execcritic_scaffold.errors import EnvironmentFailure, SandboxError, UsageError
from execcritic_scaffold.files import Changes
from execcritic_scaffold.sandbox import cgroups, prepare, rundir, venv
from execcritic_scaffold.sandbox import interpreter as host
from execcritic_scaffold.sandbox.capture import capture
from execcritic_scaffold.sandbox.contained import Contained
from execcritic_scaffold.sandbox.contents import Contents, owner
from execcritic_scaffold.sandbox.diagnosis import explain, missing_tools
from execcritic_scaffold.sandbox.etc import HOME, certificates
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
from execcritic_scaffold.sandbox.session import PipeChannel, RunnerSession
from execcritic_scaffold.sandbox.view import SYSTEM_PATH


class Bubblewrap:
    """Runs commands in bubblewrap. Needs Linux, bubblewrap 0.8 or later, util-linux, bash."""

    name = "bubblewrap"
    support = SUPPORT
    isolates = True

    def __init__(self) -> None:
        rundir.sweep()
        if owner() is not None:
            cgroups.sweep()

    def probe(self) -> str | None:
        if problem := missing_tools():
            return problem
        empty = rundir.make(shared=True)
        try:
            contents = Contents(base=empty, argv=["true"], env={"PATH": SYSTEM_PATH}, limits=Limits(seconds=20))
            self._complete(contents)
        except SandboxError as error:
            return str(error)
        finally:
            rundir.remove(empty)
        return None

    def inspect(self, python: str | None, image: str | None) -> Interpreter:
        if image is not None:
            raise UsageError("bubblewrap runs no images; use --sandbox docker with --image.")
        interpreter = host.inspect(python or "python3")
        host.refuse_exposing(interpreter)
        return interpreter

    def ready(self, tree: str, interpreter: Interpreter) -> Prepared | None:
        key = prepare.key(tree, interpreter)
        directory = prepare.cached(self.name, key)
        return Prepared(tree=tree, key=key, interpreter=interpreter, directory=directory) if directory else None

    def prepare(self, tree: str, source: Path, interpreter: Interpreter) -> Prepared:
        key = prepare.key(tree, interpreter)
        compiled = partial(self._compile, interpreter)
        directory = prepare.directory_for(self.name, source, key, owner(), compiled)
        return Prepared(tree=tree, key=key, interpreter=interpreter, directory=directory)

    def build(
        self, prepared: Prepared, commands: Sequence[str], env: Mapping[str, str], log: Path, limits: Limits
    ) -> Built:
        setup = venv.Setup(prepared, tuple(commands), env, self.name)

        def execute(setup: venv.Setup) -> tuple[Completed, Changes]:
            venv.clear(setup, owner())
            contents = Contents(
                base=base_of(Workspace(prepared)),
                argv=setup.argv,
                env=environment(prepared.interpreter, {**certificates(), **venv.ENVIRONMENT, **env}),
                limits=limits,
                binds=prepared.interpreter.binds,
                writable=(str(setup.venv),),
                network=True,
                audit=True,
            )
            contained = Contained(contents)
            try:
                return self._wait(contained, contents, b""), contained.changes(contents)
            finally:
                contained.close()

        def describe(made: Interpreter) -> bytes:
            command = Command([made.python, "-I", "-c", host.QUESTION])
            workspace = Workspace(replace(prepared, interpreter=made))
            return self.run(workspace, command, Limits(seconds=60)).stdout

        return venv.build(setup, log, limits, execute, describe)

    def run(
        self,
        workspace: Workspace,
        command: Command,
        limits: Limits,
        *,
        network: bool = False,
        audit: bool = False,
    ) -> Completed:
        interpreter = workspace.prepared.interpreter
        contents = Contents(
            base=base_of(workspace),
            argv=command.argv,
            env=environment(interpreter, command.env),
            limits=limits,
            binds=interpreter.binds,
            changes=workspace.changes,
            readonly=workspace.readonly,
            cwd=command.cwd,
            network=network,
            audit=audit,
        )
        return self._complete(contents, command.stdin)

    def open(self, workspace: Workspace, limits: Limits, *, network: bool = False) -> RunnerSession:
        interpreter = workspace.prepared.interpreter
        env = environment(interpreter, {})
        runner = [interpreter.python, "-I", "-S", f"{SUPPORT}/agent_runner.py", WORKDIR, HOME, env["PATH"]]
        contents = Contents(
            base=base_of(workspace),
            argv=runner,
            env=env,
            limits=limits,
            binds=interpreter.binds,
            changes=workspace.changes,
            readonly=workspace.readonly,
            network=network,
            counting=False,
        )
        contained = Contained(contents)
        process = contained.process
        assert process.stdin and process.stdout
        channel = PipeChannel(os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno()), contained.watch)
        process.stdin.close()
        process.stdout.close()

        def release() -> str:
            why = "" if not contained.out_of_memory() else "out of memory"
            why = why or contained.complaint()
            contained.close()
            return explain(why) if why.startswith("bwrap:") else why

        session = RunnerSession(channel, WORKDIR, release)
        session.ping()
        return session

    def close(self) -> None:
        """Nothing to do: every run removes what it made."""

    def _compile(self, interpreter: Interpreter, directory: Path) -> None:
        contents = Contents(
            base=directory,
            argv=prepare.compile_command(interpreter.python),
            env=environment(interpreter, {}),
            limits=Limits(seconds=1200),
            binds=interpreter.binds,
            layout="base",
        )
        done = self._complete(contents)
        if done.exit_code not in (0, 1):
            raise EnvironmentFailure(
                f"{interpreter.python} cannot compile Base inside the sandbox"
                f" ({done.stderr[-300:].decode(errors='replace').strip()}); name another with --python."
            )

    def _complete(self, contents: Contents, stdin: bytes = b"") -> Completed:
        contained = Contained(contents)
        try:
            return self._wait(contained, contents, stdin)
        finally:
            contained.close()

    def _wait(self, contained: Contained, contents: Contents, stdin: bytes) -> Completed:
        limits = contents.limits
        done = capture(contained.process, stdin, limits.seconds, limits.output, contained.kill, contained.watch)
        reached, left = contained.status()
        if not reached and not done.timed_out:
            raise SandboxError(explain(done.stderr.decode(errors="replace")))
        return Completed(
            exit_code=None if done.timed_out else _signal(contained.process.returncode),
            stdout=done.stdout,
            stderr=done.stderr,
            seconds=done.seconds,
            timed_out=done.timed_out,
            out_of_memory=contained.out_of_memory(),
            dropped=done.dropped,
            left_behind=left,
            writes=contained.writes(contents) if contents.audit else None,
            unenforced=contained.unenforced,
        )


def base_of(workspace: Workspace) -> Path:
    """The prepared directory. Raises SandboxError when the cache was cleared in between."""
    directory = workspace.prepared.directory
    if directory is None or not directory.is_dir():
        raise SandboxError(f"The prepared Base {workspace.prepared.key} is gone; run the command again to rebuild it.")
    return directory


def environment(interpreter: Interpreter, env: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a command: nothing of the host's."""
    return {
        "PATH": f"{host.bin_directory(interpreter)}:{SYSTEM_PATH}",
        "HOME": HOME,
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        **env,
    }


def _signal(code: int) -> int:
    """bubblewrap, like a shell, reports a death by signal n as 128 + n."""
    return 128 - code if 128 < code <= 192 else code
