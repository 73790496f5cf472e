"""Where the rows of a data set lie: a file, a folder of files or saved by `datasets`, or the Hugging Face hub."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from execcritic.batch.datasets.row import Row
from execcritic_scaffold.errors import UsageError

SUFFIXES = (".jsonl", ".json", ".parquet")
SPLITS = ("test", "train", "dev", "validation", "valid", "lite", "verified", "full", "filtered")
"""Names of files that are splits; files with other names are parts of one data set."""
_SHARD = re.compile(r"(?P<split>.+)-\d{5}-of-\d{5}")


class Source(Protocol):
    """Rows that can be read again. `split` is the one that was chosen, None where there are none."""

    @property
    def name(self) -> str: ...

    @property
    def split(self) -> str | None: ...

    def rows(self) -> Iterator[Row]:
        """All rows in order. Raises UsageError with the file and the row for what is no row."""
        ...


@dataclass(frozen=True)
class Files:
    """Rows in JSON, JSON lines or Parquet files, one after the other."""

    name: str
    split: str | None
    paths: tuple[Path, ...]

    def rows(self) -> Iterator[Row]:
        for path in self.paths:
            read = _parquet if path.suffix == ".parquet" else _lines if path.suffix == ".jsonl" else _json
            try:
                for number, cells in read(path):
                    where = f"{path.name}, row {number}"
                    if not isinstance(cells, dict):
                        raise UsageError(f"{where} is no object with columns; correct the data set.")
                    yield Row(where, cells)
            except OSError as error:
                raise UsageError(f"{path} cannot be read ({error.strerror or error}); check --dataset.") from None


@dataclass(frozen=True)
class Saved:
    """Rows that `save_to_disk` of the package `datasets` wrote."""

    name: str
    split: str | None
    folder: Path

    def rows(self) -> Iterator[Row]:
        loaded = package("datasets").load_from_disk(str(self.folder))
        for number, cells in enumerate(loaded, start=1):
            yield Row(f"{self.folder.name}, row {number}", cells)


def package(name: str) -> Any:
    """A package of the extra `swebench`, imported. Raises UsageError with the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(
            f"This data set needs the package {name.partition('.')[0]}; `pip install 'execcritic[swebench]'`."
        ) from None


def local(path: Path, split: str | None) -> Source:
    """The source at a path that exists. Raises UsageError, for an unknown split with those that are there."""
    name = str(path)
    if path.is_file():
        if path.suffix not in SUFFIXES:
            raise UsageError(f"{path} is none of {', '.join(SUFFIXES)}; give a file in one of these forms.")
        if split not in (None, _split(path)):
            raise UsageError(f"{path} is one file and has no split {split}; leave --split out, or give the folder.")
        return Files(name, split, (path,))
    saved = _saved(path)
    if saved:
        chosen = choose(name, sorted(saved), split)
        return Saved(name, chosen or None, saved[chosen])
    files = sorted(file for suffix in SUFFIXES for file in (*path.glob(f"*{suffix}"), *path.glob(f"data/*{suffix}")))
    files = [file for file in files if file.name not in ("dataset_info.json", "dataset_dict.json", "state.json")]
    splits: dict[str, list[Path]] = {}
    for file in files:
        splits.setdefault(_split(file) or "", []).append(file)
    if not files:
        raise UsageError(f"The folder {path} holds no data set ({', '.join(SUFFIXES)}); check --dataset.")
    chosen = choose(name, sorted(splits), split)
    return Files(name, chosen or None, tuple(splits[chosen]))


def choose(name: str, splits: Sequence[str], split: str | None) -> str:
    """The split that is asked for; where none is, `test`, else the only one. Raises UsageError with the known ones."""
    if split is not None and split in splits:
        return split
    if split is None and ("test" in splits or len(splits) == 1):
        return "test" if "test" in splits else splits[0]
    known = ", ".join(one or "(files that are no split)" for one in splits)
    if split is None:
        raise UsageError(f"{name} has several splits ({known}); name one with --split.")
    raise UsageError(f"{name} has no split {split}; it has {known}.")


def _split(file: Path) -> str | None:
    """The split that a file's name says it is (of): `test.jsonl`, `lite-00000-of-00002.parquet`."""
    shard = _SHARD.fullmatch(file.stem)
    return shard["split"] if shard else file.stem if file.stem in SPLITS else None


def _saved(folder: Path) -> dict[str, Path]:
    """Folders that `save_to_disk` wrote, by split; one without splits under ""."""
    if (folder / "state.json").is_file():
        return {"": folder}
    return {below.parent.name: below.parent for below in folder.glob("*/state.json")}


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, _parsed(line, f"{path.name}, row {number}")


def _json(path: Path) -> Iterator[tuple[int, Any]]:
    data = path.read_bytes()
    try:
        whole = json.loads(data)
    except ValueError as error:
        if getattr(error, "msg", "") == "Extra data":  # JSON lines under the other name
            yield from _lines(path)
            return
        whole = _parsed(data, path.name)
    if not isinstance(whole, list):
        if isinstance(whole, dict) and "instance_id" in whole:
            whole = [whole]
        else:
            raise UsageError(f"{path.name} holds no list of rows; correct the data set.")
    yield from enumerate(whole, start=1)


def _parsed(data: bytes, where: str) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UsageError(f"{where} is not UTF-8 text; correct the data set.") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON ({error}); correct the data set.") from None


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    parquet = package("pyarrow.parquet")
    try:
        number = 0
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for cells in batch.to_pylist():
                    number += 1
                    yield number, cells
    except ValueError as error:  # what pyarrow's own errors are
        raise UsageError(f"{path.name} is no Parquet file that can be read ({error}); correct the data set.") from None
