"""Reading a run directory that may be half-written, damaged, huge or hostile: within bounds, and never failing.

What is missing is noted instead. Links are not followed and pipes not opened: a folder that came from elsewhere must
not make a report hold what lies outside of it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

JSON_BYTES = 8 << 20
LINE_BYTES = 4 << 20
LINES_BYTES = 256 << 20


@dataclass
class Folder:
    """A run directory. `notes` tells what is missing or left out, in sentences."""

    directory: Path
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def data(self, name: str, most: int, needed: bool = False) -> bytes | None:
        """At most `most` bytes of a file, None where there is none; a note where it is longer, or `needed`."""
        file = self._open(name, needed)
        if file is None:
            return None
        with file:
            found = file.read(most + 1)
            size = os.fstat(file.fileno()).st_size
        if len(found) > most:
            self.note(f"Of {name}, which has {size} bytes, only the first {most} were read.")
        return found[:most]

    def text(self, name: str, most: int, needed: bool = False) -> str | None:
        """As `data`, decoded; bytes that are not UTF-8 are replaced."""
        found = self.data(name, most, needed)
        return None if found is None else found.decode("utf-8", "replace")

    def json(self, name: str, needed: bool = False) -> dict[str, Any]:
        """The JSON object of a file; empty where there is none."""
        found = self.data(name, JSON_BYTES, needed)
        if found is None:
            return {}
        body = _object(found)
        if body is None:
            self.note(f"{name} is not a whole JSON object; it is left out.")
        return body or {}

    def lines(self, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """The JSON objects of a file with their line numbers, from 1; lines that are none are counted in a note."""
        file = self._open(name)
        if file is None:
            return
        bad = number = read = 0
        with file:
            while line := file.readline(LINE_BYTES):
                number += 1
                read += len(line)
                body = _object(line)
                if body is not None:
                    yield number, body
                elif line.strip():
                    bad += 1
                while line and not line.endswith(b"\n") and read < LINES_BYTES:
                    line = file.readline(LINE_BYTES)
                    read += len(line)
                if read >= LINES_BYTES:
                    self.note(f"Of {name} only the first {read} bytes were read.")
                    break
        if bad:
            self.note(f"{name} has {bad} line(s) that cannot be read: torn, no JSON object, or too long.")

    def names(self, name: str, most: int = 1000) -> list[str]:
        """The names in a folder, sorted."""
        if not self._inside(name):
            return []
        try:
            with os.scandir(self.directory / name) as entries:
                return sorted(entry.name for _, entry in zip(range(most), entries, strict=False))
        except OSError:
            return []

    def size(self, name: str) -> int:
        """Bytes of all files directly in a folder."""
        folder = self.directory / name
        try:
            return sum((folder / one).lstat().st_size for one in self.names(name))
        except OSError:
            return 0

    def _inside(self, name: str) -> bool:
        try:
            return (self.directory / name).resolve().is_relative_to(self.directory.resolve())
        except (OSError, RuntimeError):
            return False

    def _open(self, name: str, needed: bool = False) -> BinaryIO | None:
        why = "is missing"
        try:
            if not self._inside(name):
                raise PermissionError("leads outside of the run")
            handle = os.open(self.directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            if stat.S_ISREG(os.fstat(handle).st_mode):
                return os.fdopen(handle, "rb")
            os.close(handle)
            why = "is no regular file"
        except FileNotFoundError:
            if not needed:
                return None
        except (OSError, ValueError) as error:
            why = f"cannot be read ({getattr(error, 'strerror', None) or error})"
        self.note(f"{name} {why}.")
        return None


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
