"""Which instances are taken: order, shards, and what is refused before anything is run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execcritic.batch.datasets import Dataset, load, select
from execcritic.batch.datasets.sources import Files
from execcritic.batch.instance import Checkout, Instance
from execcritic_scaffold.errors import UsageError


def dataset(ids: Sequence[str]) -> Dataset:
    made = tuple(Instance(name, "o/r", "p", Checkout(".")) for name in ids)
    return Dataset("d", None, "checkout", "0", made, Files("d", None, ()))


TEN = dataset([f"{owner}__r-{number}" for owner in ("django", "sympy") for number in range(5)])


def ids(instances: Sequence[Instance]) -> list[str]:
    return [instance.id for instance in instances]


@given(st.integers(0, 60), st.integers(1, 70), st.none() | st.sampled_from(["1", "i-[0-4]", ""]))
def test_shards_are_disjoint_cover_everything_and_keep_the_order(size: int, count: int, pattern: str | None) -> None:
    data = dataset([f"i-{number}" for number in range(size)])
    try:
        whole = ids(select(data, pattern=pattern))
    except UsageError:
        return
    shards = [ids(select(data, pattern=pattern, shard=f"{number}/{count}")) for number in range(1, count + 1)]
    assert sorted(itertools.chain(*shards), key=whole.index) == whole
    assert all(shard == sorted(shard, key=whole.index) for shard in shards)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_the_shard_is_taken_last() -> None:
    taken = select(TEN, ids=ids(TEN.instances[:8]), pattern="django|sympy", part="1:7", shard="2/3")
    assert ids(taken) == ids(TEN.instances[1:7][1::3])


def test_the_order_is_the_data_sets() -> None:
    assert ids(select(TEN, ids=["sympy__r-1", "django__r-0", "sympy__r-1"])) == ["django__r-0", "sympy__r-1"]
    assert ids(select(TEN, part="-2:")) == ["sympy__r-3", "sympy__r-4"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"ids": ["djngo__r-0", "django__r-1"]}, "d has no instance djngo__r-0; near ones are django__r-0"),
        ({"ids": []}, "No instance is named"),
        ({"pattern": "djagno__r"}, "found in none of 10 ids of d; near ones are django__r-"),
        ({"pattern": "zzz"}, "there are for example django__r-0"),
        ({"pattern": "("}, "no regular expression"),
        ({"part": "50:60"}, "takes none of 10"),
        ({"part": "3"}, "is not A:B"),
        ({"part": "a:b"}, "is not A:B"),
        ({"shard": "0/2"}, "is not I/N"),
        ({"shard": "3/2"}, "is not I/N"),
        ({"shard": "1"}, "is not I/N"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        select(TEN, **asked)


def test_an_empty_data_set_never_gets_here(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps([]))
    with pytest.raises(UsageError, match="holds no instances"):
        load(str(tmp_path / "x.json"))
