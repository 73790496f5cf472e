"""Turning the shared options into a `Place` and a `Config`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from execcritic import clones, config, credentials
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
        own |= {"guard": "list", "guard_nodes": node_ids(Path(guard), "--guard")}
    if guard_seconds is not None:
        own["guard_seconds"] = guard_seconds
    if repeats is not None:
        own["repeats"] = repeats
    return config.load(file, sets, {section: own} if own else None)


def work_settings(
    file: Path | None, sets: Sequence[str], base_url: str | None, comments: bool = False
) -> config.Config:
    """The configuration of a command that calls models."""
    model = {"model": {"base_url": base_url}} if base_url else {}
    return config.load(file, sets, model | ({"github": {"comments": True}} if comments else {}))


def node_ids(path: Path, option: str) -> list[str]:
    """Node ids from a file, one a line; blanks around them (a Windows line end too) and empty lines do not count.

    Raises UsageError for a list that names no test, and for a line that names a file or a folder.
    """
    found = [os.fsdecode(line.strip()) for line in read(path, option).splitlines() if line.strip()]
    if not found:
        raise UsageError(f"{path} names no test; list node ids in it, one a line, or leave {option} out.")
    for node in found:
        if "::" not in node and " " not in node and ("/" in node or node.endswith(".py")):
            raise UsageError(
                f"{path} names the file {node}, not tests; list their node ids "
                f"(`pytest --collect-only -q {node}` prints them); check {option}."
            )
    return found


def folder(repo: str) -> Path:
    """The checkout that `--repo` names, where a URL does not do."""
    if clones.is_url(repo):
        raise UsageError(f"Only a folder is accepted here; clone {credentials.masked_url(repo)} and name it.")
    return Path(repo)


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
    if path.is_file():
        raise UsageError(f"{path} is a file; name the folder {path.parent} with --bundle.")
    inside = path / "test" / "bundle"
    if (path / "journal.jsonl").exists() and not inside.exists():
        raise UsageError(f"{path} is a run in which no test qualified; name one that froze a test, or a bundle.")
    return inside if not (path / "bundle.json").exists() and (inside / "bundle.json").exists() else path


def _interpreter(python: str | None) -> str | None:
    if python is None or os.sep not in python:
        found = programs.find(python) if python else None
        if python and not found:
            raise UsageError(f"There is no {python} on PATH; check --python.")
        return found
    if not os.access(python, os.X_OK) or not Path(python).is_file():
        raise UsageError(f"{python} is no program that can be started; check --python.")
    return str(Path(python).absolute())  # not resolved: a virtual environment is known by the link to its interpreter
