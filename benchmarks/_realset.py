"""Real bugs made runnable: an instance of ../shared/realset becomes a git checkout, an interpreter and source roots.

Shared by the benchmarks and by tests/realset. Everything fetched is kept below `cache()`: one checkout per source
distribution (instances of one release share it, nobody writes to it) and one virtual environment per set of pins.
Several processes may ask at once: each entry is made under a file lock and appears whole or not at all.

    python benchmarks/_realset.py [ID ...]      fill the cache and print where each instance lies
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from execcritic import places

SHARED = Path(__file__).resolve().parents[2] / "shared" / "realset" / "instances.jsonl"
BUILD_TOOLS = (
    "setuptools<70",
    "wheel",
    "setuptools_scm",
    "flit_core",
    "hatchling",
    "hatch-vcs",
    "poetry-core",
    "numpy<2",
    "packaging",
)
"""`pip download` runs an sdist's metadata hook; without build isolation these have to be there already."""

Instance = dict[str, Any]


class Unavailable(Exception):
    """The instance cannot be had on this machine (no data, no interpreter, no package index); the text says why."""


@dataclass(frozen=True)
class Checkout:
    """A real bug, ready: `repo` has one commit and a clean work tree, `python` holds the pins, nothing else."""

    repo: Path
    python: Path
    source_roots: tuple[str, ...]


def cache() -> Path:
    """Where downloads, checkouts and environments are kept: below `EXECCRITIC_CACHE`, else the program's own cache."""
    return Path(os.environ.get("EXECCRITIC_CACHE") or places.cache()).resolve() / "realset"


@functools.cache
def instances() -> dict[str, Instance]:
    """Every instance by id, in file order. Raises Unavailable where the data is not on this machine."""
    if not SHARED.is_file():
        raise Unavailable("../shared/realset is not here")
    with SHARED.open(encoding="utf-8") as lines:
        return {one["instance_id"]: one for one in map(json.loads, lines)}


def checkout(instance: Instance) -> Checkout:
    """Fetch and build what the instance needs, once. Raises Unavailable with the last words of what failed."""
    return Checkout(_source(instance["sdist"]), environment(instance["python_pins"]), (instance["python_path"],))


def environment(packages: Sequence[str]) -> Path:
    """The interpreter of a virtual environment that holds these packages, made once per set."""
    name = hashlib.sha256("\n".join(sorted(packages)).encode()).hexdigest()[:12]

    def make(directory: Path) -> None:
        _run([_python311(), "-m", "venv", directory])
        _run([directory / "bin" / "python", "-m", "pip", "install", "--quiet", *packages])

    return _once(cache() / "venvs" / name, make) / "bin" / "python"


def commit(tree: Path) -> None:
    """Make `tree` a git repository with one commit of everything, untouched by the user's configuration."""
    identity = {f"GIT_{who}_{what}": "base" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    isolated = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    env = {"PATH": os.environ["PATH"], "HOME": os.devnull, **identity, **isolated}
    for argv in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "--no-verify", "-m", "base"]):
        _run(["git", "-c", "core.autocrlf=false", "-c", "gc.auto=0", *argv], cwd=tree, env=env)


def _source(sdist: str) -> Path:
    def make(directory: Path) -> None:
        with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
            python = environment(BUILD_TOOLS)
            flags = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
            _run([python, "-m", "pip", "download", "--quiet", *flags, "-d", f"{scratch}/archive", sdist])
            (archive,) = Path(scratch, "archive").iterdir()
            members = {} if archive.suffix == ".zip" else {"filter": "data"}
            shutil.unpack_archive(archive, Path(scratch, "tree"), **members)  # type: ignore[arg-type]
            (top,) = Path(scratch, "tree").iterdir()
            top.rename(directory)
        commit(directory)

    return _once(cache() / "checkouts" / sdist.replace("==", "-"), make)


def _once(directory: Path, make: Callable[[Path], None]) -> Path:
    """`directory`, made by `make` unless it is complete. Environments are not relocatable, so it is made in place;
    the marker beside it is what says that it is whole."""
    done = directory.with_name(directory.name + ".ok")
    if not done.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with _lock(directory.with_name(directory.name + ".lock")):
            if not done.exists():
                shutil.rmtree(directory, ignore_errors=True)
                make(directory)
                done.touch()
    return directory


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _python311() -> str:
    """The pins were recorded with CPython 3.11 and have no wheels for much else."""
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    found = shutil.which("python3.11")
    if found is None:
        raise Unavailable("the pinned environments need python3.11, which is not on PATH")
    return found


def _run(argv: Sequence[str | Path], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        last = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-1:]
        raise Unavailable(f"{' '.join(map(str, argv[:4]))} failed: {' '.join(last)}")


def main(names: Sequence[str]) -> int:
    """Fill the cache; exit status 1 when an instance could not be had."""
    failed = 0
    for name in names or instances():
        try:
            ready = checkout(instances()[name])
            print(name, ready.repo, ready.python, *ready.source_roots, flush=True)
        except Unavailable as reason:
            failed += 1
            print(name, "FAILED", reason, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
