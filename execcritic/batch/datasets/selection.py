"""Which instances of a data set a run takes. The data set's own order is kept, and the shard is taken last."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from execcritic.batch.datasets.dataset import Dataset
from execcritic.batch.instance import Instance
from execcritic_scaffold.errors import UsageError

NAMED = 5
"""Ids that a message lists."""


def select(
    dataset: Dataset,
    *,
    ids: Iterable[str] | None = None,
    pattern: str | None = None,
    part: str | None = None,
    shard: str | None = None,
) -> tuple[Instance, ...]:
    """Instances with these ids, of which those whose id `pattern` is found in, of which the slice `part` (A:B, as
    Python counts), of which shard I of N ("I/N", from 1). All shards together are the whole, and none overlap.

    Only a shard may be empty (more shards than instances). Raises UsageError, with near ids, where anything else asked
    for is not there.
    """
    found = dataset.instances if ids is None else _named(dataset, ids)
    found = _matching(found, pattern, dataset) if pattern is not None else found
    found = _part(found, part) if part is not None else found
    return found if shard is None else _shard(found, shard)


def _named(dataset: Dataset, ids: Iterable[str]) -> tuple[Instance, ...]:
    wanted = list(dict.fromkeys(ids))
    known = [instance.id for instance in dataset.instances]
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise UsageError(f"{dataset.name} has no instance {_some(unknown)}; {_near(unknown[:NAMED], known)}.")
    if not wanted:
        raise UsageError("No instance is named; give ids, or leave the choice of ids out.")
    return tuple(instance for instance in dataset.instances if instance.id in set(wanted))


def _matching(found: Sequence[Instance], pattern: str, dataset: Dataset) -> tuple[Instance, ...]:
    try:
        regex = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"--filter {pattern!r} is no regular expression ({error}); correct it.") from None
    matching = tuple(instance for instance in found if regex.search(instance.id))
    if not matching:
        ids = [instance.id for instance in found]
        raise UsageError(
            f"--filter {pattern!r} is found in none of {len(ids)} ids of {dataset.name}; {_near([pattern], ids)}."
        )
    return matching


def _part(found: tuple[Instance, ...], part: str) -> tuple[Instance, ...]:
    bounds = re.fullmatch(r"(-?\d{1,9})?:(-?\d{1,9})?", part)
    if bounds is None:
        raise UsageError(f"--slice {part!r} is not A:B; write for example --slice 0:50.")
    start, stop = (None if bound is None else int(bound) for bound in bounds.groups())
    if not (taken := found[start:stop]):
        raise UsageError(f"--slice {part} takes none of {len(found)} instances; correct it.")
    return taken


def _shard(found: tuple[Instance, ...], shard: str) -> tuple[Instance, ...]:
    numbers = re.fullmatch(r"(\d{1,9})/(\d{1,9})", shard)
    number, count = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= number <= count:
        raise UsageError(f"--shard {shard!r} is not I/N with I from 1 to N; write for example --shard 1/4.")
    # Every N-th: instances of one repository, which take alike, lie side by side.
    return found[number - 1 :: count]


def _near(wanted: Sequence[str], known: Sequence[str]) -> str:
    near = [name for one in wanted for name in difflib.get_close_matches(one, known, n=3, cutoff=0.5)]
    return f"near ones are {_some(near)}" if near else f"there are for example {_some(known)}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
