"""What supervised training is fed: admitted conversations, and the rows of records. No torch.

Where sampled ids exist they are the sample; text is rendered only where there never were any. Longer samples are
treated by an explicit rule and counted; one without anything to train on is refused by its name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from execcritic_scaffold.errors import UsageError
from execcritic_training import admission
from execcritic_training.recordfile import parse
from execcritic_training.records import SCHEMA, Message, Record, require_template
from execcritic_training.rows import Counts, Row, Span, Window, build_rows, fitting

Render = Callable[[Sequence[Message], Sequence[Mapping[str, Any]]], tuple[list[int], list[int]]]
"""(messages, tools) -> the ids of the whole conversation, and 1 for each that the assistant said, its stop token too.
Raises ValueError for messages that the template refuses."""


@dataclass(frozen=True)
class Sample:
    """One sequence. `labels` are -100 where nothing is trained."""

    name: str
    ids: list[int]
    labels: list[int]


@dataclass
class Samples:
    """The samples of each split; `counts` says what became of rows, `cut_away` names those that the window left without
    a label, `rendered` counts conversations without ids."""

    train: list[Sample] = field(default_factory=list)
    validation: list[Sample] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    cut_away: list[str] = field(default_factory=list)
    rendered: int = 0

    @property
    def digest(self) -> str:
        """Names what is trained on, in its order: SHA-256, hex. A run that goes on with other samples is another."""
        whole = hashlib.sha256()
        for one in self.train:
            whole.update(json.dumps([one.ids, one.labels]).encode())
        return whole.hexdigest()

    @property
    def body(self) -> dict[str, Any]:
        """For the log."""
        kept = {"train": len(self.train), "validation": len(self.validation)}
        trained = sum(label >= 0 for one in self.train for label in one.labels)
        counts = {name: value for name, value in vars(self.counts).items() if name not in ("rows", "trained")}
        return {**kept, "trained_tokens": trained, "rendered": self.rendered, **counts, "cut_away": self.cut_away}


def read(paths: Iterable[Path], role: str, window: Window, render: Render, template: str) -> Samples:
    """The samples of files that `train admit` wrote, and of files of records; each line says what it is.

    `template` is the hash of the chat template that is trained. Raises UsageError that names file and line for what is
    neither, of the other role, rendered with another template, or without a label before anything was cut, and where
    nothing is left to train on.
    """
    found = Samples()
    for path in paths:
        for where, line in _lines(path):
            try:
                name, split, rows = _rows(line, where, role, render, template, found)
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(
                    f"{where} cannot be rendered ({error}); check the messages and the template."
                ) from None
            if not any(row.trained for row in rows):
                raise UsageError(f"{where} ({name}) has no token to train on; remove it.")
            dropped = found.counts.dropped
            pieces = [piece for row in rows for piece in fitting(row, window, found.counts)]
            if not pieces and found.counts.dropped == dropped:
                found.cut_away.append(name)
            into = found.validation if split == "validation" else found.train
            into += [Sample(name, piece.ids, piece.labels) for piece in pieces]
    if not found.train:
        raise UsageError(
            f"Nothing is left to train on ({found.counts.dropped} samples are longer than {window.tokens} tokens, "
            f"{len(found.cut_away)} have no label within); raise window.tokens or name other files."
        )
    return found


def _rows(
    line: Mapping[str, Any], where: str, role: str, render: Render, template: str, found: Samples
) -> tuple[str, str | None, list[Row]]:
    """(name, split, rows before the window) of a line."""
    if line.get("schema") == SCHEMA:
        record = parse(line, where)
        name, split, said = record.id, record.task.split, record.role
        if any(turn.tokens is not None for turn in record.turns):
            _check_role(said, role, where)
            require_template(record, template)
            rows, counts = build_rows([record])
            found.counts.add(counts)
            return name, split, rows
        messages, tools = _talk(record)
    elif line.get("schema") == admission.SCHEMA:
        name, split, said = str(line["instance_id"]), line.get("split"), line["role"]
        messages, tools = line["messages"], line["tools"]
    else:
        raise UsageError(
            f"{where} is of the schema {line.get('schema')!r}; name files that `train admit` wrote, or records."
        )
    _check_role(said, role, where)
    found.rendered += 1
    ids, mask = render(messages, tools)
    return name, split, [rendered_row(name, ids, mask)]


def rendered_row(name: str, ids: list[int], mask: list[int]) -> Row:
    """A row of a rendered conversation; each run of trained tokens is a turn. The first token is never trained."""
    row = Row(name, ids, bytearray(mask), None)
    if row.mask:
        row.mask[0] = 0
    at, start = 0, 0
    for trained, run in groupby(row.mask):
        end = at + len(list(run))
        if trained:
            row.spans.append(Span(len(row.spans), start, at, end))
            start = end
        at = end
    return row


def _talk(record: Record) -> tuple[list[Message], list[dict[str, Any]]]:
    return record.conversation(), record.tools


def _check_role(said: str, role: str, where: str) -> None:
    if said != role:
        raise UsageError(f"{where} is of the role {said}; the recipe trains {role}.")


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                where = f"{path}, line {number}"
                try:
                    body = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise UsageError(f"{where} is not JSON ({error}); repair or remove that line.") from None
                if not isinstance(body, dict):
                    raise UsageError(f"{where} is no sample; name files that `train admit` wrote, or records.")
                yield where, body
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}); name files that `train admit` wrote, or records."
        ) from None
