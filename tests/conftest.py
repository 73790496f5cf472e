"""Repositories are judged with an interpreter that has pytest and nothing else.

The one that runs these tests has plugins: each run of a small test in a sandbox would import them, five times the work.
Tests about plugins say `sys.executable`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import venv
from importlib import metadata
from pathlib import Path

import pytest

DISTRIBUTIONS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_made: list[Path] = []


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return  # the environment is the first process's
    folder = Path(tempfile.mkdtemp(prefix="execcritic-python-"))
    folder.chmod(0o755)
    _made.append(folder)
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    for name in DISTRIBUTIONS:
        for file in metadata.files(name) or ():
            if ".." not in file.parts:  # no console scripts
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file.locate(), target)
    os.environ["VIRTUAL_ENV"] = str(folder)


def pytest_unconfigure() -> None:
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)
