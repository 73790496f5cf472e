"""Predictions: one patch an instance, in the forms that the official evaluator reads, and that are about.

Written are a mapping by id (preds.json) and lines (preds.jsonl); read is a list too. A patch whose bytes are not UTF-8
stands in JSON with a lone surrogate for each such byte, and comes back as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from execcritic import outfile
from execcritic.batch.folder import Folder
from execcritic_scaffold.errors import UsageError

ID, MODEL, PATCH = "instance_id", "model_name_or_path", "model_patch"


@dataclass(frozen=True)
class Prediction:
    """The patch that `model` submits for an instance; it may be empty."""

    instance: str
    model: str
    patch: bytes = b""

    @property
    def row(self) -> dict[str, str]:
        return {ID: self.instance, MODEL: self.model, PATCH: self.patch.decode("utf-8", "surrogateescape")}


def write(folder: Folder, predictions: Iterable[Prediction]) -> None:
    """Replace both files, each as a whole. Raises UsageError, InfrastructureError for a full disk."""
    rows = [prediction.row for prediction in predictions]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    outfile.write(folder.prediction_lines, lines.encode(), "--out")
    by_id = json.dumps({row[ID]: row for row in rows}, indent=1) + "\n"
    outfile.write(folder.predictions, by_id.encode(), "--out")


def read(path: Path) -> dict[str, Prediction]:
    """Predictions by id from a list, a mapping by id, or lines, whatever the file is called.

    Raises UsageError for a file that is none of these, for an entry without a key (with its number), and for an id
    that is there twice (with the numbers of both).
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); name a file of predictions.") from None
    found: dict[str, Prediction] = {}
    places: dict[str, str] = {}
    for place, entry in _entries(path, data):
        prediction = _prediction(path, place, entry)
        if prediction.instance in found:
            first = places[prediction.instance]
            raise UsageError(f"{path} has {prediction.instance} twice ({first} and {place}); remove one of them.")
        found[prediction.instance], places[prediction.instance] = prediction, place
    return found


def _entries(path: Path, data: bytes) -> Iterator[tuple[str, Any]]:
    try:
        pairs: Any = json.loads(data, object_pairs_hook=list) if data.strip() else []
        whole: Any = json.loads(data) if data.strip() else []
    except (ValueError, RecursionError):
        yield from _lines(path, data)
        return
    if isinstance(whole, dict) and ID in whole:
        yield "line 1", whole
    elif isinstance(whole, dict):
        for number, (name, _) in enumerate(pairs, 1):  # a name that is there twice is only in the pairs
            value = whole[name]
            entry = {PATCH: value} if value is None or isinstance(value, str) else value
            yield f"entry {number}", {ID: name, MODEL: "", **entry} if isinstance(entry, dict) else entry
    elif isinstance(whole, list):
        for number, entry in enumerate(whole, 1):
            yield f"entry {number}", entry
    else:
        raise UsageError(f"{path} holds no predictions; write a list, a mapping by id, or one object a line.")


def _lines(path: Path, data: bytes) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path}, line {number} is not JSON ({error}); correct or remove it.") from None


def _prediction(path: Path, place: str, entry: Any) -> Prediction:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{path}, {place} is no object; write {ID}, {MODEL} and {PATCH} there.")
    for key in (ID, MODEL, PATCH):
        if key not in entry:
            there = ", ".join(map(str, entry)) or "no key"
            raise UsageError(
                f"{path}, {place} has no {key} (it has {there}); the evaluator reads {ID}, {MODEL}, {PATCH}."
            )
    values = [entry[ID], entry[MODEL], "" if entry[PATCH] is None else entry[PATCH]]
    for key, value in zip((ID, MODEL, PATCH), values, strict=True):
        if not isinstance(value, str):
            raise UsageError(f"{path}, {place}: {key} is no text; correct it.")
    try:
        return Prediction(values[0], values[1], values[2].encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise UsageError(f"{path}, {place}: {PATCH} holds characters that are no text; correct it.") from None
