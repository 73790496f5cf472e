"""Source distributions and the environments that they are tested in, from a package index.

pip asks the index that this machine's configuration names. It runs what the packages bring to be built (as pip always
does), as this user, but without this process's variables: keys of models are none of its business.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from execcritic.batch import checkouts, kept
from execcritic.batch.instance import Sdist
from execcritic_scaffold import base as bases
from execcritic_scaffold.errors import EnvironmentFailure, PatchError
from execcritic_scaffold.store import Store

PYTHON = (3, 11)
"""Pins are recorded with one version of CPython, and have no wheels for much else."""
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
_PASSED = re.compile(
    r"PATH|HOME|LANG|LC_\w+|TMPDIR|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|PIP_\w+|XDG_\w+|\w+_proxy", re.IGNORECASE
)


def checkout(source: Sdist, store: Store, root: Path | None = None) -> Path:
    """The release as a checkout with one commit, `base_patch` applied. Kept below `root` (default: the cache).

    Nobody may write to it: instances of one release share it. Raises EnvironmentFailure with the last words of what
    failed, PatchError where `base_patch` does not apply.
    """
    folder = (root or kept.root()) / "checkouts"
    name = source.requirement.replace("==", "-")
    whole = kept.once(folder / name, lambda directory: _fetch(source.requirement, directory, root))
    if not source.base_patch:
        return whole
    digest = hashlib.sha256(source.base_patch).hexdigest()[:16]

    def patched(directory: Path) -> None:
        try:
            tree = store.apply(bases.snapshot(whole, store).tree, source.base_patch)
        except PatchError as error:
            raise PatchError(f"The base_patch of {source.requirement} cannot be used: {error}") from None
        checkouts.write(store, tree, directory)

    return kept.once(folder / f"{name}-{digest}", patched)


def environment(packages: Sequence[str], root: Path | None = None) -> Path:
    """The interpreter of a virtual environment that holds these packages, made once per set below `root`.

    Raises EnvironmentFailure with the last words of what failed.
    """
    name = hashlib.sha256("\n".join(sorted(packages)).encode()).hexdigest()[:12]

    def make(directory: Path) -> None:
        _run([_python(), "-m", "venv", directory])
        if packages:
            _run([directory / "bin" / "python", "-m", "pip", "install", "--quiet", "--", *packages])

    return kept.once((root or kept.root()) / "venvs" / name, make) / "bin" / "python"


def _fetch(requirement: str, directory: Path, root: Path | None) -> None:
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        python = environment(BUILD_TOOLS, root)
        flags = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
        archives = Path(scratch, "archives")
        _run([python, "-m", "pip", "download", "--quiet", *flags, "-d", archives, "--", requirement])
        unpack(next(archives.iterdir()), Path(scratch, "tree"))
        tops = list(Path(scratch, "tree").iterdir())
        if len(tops) != 1 or not tops[0].is_dir() or tops[0].is_symlink():
            raise EnvironmentFailure(f"The source distribution {requirement} is not one folder; name another release.")
        tops[0].rename(directory)
    checkouts.commit(directory)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a source distribution: nothing lands outside `folder`, and what is a git directory is left out.

    Raises EnvironmentFailure for an archive that cannot be read or wants to write elsewhere.
    """
    try:
        if archive.suffix == ".zip":  # which has no filters, and needs none
            shutil.unpack_archive(archive, folder)
        else:
            shutil.unpack_archive(archive, folder, filter="data")
    except (OSError, ValueError, EOFError, tarfile.TarError) as error:
        raise EnvironmentFailure(f"{archive.name} cannot be unpacked ({error}); name another release.") from None
    for hidden in [path for path in folder.rglob("*") if path.name.lower() == ".git"]:
        if hidden.is_dir() and not hidden.is_symlink():
            shutil.rmtree(hidden, ignore_errors=True)
        else:
            hidden.unlink(missing_ok=True)


def _python() -> str:
    if sys.version_info[:2] == PYTHON:
        return sys.executable
    name = "python{}.{}".format(*PYTHON)
    found = shutil.which(name)
    if found is None:
        raise EnvironmentFailure(f"The pinned environments need {name}, which is not on PATH; install it.")
    return found


def _run(argv: Sequence[str | Path]) -> None:
    env = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        last = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-1:]
        raise EnvironmentFailure(f"{' '.join(map(str, argv[1:5]))} failed: {' '.join(last)}")
