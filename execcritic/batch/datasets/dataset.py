"""A data set: instances that may be given to anybody, and gold that is read again from its source when asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from execcritic.batch.datasets import dialects
from execcritic.batch.datasets.hub import ALIASES, hub
from execcritic.batch.datasets.row import Row
from execcritic.batch.datasets.sources import SUFFIXES, Source, local
from execcritic.batch.folder import is_id
from execcritic.batch.images import ImageSettings
from execcritic.batch.instance import Gold, Instance
from execcritic_scaffold.errors import UsageError


@dataclass(frozen=True)
class Dataset:
    """`digest` is the SHA-256 (hex) of all rows with all their columns. No gold is held until `gold` is called, and
    none goes along where a Dataset is pickled."""

    name: str
    split: str | None
    dialect: str
    digest: str
    instances: tuple[Instance, ...] = field(repr=False)
    source: Source = field(repr=False)

    @property
    def description(self) -> str:
        """The data set in a few words, for messages and reports."""
        split = f" ({self.split})" if self.split else ""
        return f"{self.name}{split}, {len(self.instances)} instances of {self.dialect}"

    def gold(self, instance: str) -> Gold:
        """The gold of one instance. Raises UsageError for an unknown id, and where the source has changed since."""
        if instance not in self._gold:
            raise UsageError(f"{self.name} has no instance {instance}; check the id.")
        return self._gold[instance]

    @cached_property
    def _gold(self) -> dict[str, Gold]:
        content = hashlib.sha256()
        found = {gold.instance: gold for gold in (spoken.gold(row) for row, spoken in _read(self.source, content))}
        if content.hexdigest() != self.digest:
            raise UsageError(f"{self.name} has changed since it was read; start again with --dataset as it is now.")
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_gold"}


def load(name: str, split: str | None = None, images: ImageSettings | None = None) -> Dataset:
    """The data set of that name: an alias, a file, a folder, or `owner/name` on the Hugging Face hub.

    `images` says how the images of rows that name none are called, and where they are pulled from. Every row is read
    whole, gold too, so that what is wrong is known before anything is run. Raises UsageError with the row and the
    column, and for an empty data set; InfrastructureError where the hub cannot be reached.
    """
    source = _source(name, split)
    content = hashlib.sha256()
    instances: list[Instance] = []
    seen: dict[str, str] = {}
    spoken: dialects.Dialect | None = None
    for row, spoken in _read(source, content):
        instance = spoken.instance(row, images or ImageSettings())
        spoken.gold(row)
        if not is_id(instance.id):
            raise row.fault("instance_id", f"{instance.id[:80]!r} cannot be the name of a folder")
        # Some file systems, and all registries, take two names for one that differ in case only.
        key = instance.id.casefold()
        if key in seen:
            raise row.fault("instance_id", f"{instance.id} is also the id of {seen[key]}")
        seen[key] = row.where
        instances.append(instance)
    if spoken is None:
        raise UsageError(f"{source.name} holds no instances; check --dataset and --split.")
    return Dataset(source.name, source.split, spoken.name, content.hexdigest(), tuple(instances), source)


def _read(source: Source, content: Any) -> Iterator[tuple[Row, dialects.Dialect]]:
    """Rows with their dialect, which is the same for all; `content` is fed with them."""
    first: tuple[str, dialects.Dialect] | None = None
    for row in source.rows():
        spoken = dialects.of(row)
        first = first or (row.where, spoken)
        if spoken != first[1]:
            raise UsageError(
                f"{row.where} is written as {spoken.name}, {first[0]} as {first[1].name}; give data sets of one form."
            )
        content.update(json.dumps(row.cells, sort_keys=True, default=str).encode() + b"\n")
        yield row, spoken


def _source(name: str, split: str | None) -> Source:
    if alias := ALIASES.get(name.lower()):
        return hub(alias, split)
    path = Path(name)
    if path.exists():
        return local(path, split)
    if path.suffix in SUFFIXES or path.is_absolute() or name.count("/") != 1 or name.startswith((".", "~")):
        known = ", ".join(ALIASES)
        raise UsageError(f"There is no data set {name}; give {known}, a file, a folder, or OWNER/NAME on Hugging Face.")
    return hub(name, split)
