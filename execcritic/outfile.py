"""A file that a command writes beside its result: known to be writable before any work, there whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from pathlib import Path

from execcritic_scaffold.errors import ExecCriticError, InfrastructureError, UsageError


def check(path: Path, option: str) -> None:
    """Find out by trying whether a file can be written, and leave no trace. Raises UsageError."""
    try:
        if path.exists():
            os.close(os.open(path, os.O_WRONLY))
        if _replaceable(path):
            probe = _beside(path)
            try:
                probe.touch()
            finally:
                probe.unlink(missing_ok=True)
    except OSError as error:
        raise _refused(path, option, error) from None


def write(path: Path, data: bytes, option: str) -> None:
    """Write the file; one that is there is replaced as a whole. Raises UsageError, or InfrastructureError for a full
    disk, after which the old content, or no file, is there."""
    try:
        if not _replaceable(path):
            path.write_bytes(data)
            return
        partial = _beside(path)
        try:
            with open(partial, "xb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            if path.exists():
                shutil.copymode(path, partial)
            partial.replace(path.resolve())
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise _refused(path, option, error) from None


def _replaceable(path: Path) -> bool:
    """Whether this is a file, or will be one; not a pipe, a terminal or another device."""
    return path.is_file() or not path.exists()


def _beside(path: Path) -> Path:
    real = path.resolve()
    return real.with_name(f".execcritic-{secrets.token_hex(6)}")


def _refused(path: Path, option: str, error: OSError) -> ExecCriticError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InfrastructureError(f"The disk is full at {path}; free some space or name another file with {option}.")
    return UsageError(f"{path} cannot be written ({error.strerror}); name another file with {option}.")
