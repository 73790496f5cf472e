"""STAND-IN, replaced when the data sets are merged: JSON lines of checkouts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from execcritic.batch.instance import Checkout, Gold, Instance
from execcritic_scaffold.errors import UsageError


@dataclass(frozen=True)
class Dataset:
    rows: Mapping[str, Mapping[str, Any]]
    digest: str

    @property
    def instances(self) -> tuple[Instance, ...]:
        return tuple(
            Instance(name, row["repo"], row["problem_statement"], Checkout(row["path"]))
            for name, row in self.rows.items()
        )

    def gold(self, name: str) -> Gold:
        row = self.rows[name]
        return Gold(name, row["patch"].encode(), row["test_patch"].encode(), tuple(row["FAIL_TO_PASS"]))


def select(
    dataset: Dataset, *, pattern: str | None = None, part: str | None = None, shard: str | None = None
) -> tuple[Instance, ...]:
    start, _, stop = (part or ":").partition(":")
    return dataset.instances[int(start or 0) : int(stop) if stop else None]


def load(name: str, split: str | None = None) -> Dataset:
    if not Path(name).is_file():
        raise UsageError(f"There is no data set {name}; check --dataset.")
    data = Path(name).read_bytes()
    rows = [json.loads(line) for line in data.splitlines() if line.strip()]
    return Dataset({row["instance_id"]: row for row in rows}, hashlib.sha256(data).hexdigest())
