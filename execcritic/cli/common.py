"""Turning the shared options into a `Place` and a `Config`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from execcritic import config
from execcritic.places import Place
from execcritic_scaffold import programs
from execcritic_scaffold.errors import UsageError


def place(
    sandbox: str | None,
    python: str | None,
    image: str | None,
    setup: Sequence[str],
    source_root: Sequence[str],
    runner: str | None = None,
) -> Place:
    """What the options say about where code runs. `--python` may be a path or a name on PATH."""
    return Place(sandbox, _interpreter(python), image, tuple(setup), tuple(source_root) or None, runner)


def settings(
    section: str,
    file: Path | None,
    sets: Sequence[str],
    guard: str | None,
    guard_seconds: float | None,
    repeats: int | None,
) -> config.Config:
    """The configuration with the options that have names of their own laid over it."""
    own: dict[str, Any] = {}
    if guard in ("auto", "off"):
        own["guard"] = guard
    elif guard is not None:
        own |= {"guard": "list", "guard_nodes": lines(Path(guard), "--guard")}
    if guard_seconds is not None:
        own["guard_seconds"] = guard_seconds
    if repeats is not None:
        own["repeats"] = repeats
    return config.load(file, sets, {section: own} if own else None)


def work_settings(file: Path | None, sets: Sequence[str], base_url: str | None) -> config.Config:
    """The configuration of a command that calls models."""
    return config.load(file, sets, {"model": {"base_url": base_url}} if base_url else None)


def lines(path: Path, option: str) -> list[str]:
    """Node ids from a file, one a line; blank lines are passed over, nothing else is taken away from a line."""
    text = read(path, option)
    return [os.fsdecode(line) for line in text.split(b"\n") if line.strip()]


def read(path: Path, option: str) -> bytes:
    """Bytes of a file an option names; `-` is standard input."""
    try:
        return sys.stdin.buffer.read() if os.fspath(path) == "-" else path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); check {option}.") from None


def read_object(path: Path, option: str) -> dict[str, Any]:
    """A JSON object from a file an option names."""
    try:
        body = json.loads(read(path, option))
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({error}); check {option}.") from None
    if not isinstance(body, dict):
        raise UsageError(f"{path} does not hold a JSON object; check {option}.")
    return body


def bundle_folder(path: Path) -> Path:
    """The bundle at `path`, which may also be a run directory that holds one."""
    inside = path / "test" / "bundle"
    return inside if not (path / "bundle.json").exists() and (inside / "bundle.json").exists() else path


def _interpreter(python: str | None) -> str | None:
    if python is None or os.sep not in python:
        found = programs.find(python) if python else None
        if python and not found:
            raise UsageError(f"There is no {python} on PATH; check --python.")
        return found
    return str(Path(python).absolute())  # not resolved: a virtual environment is known by the link to its interpreter
