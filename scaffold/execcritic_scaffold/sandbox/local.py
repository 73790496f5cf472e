"""The local sandbox: no isolation at all, for code the user trusts; never chosen without the user's word."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from execcritic_scaffold.errors import SandboxError, UsageError
from execcritic_scaffold.files import Changes
from execcritic_scaffold.inject import reaper
from execcritic_scaffold.inject.workspace_files import Workspace as Tree
from execcritic_scaffold.sandbox import interpreter as host
from execcritic_scaffold.sandbox import launch, prepare, rundir, venv
from execcritic_scaffold.sandbox.capture import capture
from execcritic_scaffold.sandbox.overlay import checked_path
from execcritic_scaffold.sandbox.protocol import (
    Built,
    Command,
    Completed,
    Interpreter,
    Limits,
    Prepared,
    Workspace,
)
from execcritic_scaffold.sandbox.session import PipeChannel, RunnerSession
from execcritic_scaffold.sandbox.snapshot import differences, snapshot
from execcritic_scaffold.sandbox.view import SYSTEM_PATH

UNPROTECTED = (
    "The local sandbox isolates nothing: commands run as you, with your files, your network and your other processes"
    " within reach; memory, processes and disk are not limited and frozen files are not write-protected. It only gives"
    " each command a copy of the repository, an empty HOME and environment and a time limit, and ends what it leaves."
)
"""What to tell a user who asks for this sandbox."""
UNENFORCED = ("memory", "pids", "disk", "network", "readonly", "files")
INJECT = Path(reaper.__file__).parent


class Local:
    """Runs commands in a temporary copy of Base. See UNPROTECTED."""

    name = "local"
    support = str(INJECT)
    isolates = False

    def __init__(self) -> None:
        rundir.sweep()

    def probe(self) -> str | None:
        return None if shutil.which("bash") else "bash not found; install it with your package manager."

    def inspect(self, python: str | None, image: str | None) -> Interpreter:
        if image is not None:
            raise UsageError("The local sandbox runs no images; use --sandbox docker with --image.")
        return host.inspect(python or "python3")

    def ready(self, tree: str, interpreter: Interpreter) -> Prepared | None:
        key = prepare.key(tree, interpreter)
        directory = prepare.cached(self.name, key)
        return Prepared(tree=tree, key=key, interpreter=interpreter, directory=directory) if directory else None

    def prepare(self, tree: str, source: Path, interpreter: Interpreter) -> Prepared:
        def compiled(directory: Path) -> None:
            # Compiling runs nothing of Base; -I keeps the caller's environment out.
            argv = prepare.compile_command(interpreter.python, str(directory))
            argv.insert(1, "-I")
            subprocess.run(argv, cwd="/", env={"PATH": SYSTEM_PATH}, stdin=subprocess.DEVNULL, capture_output=True)

        key = prepare.key(tree, interpreter)
        directory = prepare.directory_for(self.name, source, key, None, compiled)
        return Prepared(tree=tree, key=key, interpreter=interpreter, directory=directory)

    def build(
        self, prepared: Prepared, commands: Sequence[str], env: Mapping[str, str], log: Path, limits: Limits
    ) -> Built:
        setup = venv.Setup(prepared, tuple(commands), env, self.name)

        def execute(setup: venv.Setup) -> tuple[Completed, Changes]:
            venv.clear(setup, None)
            with _Place(Workspace(prepared)) as place:
                before = snapshot(place.work)
                done = self._complete(place, Command(setup.argv, env={**venv.ENVIRONMENT, **env}), limits)
                return done, differences(place.work, before)

        def describe(made: Interpreter) -> bytes:
            command = Command([made.python, "-I", "-c", host.QUESTION])
            return self.run(Workspace(prepared), command, Limits(seconds=60)).stdout

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
        with _Place(workspace) as place:
            return self._complete(place, command, limits, audit)

    def open(self, workspace: Workspace, limits: Limits, *, network: bool = False) -> RunnerSession:
        place = _Place(workspace)
        try:
            env = place.environment({})
            argv = [workspace.prepared.interpreter.python, "-I", "-S", f"{INJECT}/agent_runner.py"]
            with open(place.root / "stderr", "wb") as stderr:
                process = launch.start(
                    [*argv, str(place.work), str(place.home), env["PATH"]], env=env, stderr=stderr, cwd=str(place.work)
                )
            assert process.stdin and process.stdout
            channel = PipeChannel(os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno()))
            process.stdin.close()
            process.stdout.close()
        except OSError as error:
            place.remove()
            raise SandboxError(f"The session could not be started ({error}); see `execcritic doctor`.") from None

        def release() -> str:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            said = (place.root / "stderr").read_text(errors="replace")[-500:]
            place.remove()
            return said

        session = RunnerSession(channel, str(place.work), release)
        session.ping()
        return session

    def close(self) -> None:
        """Nothing to do: every run removes what it made."""

    def _complete(self, place: _Place, command: Command, limits: Limits, audit: bool = False) -> Completed:
        before = (snapshot(place.work), snapshot(place.home)) if audit else None
        report, status = os.pipe()
        try:
            supervisor = [sys.executable, "-I", "-S", reaper.__file__, str(status), str(os.getpid()), *command.argv]
            cwd = place.work if command.cwd == "." else place.work / checked_path(command.cwd)
            process = launch.start(supervisor, env=place.environment(command.env), pass_fds=(status,), cwd=str(cwd))
            os.close(status)
            status = -1
            done = capture(process, command.stdin, limits.seconds, limits.output, lambda: _end(process))
            answer = os.read(report, 64).split()
        except OSError as error:
            raise SandboxError(f"The command could not be started ({error}); see `execcritic doctor`.") from None
        finally:
            os.close(report)
            if status >= 0:
                os.close(status)
        writes = None
        if before:
            tree, home = (differences(d, was) for d, was in zip((place.work, place.home), before, strict=True))
            writes = (*sorted(tree), *sorted(f"~/{path}" for path in home))
        # Without an answer the command ended its own supervisor, which nothing here prevents.
        code, left = (int(answer[0]), int(answer[1])) if len(answer) == 2 else (process.returncode, 0)
        return Completed(
            exit_code=None if done.timed_out else code,
            stdout=done.stdout,
            stderr=done.stderr,
            seconds=done.seconds,
            timed_out=done.timed_out,
            dropped=done.dropped,
            left_behind=left,
            writes=writes,
            unenforced=UNENFORCED,
        )


class _Place:
    """A temporary copy of Base with the changes laid, an empty HOME and an empty TMPDIR."""

    def __init__(self, workspace: Workspace) -> None:
        self.interpreter = workspace.prepared.interpreter
        base = workspace.prepared.directory
        if base is None or not base.is_dir():
            raise SandboxError(f"The prepared Base {workspace.prepared.key} is gone; run the command again.")
        self.root = rundir.make(shared=False)
        self.work, self.home, self.tmp = self.root / "work", self.root / "home", self.root / "tmp"
        try:
            shutil.copytree(base, self.work, symlinks=True)
            self.work.chmod(0o755)
            self.home.mkdir()
            self.tmp.mkdir()
            tree = Tree(str(self.work))
            for path, file in sorted(workspace.changes.items(), key=lambda item: item[1] is not None):
                name = os.fsencode(checked_path(path))
                tree.write(name, file.mode if file else None, file.data if file else None)
        except BaseException:
            self.remove()
            raise

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": f"{host.bin_directory(self.interpreter)}:{SYSTEM_PATH}",
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            **env,
        }

    def remove(self) -> None:
        if self.root.exists():
            rundir.remove(self.root)

    def __enter__(self) -> _Place:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the supervisor to end everything below it, itself last; also when the command stopped it."""
    for number in (signal.SIGTERM, signal.SIGCONT):
        try:
            process.send_signal(number)
        except ProcessLookupError:
            return
