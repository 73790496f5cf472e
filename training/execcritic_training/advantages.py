"""Advantages of a batch: centred on the mean of their group, not divided by anything (METHOD 6).

A group are the rollouts of one task, one role and one frozen bundle, told by its key and never by its place in the
batch: it may have lost members, and what is filtered is filtered afterwards. A masked rollout is in no statistic, and
its advantage is set to 0 after centring. That holds for both roles: a terminal execution that cannot be judged has no
reward that could take part in the mean (docs/rewards.md works the alternatives out).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from execcritic_training.rewards.score import Cause, Masked, Reward, Score

Role = Literal["test", "repair"]
Normaliser = Literal["token", "sequence", "constant"]


@dataclass(frozen=True)
class Rollout:
    """One episode of a batch. `group` is its `group_key`."""

    group: str
    score: Score


@dataclass(frozen=True)
class Group:
    """What is known of a group. `rewards` are those that count; `mean` is None where none does."""

    size: int
    rewards: tuple[float, ...]
    mean: float | None
    masked: Mapping[Cause, int]

    @property
    def informative(self) -> bool:
        """Whether the rewards differ: only then is any advantage not 0. Not so for a group of one, or all masked."""
        return bool(self.rewards) and min(self.rewards) != max(self.rewards)


@dataclass(frozen=True)
class Advantages:
    """`values` in the order of the rollouts; `groups` by key."""

    values: tuple[float, ...]
    groups: Mapping[str, Group]

    def summary(self) -> dict[str, float]:
        """Counts and shares for the log: nothing that was left out is left out silently."""
        groups, size = self.groups.values(), len(self.values)
        flat = [g for g in groups if g.rewards and not g.informative]
        counted = {
            "groups": len(groups),
            "groups/no_variance": len(flat),
            "groups/single": sum(len(g.rewards) == 1 for g in groups),
            "groups/all_masked": sum(not g.rewards for g in groups),
            "groups/no_variance_share": len(flat) / len(groups) if groups else 0.0,
        }
        masked = {f"masked/{cause}": sum(g.masked.get(cause, 0) for g in groups) for cause in Cause}
        share = sum(masked.values()) / size if size else 0.0
        return {**counted, **masked, "masked/share": share}


def group_key(task: str, role: Role, bundle: str | None) -> str:
    """Names a group: SHA-256, hex. `bundle` is the frozen bundle's id a Repair episode works under, None where there
    is none."""
    return hashlib.sha256(json.dumps([task, role, bundle]).encode()).hexdigest()


def advantages(rollouts: Sequence[Rollout]) -> Advantages:
    """The advantage of every rollout: reward minus its group's mean; 0 for masked ones, and exactly 0 in a group whose
    rewards are all equal. The order of rollouts does not matter. Raises ValueError for a reward that is no number."""
    members: dict[str, list[Score]] = {}
    for rollout in rollouts:
        members.setdefault(rollout.group, []).append(rollout.score)
    groups = {key: _group(scores) for key, scores in members.items()}
    return Advantages(tuple(_advantage(r.score, groups[r.group]) for r in rollouts), groups)


def weights(lengths: Sequence[int], normaliser: Normaliser, longest: int | None = None) -> list[float]:
    """How much one token of each answer weighs in the loss; `lengths` are trained tokens, 0 for what is left out.

    token     all tokens of the batch weigh the same: 1 / sum of lengths                          (METHOD 6)
    sequence  all answers weigh the same: 1 / (answers * length), so that a long one's tokens weigh less
    constant  1 / (answers * `longest`): a longer answer weighs more, and no length changes another's weight

    Answers without a trained token weigh 0 and are not counted.
    """
    answers = sum(length > 0 for length in lengths)
    if not answers:
        return [0.0] * len(lengths)
    if normaliser == "token":
        each = 1 / sum(lengths)
        return [each if length else 0.0 for length in lengths]
    if normaliser == "sequence":
        return [1 / (answers * length) if length else 0.0 for length in lengths]
    if longest is None or longest < max(lengths):
        raise ValueError("the constant normaliser needs the longest length that there can be")
    return [1 / (answers * longest) if length else 0.0 for length in lengths]


def _group(scores: Sequence[Score]) -> Group:
    rewards = tuple(score.value for score in scores if isinstance(score, Reward))
    if not all(math.isfinite(value) for value in rewards):
        raise ValueError(f"a reward is not a finite number: {rewards}; a rollout without a reward is Masked")
    masked: dict[Cause, int] = {}
    for score in scores:
        if isinstance(score, Masked):
            masked[score.cause] = masked.get(score.cause, 0) + 1
    # fsum is exact before it rounds, so the mean does not depend on the order.
    mean = math.fsum(rewards) / len(rewards) if rewards else None
    return Group(len(scores), rewards, mean, masked)


def _advantage(score: Score, group: Group) -> float:
    if isinstance(score, Masked) or group.mean is None or not group.informative:
        return 0.0  # without the last, 0.1 - mean(0.1, 0.1, 0.1) would be -1.4e-17
    return score.value - group.mean
