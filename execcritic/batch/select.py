"""STAND-IN, replaced when the data sets are merged."""

from __future__ import annotations

import re
from collections.abc import Sequence

from execcritic.batch.instance import Instance
from execcritic_scaffold.errors import UsageError


def select(
    instances: Sequence[Instance], pattern: str | None, slice_: str | None, shard: str | None
) -> tuple[Instance, ...]:
    kept = [one for one in instances if pattern is None or re.search(pattern, one.id)]
    if slice_:
        start, _, end = slice_.partition(":")
        kept = kept[int(start or 0) : int(end) if end else None]
    if shard:
        index, _, count = shard.partition("/")
        kept = kept[int(index) - 1 :: int(count)]
    if not kept:
        raise UsageError("No instance is selected; check --filter, --slice and --shard.")
    return tuple(kept)
