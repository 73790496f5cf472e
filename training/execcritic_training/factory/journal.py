"""What a data set in the making has already: rows by id, and the functions that are done. Appended, never rewritten.

::

    instances.jsonl  one task a line
    journal.jsonl    first what was asked; then one line a function: what was tried, what came of it
    summary.json     yields by family, what was dropped and why
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from execcritic_scaffold.errors import UsageError


class Journal:
    """The folder of one data set; one process writes it."""

    def __init__(self, folder: Path, asked: Mapping[str, Any]) -> None:
        """Open or begin it. A line that a killed process left half-written is cut off, and so are rows of a function
        that has no line yet. Raises UsageError where the folder was begun with something else."""
        folder.mkdir(parents=True, exist_ok=True)
        self._rows = _Lines(folder / "instances.jsonl")
        self._log = _Lines(folder / "journal.jsonl")
        if not self._log.records:
            self._log.append([{"asked": dict(asked)}])
        elif self._log.records[0].get("asked") != dict(asked):
            raise UsageError(f"{folder} was begun with other options; give the same ones, or another --out.")
        self.done = {record["function"]: record for record in self._log.records[1:]}
        known = {name for record in self.done.values() for name in record["instances"]}
        keep = 0
        while keep < len(self._rows.records) and self._rows.records[keep]["instance_id"] in known:
            keep += 1
        self._rows.keep(keep)
        self._folder = folder

    @property
    def ids(self) -> set[str]:
        return {name for record in self.done.values() for name in record["instances"]}

    def add(self, function: str, package: str, rows: Sequence[Mapping[str, Any]], counts: Mapping[str, Any]) -> None:
        """Rows first: a function counts as done once its line is there."""
        self._rows.append(rows)
        record = {
            "function": function,
            "package": package,
            "instances": [row["instance_id"] for row in rows],
            "families": [row["family"] for row in rows],
            "splits": [row["split"] for row in rows],
            **counts,
        }
        self._log.append([record])
        self.done[function] = record

    def summarise(self, body: Mapping[str, Any]) -> None:
        (self._folder / "summary.json").write_text(json.dumps(body, indent=1) + "\n")

    def close(self) -> None:
        self._rows.close()
        self._log.close()


class _Lines:
    """A file of JSON lines that is appended to."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = open(path, "ab+")  # noqa: SIM115 (closed by `close`)
        self._file.seek(0)
        self.records: list[dict[str, Any]] = []
        self._ends = [0]
        for line in self._file.read().splitlines(keepends=True):
            try:
                record = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                record = None
            if not isinstance(record, dict):
                break
            self.records.append(record)
            self._ends.append(self._ends[-1] + len(line))
        self.keep(len(self.records))

    def keep(self, count: int) -> None:
        """Cut off what stands after the first `count` records."""
        self.records = self.records[:count]
        self._file.truncate(self._ends[count])

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._file.write(b"".join(json.dumps(one).encode() + b"\n" for one in records))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
