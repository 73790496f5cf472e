"""The record of an episode: append-only JSON lines, one flush a line, nothing held in memory.

Each line is an object with an `event` and the `time` (seconds since the epoch):

    start     role_name, model, limits, tools
    message   role_name, turn, message: a system, user or tool message exactly as the model got it; action: for a
              command its exit_code, timed_out, seconds, bytes, left_behind, spooled (path, kept, dropped)
    reply     role_name, turn, message: the assistant message exactly as the provider gave it; `history`: what is sent
              back instead, where the two differ; finish_reason, usage, model, seconds, waited; correction: what the
              model was told where the text protocol found no action
    overflow  role_name, turn, reason: the endpoint refused the conversation for its length
    elision   role_name, turn, reason ("budget", "overflow"), before, after (characters), elided: position (from 0, the
              system message), tool_call_id and content of the messages that are replaced from now on; what they said
              before stays in their own lines
    stop      role_name, kind, reason, usage

`replay:FILE` runs such a file again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from execcritic_scaffold.errors import UsageError

Event = Mapping[str, Any]


class Trajectory:
    """Writes one trajectory. A torn last line of an interrupted run is cut off before anything is added.

    `observe` is called with every event after it is written (a live view).
    """

    def __init__(self, path: Path, observe: Callable[[Event], None] | None = None) -> None:
        self.path = path
        self._observe = observe
        self._file = open_lines(path)

    def append(self, event: str, **fields: Any) -> None:
        """Add one line. Raises OSError where the disk does not take it."""
        record = {"event": event, "time": round(time.time(), 3), **fields}
        write_line(self._file, record)
        if self._observe is not None:
            self._observe(record)

    def close(self) -> None:
        """Idempotent."""
        self._file.close()

    def __enter__(self) -> Trajectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_lines(path: Path) -> FileIO:
    """A JSON-lines file, unbuffered and open for appending; a torn last line is cut off. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = FileIO(path, "ab")
    try:
        _cut_torn_line(path, file)
    except OSError:
        file.close()
        raise
    return file


def write_line(file: FileIO, record: Mapping[str, Any]) -> None:
    """Add one object. Raises OSError where the disk does not take it."""
    # ASCII: a lone surrogate that a model sent is kept as an escape instead of failing here.
    line = json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
    while line:
        line = line[file.write(line) :]


def _cut_torn_line(path: Path, file: FileIO) -> None:
    size = os.fstat(file.fileno()).st_size
    with open(path, "rb") as existing:
        end = size
        while end:
            start = max(0, end - 65536)
            existing.seek(start)
            newline = existing.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
    if end != size:
        file.truncate(end)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON-lines file, one at a time; a torn last line is left out.

    Raises UsageError for a line in the middle that is no JSON object, OSError for a file that cannot be read.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                if not line.endswith(b"\n"):
                    return
                raise UsageError(f"{path}, line {number} is not JSON ({error}); repair or remove that line.") from None
            if not isinstance(record, dict):
                raise UsageError(f"{path}, line {number} is not a JSON object; repair or remove that line.")
            yield record
