"""Intervals and tests for experiments: pure functions of counts and per-instance values.

The standard library does: scipy would add 100 MB to the extra for three formulas that stand here in full.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

RESAMPLES = 2000
SEED = 20260913
"""The bootstrap is part of a report, and a report made twice has to be the same."""


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Paired:
    """Two runs on the same instances. `first` and `second`: instances on which one was better than the other;
    `p`: two-sided exact; `difference`: mean of first minus second, with its interval."""

    pairs: int
    first: int
    second: int
    p: float
    difference: Interval | None


def wilson(successes: int, trials: int, confidence: float = 0.95) -> Interval | None:
    """Wilson's score interval of a proportion (Wilson 1927); None without trials."""
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials")
    if trials == 0:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, square = successes / trials, z * z / trials
    middle = (rate + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Interval(rate, 0.0 if successes == 0 else low, 1.0 if successes == trials else high)


def proportion(by_instance: Mapping[str, Sequence[bool]], confidence: float = 0.95) -> Interval | None:
    """A rate over all repeats of all instances.

    Repeats of one instance are no independent trials. With one each this is Wilson's interval; with more the instances
    are resampled, and where that shows no spread, Wilson's interval for as many trials as there are instances.
    """
    groups = [tuple(values) for values in by_instance.values() if values]
    total, hits = sum(map(len, groups)), sum(map(sum, groups))
    if all(len(group) == 1 for group in groups):
        return wilson(hits, total, confidence)
    if hits in (0, total):
        return wilson(len(groups) if hits else 0, len(groups), confidence)
    return _bootstrap([(float(sum(group)), len(group)) for group in groups], confidence)


def mean(by_instance: Mapping[str, Sequence[float]], confidence: float = 0.95) -> Interval | None:
    """The mean over all repeats of all instances, with a percentile bootstrap over instances (Efron); None without
    values."""
    groups = [(math.fsum(values), len(values)) for values in by_instance.values() if values]
    return _bootstrap(groups, confidence) if groups else None


def mcnemar(first: int, second: int) -> float:
    """The two-sided exact p of McNemar's test: `first` pairs in which only the one is right, `second` only the other.

    Pairs in which both are alike say nothing. 1.0 where there are no others.
    """
    trials, fewer = first + second, min(first, second)
    if trials == 0:
        return 1.0
    tail = sum(math.comb(trials, k) for k in range(fewer + 1))
    return min(1.0, 2 * tail / (1 << trials))


def paired(one: Mapping[str, Sequence[float]], other: Mapping[str, Sequence[float]]) -> Paired:
    """Two runs on the instances that both have.

    With one value each the test is McNemar's. With repeats an instance counts for the run whose mean is higher there,
    which is the sign test over instances.
    """
    common = [name for name in one if one[name] and other.get(name)]
    differences = [fmean(one[name]) - fmean(other[name]) for name in common]
    first, second = sum(d > 1e-12 for d in differences), sum(d < -1e-12 for d in differences)
    spread = _bootstrap([(difference, 1) for difference in differences], 0.95) if differences else None
    return Paired(len(common), first, second, mcnemar(first, second), spread)


def _bootstrap(groups: Sequence[tuple[float, int]], confidence: float) -> Interval:
    """The ratio of both sums, and its percentiles over resamples of the groups."""
    value = math.fsum(total for total, _ in groups) / sum(size for _, size in groups)
    chance = random.Random(SEED)
    drawn = []
    for _ in range(RESAMPLES):
        sample = chance.choices(groups, k=len(groups))
        drawn.append(sum(total for total, _ in sample) / sum(size for _, size in sample))
    drawn.sort()
    tail = int((1 - confidence) / 2 * RESAMPLES)
    return Interval(value, min(value, drawn[tail]), max(value, drawn[-1 - tail]))
