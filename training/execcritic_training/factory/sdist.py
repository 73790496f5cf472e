"""Where a package's source lies and which interpreter runs its tests; kept below the program's cache.

`ready` is the one door of the factory to this. Downloads, checkouts and environments are each made once, under a file
lock, and appear whole or not at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from execcritic import places
from execcritic_scaffold.errors import EnvironmentFailure
from execcritic_training.factory.packages import Package

BUILD_TOOLS = ("setuptools<70", "wheel", "setuptools_scm", "flit_core", "hatchling", "hatch-vcs", "poetry-core")
"""`pip download` asks a source distribution for its metadata; without build isolation these have to be there."""


def ready(package: Package) -> tuple[Path, str | None]:
    """The folder with the package's source and the interpreter with its pins, None for a checkout without pins: found
    as `execcritic` does. Raises EnvironmentFailure with the last words of what failed."""
    python = str(_environment(package.pins)) if package.pins else None
    return package.checkout or _source(package.sdist or ""), python


def _environment(pins: Sequence[str]) -> Path:
    name = hashlib.sha256("\n".join(sorted(pins)).encode()).hexdigest()[:12]

    def make(directory: Path) -> None:
        _run([sys.executable, "-m", "venv", directory])
        _run([directory / "bin" / "python", "-m", "pip", "install", "--quiet", *pins])

    return _once(places.cache() / "factory" / "venvs" / name, make) / "bin" / "python"


def _source(requirement: str) -> Path:
    def make(directory: Path) -> None:
        with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
            flags = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
            python = _environment(BUILD_TOOLS)
            _run([python, "-m", "pip", "download", "--quiet", *flags, "-d", f"{scratch}/archive", requirement])
            (archive,) = Path(scratch, "archive").iterdir()
            # Zip files have no members that leave the folder once unpacked by `shutil`.
            members = {} if archive.suffix == ".zip" else {"filter": "data"}
            shutil.unpack_archive(archive, Path(scratch, "tree"), **members)  # type: ignore[arg-type]
            (top,) = Path(scratch, "tree").iterdir()
            top.rename(directory)

    return _once(places.cache() / "factory" / "sources" / requirement.replace("==", "-"), make)


def _once(directory: Path, make: Callable[[Path], None]) -> Path:
    """`directory`, made by `make` unless it is complete; the marker beside it says that it is. Environments are not
    relocatable, so it is made in place."""
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


def _run(argv: Sequence[str | Path]) -> None:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        last = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-1:]
        what = " ".join(str(part) for part in argv[1:5])
        said = " ".join(last)
        raise EnvironmentFailure(f"{what} failed ({said}); check the name, the version and the package index.")
