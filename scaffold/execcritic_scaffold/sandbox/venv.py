"""Set-up commands run once in a virtual environment of their own, cached by content (`Sandbox.build`).

The environment lies at one path, inside and outside, because paths are written into it. So it is built in place
under a lock, and counts only once its record has been written.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from execcritic_scaffold.errors import EnvironmentFailure
from execcritic_scaffold.files import Changes, File
from execcritic_scaffold.sandbox import prepare, rundir, setup_log
from execcritic_scaffold.sandbox.protocol import Built, Completed, Interpreter, Limits, Prepared

# A virtual environment made from another one sees the packages of neither but the base interpreter's, hence the .pth
# file. ensurepip is a package of its own on Debian; without it, a pip that is visible from the parent must do.
SETUP = r"""
exec 2>&1
python=$1 venv=$2
shift 2
"$python" -m venv --system-site-packages "$venv" ||
    "$python" -m venv --clear --system-site-packages --without-pip "$venv"
site=$("$venv/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$python" -I -c 'import sys, sysconfig
if sys.prefix != sys.base_prefix:
    print(*sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}), sep="\n")' >"$site/_parent.pth"
export VIRTUAL_ENV="$venv" PATH="$venv/bin:$PATH"
for command; do
    printf '+ %s\n' "$command"
    bash -euo pipefail -c "$command"
done
"""
# Nothing asks, nothing is kept twice, no interpreter is fetched; what is here of pip's own news is no help.
ENVIRONMENT: Mapping[str, str] = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_ROOT_USER_ACTION": "ignore",
    "UV_LINK_MODE": "copy",
    "UV_NO_PROGRESS": "1",
    "UV_PYTHON_DOWNLOADS": "never",
}
"""Of every set-up command, below what the caller sets."""


@dataclass(frozen=True)
class Setup:
    """One set-up: what it is made from. `key` names it by content."""

    prepared: Prepared
    commands: tuple[str, ...]
    env: Mapping[str, str]
    name: str

    @property
    def key(self) -> str:
        interpreter = self.prepared.interpreter
        content = [self.prepared.tree, interpreter.digest, interpreter.python, self.commands, sorted(self.env.items())]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]

    @property
    def directory(self) -> Path:
        return prepare.cache_root() / self.name / "environments" / self.key

    @property
    def venv(self) -> Path:
        return self.directory / "venv"

    @property
    def argv(self) -> list[str]:
        return ["bash", "-euc", SETUP, "setup", self.prepared.interpreter.python, str(self.venv), *self.commands]


def build(
    setup: Setup,
    log: Path,
    limits: Limits,
    execute: Callable[[Setup], tuple[Completed, Changes]],
    describe: Callable[[Interpreter], bytes],
) -> Built:
    """The environment of `setup`, from the cache or made now.

    `execute` runs `setup.argv` with the network on and returns what it left in the workspace; `describe` answers
    `interpreter.QUESTION` for the finished environment, inside the sandbox: it holds a stranger's code, which the
    host must not start. The output is kept beside it, and copied to `log`. Raises EnvironmentFailure with its last
    words.
    """
    kept = setup.directory / setup_log.NAME
    record = setup.directory / "built.json"
    with _locked(setup.directory):
        if not record.exists():
            done, changes = execute(setup)
            setup_log.keep(kept, done.stdout + done.stderr)
            setup_log.copy(kept, log)
            if done.exit_code != 0:
                how = f"did not end within {limits.seconds:.0f} s" if done.timed_out else f"ended with {done.exit_code}"
                how = "ran out of memory" if done.out_of_memory else how
                raise EnvironmentFailure(setup_log.failure(done.stdout, how, kept))
            interpreter = _interpreter(setup, describe)
            partial = record.with_suffix(".partial")
            partial.write_text(json.dumps(_encode(Built(interpreter, changes))))
            partial.rename(record)
        setup_log.copy(kept, log)
        return _decode(json.loads(record.read_text()))


def clear(setup: Setup, owner: int | None) -> None:
    """Make the directory of an environment of this machine anew, owned by user and group id `owner` if given."""
    if setup.venv.exists():
        rundir.remove(setup.venv)
    setup.venv.mkdir(parents=True)
    if owner is not None:
        os.chown(setup.venv, owner, owner)


def _interpreter(setup: Setup, describe: Callable[[Interpreter], bytes]) -> Interpreter:
    parent = setup.prepared.interpreter
    made = Interpreter(str(setup.venv / "bin" / "python"), "", binds=(*parent.binds, str(setup.venv)))
    try:
        distributions = json.loads(describe(made))["distributions"]
    except (ValueError, KeyError, TypeError):
        raise EnvironmentFailure("The set-up commands broke their Python environment; correct --setup.") from None
    content = json.dumps([parent.digest, distributions]).encode()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return Interpreter(made.python, digest, binds=made.binds)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(directory / "lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _encode(built: Built) -> dict[str, object]:
    files = {
        path: None if file is None else [file.mode, base64.b64encode(file.data).decode()]
        for path, file in built.changes.items()
    }
    made = built.interpreter
    return {"python": made.python, "digest": made.digest, "binds": made.binds, "changes": files}


def _decode(record: Mapping[str, object]) -> Built:
    files = record["changes"]
    assert isinstance(files, dict) and isinstance(record["binds"], list)
    changes = {p: None if f is None else File(base64.b64decode(f[1]), f[0]) for p, f in files.items()}
    made = Interpreter(str(record["python"]), str(record["digest"]), binds=tuple(record["binds"]))
    return Built(made, changes)
