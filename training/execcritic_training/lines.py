"""JSON lines that appear as a whole or not at all, written one at a time."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from execcritic_scaffold.errors import InfrastructureError, UsageError


def write(path: Path, rows: Iterable[Mapping[str, Any]], option: str) -> int:
    """Write the rows; returns how many. An error of whoever makes them leaves no file behind, nor does a full disk.

    ASCII: lone surrogates, which stand for bytes that are no text, stay escapes.
    """
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    count = 0
    try:
        with open(partial, "xb") as out:
            for row in rows:
                out.write(json.dumps(row, ensure_ascii=True).encode() + b"\n")
                count += 1
            out.flush()
            os.fsync(out.fileno())
        partial.replace(target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InfrastructureError(f"The disk is full at {path}; free some space and start again.") from None
        raise UsageError(f"{path} cannot be written ({error.strerror}); name another file with {option}.") from None
    finally:
        partial.unlink(missing_ok=True)
    return count
