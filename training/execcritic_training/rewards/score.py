"""What a reward function returns: a value with its parts, or Masked, which is no number and cannot be averaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Cause(StrEnum):
    """Why a rollout has no reward. Only OPERATIONAL and ABORTED are a fault of the machine (see `alarm`)."""

    OPERATIONAL = "operational"
    """It could not be judged, or its episode broke for the machine's or the endpoint's sake."""
    ABORTED = "aborted"
    """It was stopped from outside before it ended."""
    TRUNCATED = "truncated"
    """A limit of length, time or turns cut it off."""
    STALE = "stale"
    """Sampled from weights that are too old, or from several (see `staleness`)."""


@dataclass(frozen=True)
class Reward:
    """`level` names METHOD's case; `components` are the numbers that led to it, for the log."""

    value: float
    level: str
    components: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Masked:
    """No reward: advantage 0, and out of every statistic. `reason` is one clause."""

    reason: str
    cause: Cause = Cause.OPERATIONAL


Score = Reward | Masked
