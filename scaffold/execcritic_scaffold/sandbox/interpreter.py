"""What a host interpreter needs in order to run inside: its directories, and the digest of its environment."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

from execcritic_scaffold import programs
from execcritic_scaffold.errors import EnvironmentFailure, UsageError
from execcritic_scaffold.sandbox.protocol import Interpreter

# Isolated mode: neither the current directory nor PYTHONPATH nor the user's site directory counts. Distributions are
# looked for below the prefixes only: what a .pth file adds from elsewhere (an editable install) is not mounted.
QUESTION = """
import json, os, sys, sysconfig
from importlib import metadata
prefixes = sorted({os.path.realpath(p) for p in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)})
inside = [p for p in sys.path if any(os.path.realpath(p).startswith(x.rstrip("/") + "/") for x in prefixes)]
names = {d.metadata["Name"]: d.version for d in metadata.distributions(path=inside) if d.metadata["Name"]}
print(json.dumps({
    "executable": sys.executable,
    "prefixes": [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix],
    "paths": list(sysconfig.get_paths().values()),
    "build": [sys.version, sys.implementation.cache_tag, sysconfig.get_platform()],
    "distributions": sorted(names.items()),
}))
"""
_SECONDS = 60


def inspect(python: str) -> Interpreter:
    """Describe the interpreter at `python` (a path, or a name on PATH) by running it in isolated mode.

    The digest covers interpreter build and installed distributions, no paths: the same environment elsewhere has the
    same digest. Raises UsageError when it is not to be found, cannot be run, or is no Python of version 3.8 or later.
    """
    path = programs.find(python) if "/" not in python else str(Path(python).absolute())
    if path is None:
        raise UsageError(f"There is no {python} on PATH; name an interpreter with --python.")
    answer = _ask(path)
    executable = str(answer["executable"])
    if not _inside(executable, (*binds(answer), "/usr")):
        # A link from elsewhere, whose own directory nobody will mount: go where it leads.
        executable = os.path.realpath(executable)
        answer = _ask(executable)
    content = {"build": answer["build"], "distributions": answer["distributions"]}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return Interpreter(python=executable, digest=f"sha256:{digest}", binds=binds(answer))


def binds(answer: dict[str, Any]) -> tuple[str, ...]:
    """The host directories to mount, outermost only, without those of the system (below /usr)."""
    wanted: set[str] = set()
    for path in (*answer["prefixes"], *answer["paths"]):
        if not Path(path).is_dir() or _inside(path, ("/usr",)):
            continue
        # A prefix that is a link (a "current" directory) is needed under both names.
        wanted |= {path.rstrip("/"), os.path.realpath(path)}
    return tuple(sorted(p for p in wanted if not any(p != o and _inside(p, (o,)) for o in wanted)))


def refuse_exposing(interpreter: Interpreter) -> None:
    """Raises EnvironmentFailure where mounting the interpreter's directories would show a home or a repository."""
    homes = {os.path.realpath(home) for home in (os.environ.get("HOME"), _home_of_user()) if home}
    for bind in interpreter.binds:
        real = os.path.realpath(bind)
        lies = [home for home in homes if _inside(home, (real,))]
        lies += [name for name in (".git", ".ssh") if os.path.lexists(f"{real}/{name}")]
        if lies:
            raise EnvironmentFailure(
                f"{interpreter.python} belongs to {bind}, which no sandbox may see because {lies[0]} lies in it; "
                "make a virtual environment in a directory of its own and name its Python with --python."
            )


def _home_of_user() -> str | None:
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a user id without an entry, as in many containers
        return None


def _inside(path: str, directories: tuple[str, ...]) -> bool:
    return any(path == above or path.startswith(above.rstrip("/") + "/") for above in directories)


def _ask(path: str) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [path, "-I", "-c", QUESTION],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            env={"PATH": programs.search_path(), "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8"},
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{path} cannot be run ({error}); name a Python interpreter with --python.") from None
    try:
        answer = json.loads(done.stdout)
        answer["executable"], answer["prefixes"], answer["distributions"]
    except (ValueError, KeyError, TypeError):
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise UsageError(
            f"{path} is not a Python 3.8 or later ({said[0][:200]}); name an interpreter with --python."
        ) from None
    if any(os.path.realpath(prefix) == "/" for prefix in answer["prefixes"]):
        raise EnvironmentFailure(f"{path} has the whole file system as its prefix; name another with --python.")
    return dict(answer)


def bin_directory(interpreter: Interpreter) -> str:
    return str(Path(interpreter.python).parent)
