"""Intervals and tests against brute force."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist, fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execcritic.batch import statistics

counts = st.integers(0, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts)
def test_wilson_is_where_the_score_test_stops_rejecting(pair: tuple[int, int]) -> None:
    hits, trials = pair
    found = statistics.wilson(hits, trials)
    if trials == 0:
        assert found is None
        return
    assert found is not None and 0 <= found.low <= found.value <= found.high <= 1
    z = NormalDist().inv_cdf(0.975)
    for end in (found.low, found.high):
        if 0 < end < 1:
            assert abs(hits / trials - end) / math.sqrt(end * (1 - end) / trials) == pytest.approx(z, rel=1e-6)


@given(st.integers(0, 9), st.integers(0, 9))
def test_mcnemar_is_the_share_of_sign_patterns_at_least_as_uneven(first: int, second: int) -> None:
    trials = first + second
    patterns = itertools.product((0, 1), repeat=trials) if trials <= 12 else None
    if patterns is None:
        return
    uneven = abs(first - second)
    extreme = sum(abs(trials - 2 * sum(pattern)) >= uneven for pattern in patterns)
    assert statistics.mcnemar(first, second) == pytest.approx(extreme / 2**trials)


def test_mcnemar_of_thousands_of_pairs_is_a_number() -> None:
    assert 0 < statistics.mcnemar(5000, 4900) < 1
    assert statistics.mcnemar(0, 5000) == pytest.approx(0, abs=1e-300)


@given(st.dictionaries(st.text(max_size=3), st.lists(st.booleans(), min_size=1, max_size=3), max_size=6))
def test_a_rate_lies_in_its_interval_and_is_the_plain_rate(values: dict[str, list[bool]]) -> None:
    found = statistics.proportion(values)
    flat = [value for group in values.values() for value in group]
    if not flat:
        assert found is None
        return
    assert found is not None and found.low <= fmean(flat) <= found.high


def test_repeats_of_one_instance_are_no_independent_trials() -> None:
    once = statistics.proportion({str(n): [n % 2 == 0] for n in range(20)})
    thrice = statistics.proportion({str(n): [n % 2 == 0] * 3 for n in range(20)})
    assert once is not None and thrice is not None
    assert thrice.high - thrice.low > 0.8 * (once.high - once.low)
    certain = statistics.proportion({str(n): [True] * 3 for n in range(20)})
    assert certain == statistics.wilson(20, 20)


def test_bootstrap_agrees_with_every_resample_of_a_small_set() -> None:
    values = [0.0, 1.0, 5.0]
    means = sorted(fmean(sample) for sample in itertools.product(values, repeat=3))
    found = statistics.mean({str(n): [value] for n, value in enumerate(values)})
    assert found is not None and found.value == 2.0
    assert (found.low, found.high) == (means[0], means[-1])


def test_paired_takes_only_what_both_have() -> None:
    one = {"a": [1.0], "b": [1.0], "c": [0.0], "d": [1.0]}
    other = {"a": [1.0], "b": [0.0], "c": [1.0], "e": [1.0]}
    found = statistics.paired(one, other)
    assert (found.pairs, found.first, found.second, found.p) == (3, 1, 1, 1.0)
    assert statistics.paired({}, {}).difference is None
