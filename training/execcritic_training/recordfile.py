"""Files of records: JSON lines, appended one at a time, read with errors that name file and line."""

from __future__ import annotations

import errno
import fcntl
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import ValidationError

from execcritic_roles.trajectory import open_lines, write_line
from execcritic_scaffold.errors import InfrastructureError, UsageError
from execcritic_training.records import SCHEMA, Record, require_template, require_tokens


class RecordWriter:
    """Appends records to a file; a torn last line of a killed run is cut off first. One process at a time.

    Raises UsageError where the file cannot be opened or another process has it open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = open(path, "ab")  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise UsageError(f"{path} cannot be written ({error.strerror}); name another file.") from None
        try:
            # Before the torn line is cut: it may be the line that another process is writing now.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file = open_lines(path)
        except BlockingIOError:
            self._lock.close()
            raise UsageError(f"{path} is in use by another process; wait for it or name another file.") from None

    def append(self, record: Record) -> None:
        """Add one record. Raises InfrastructureError where the disk does not take it."""
        try:
            write_line(self._file, record.to_json())
        except OSError as error:
            step = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "check the disk"
            raise InfrastructureError(f"{self._path} cannot be written ({error.strerror}); {step}.") from None

    def close(self) -> None:
        """Idempotent."""
        self._file.close()
        self._lock.close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_records(path: Path, *, tokens: bool = False, template: str | None = None) -> Iterator[Record]:
    """The records of a file, one at a time.

    With `tokens`, a record without ids and log-probabilities is refused; with `template` (a hash) one that was rendered
    with another chat template. Raises UsageError that names file and line for those, for a line that is torn
    or no record, and for a record of another schema.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); name a file of records.") from None
    with file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            record = _parse(line, where)
            try:
                if tokens:
                    require_tokens(record)
                if template is not None:
                    require_template(record, template)
            except UsageError as error:
                raise UsageError(f"{where}: {error}") from None
            yield record


def _parse(line: bytes, where: str) -> Record:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        if not line.endswith(b"\n"):
            raise UsageError(f"{where} is torn, as a killed run leaves it; remove it, or go on with the run.") from None
        raise UsageError(f"{where} is not JSON ({error}); repair or remove that line.") from None
    if not isinstance(body, dict):
        raise UsageError(f"{where} is no record; name a file of records.")
    if (schema := body.get("schema")) != SCHEMA:
        raise UsageError(
            f"{where} is of the schema {schema!r}, this program reads {SCHEMA!r}; collect it again, or use the version "
            "that wrote it."
        )
    return parse(body, where)


def parse(body: Mapping[str, Any], where: str) -> Record:
    """The record of a line's JSON object. Raises UsageError that begins with `where`."""
    try:
        return Record.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{where}: {field + ': ' if field else ''}{said}; repair or remove that line.") from None
