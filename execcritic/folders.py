"""Output folders: new or empty before any work is done, and gone again where nothing came of it."""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from execcritic_scaffold.errors import ExecCriticError, InfrastructureError, UsageError


def default() -> Path:
    """Where a run goes that was given no folder; its name sorts by time."""
    return Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def hide(directory: Path) -> None:
    """Have git pass the folder over: a run inside the checkout is no part of the next run's Base."""
    (directory / ".gitignore").write_text("*\n")


def make_new(directory: Path, otherwise: str = "") -> list[Path]:
    """Make an output folder that must be new or empty, before any work is done.

    Returns the folders that were not there before, the outermost first. Raises UsageError, with what else could be
    done (`otherwise`) where the folder is taken; InfrastructureError for a full disk. Then nothing new is left.
    """
    directory = directory.absolute()
    made: list[Path] = []
    try:
        made = [folder for folder in (*reversed(directory.parents), directory) if not folder.exists()]
        directory.mkdir(parents=True, exist_ok=True)
        taken = any(directory.iterdir())
        probe = directory / f".{secrets.token_hex(4)}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        drop_empty(made)
        raise _unusable(directory, error) from None
    if taken:
        more = f", {otherwise}" if otherwise else ""
        raise UsageError(f"{directory} is not empty; name a new folder with --out{more}.")
    return made


def _unusable(directory: Path, error: OSError) -> ExecCriticError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InfrastructureError(f"The disk is full at {directory}; free some space or name another --out.")
    if isinstance(error, FileExistsError | NotADirectoryError):
        file = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
        return UsageError(f"{file} is not a folder; name another one with --out.")
    return UsageError(f"No folder can be made at {directory} ({error.strerror}); name another one with --out.")


def drop_empty(made: Sequence[Path]) -> None:
    """Remove those of the folders that `make_new` made in which nothing was written after all."""
    for folder in reversed(made):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
