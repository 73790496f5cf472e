"""How old the weights are that a rollout was sampled from, and what is too old."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from execcritic_training.rewards.score import Cause, Masked


@dataclass(frozen=True)
class Freshness:
    """`bound` is how many updates the oldest turn may lie behind. A rollout that was continued under newer weights is
    off-policy in part; unless `mixed` is asked for, it is discarded."""

    bound: int = 4
    mixed: bool = False

    def check(self, versions: Sequence[int], current: int) -> Masked | None:
        """None for a rollout that may be trained on. `versions` are the policy's versions of its turns, in order.

        Raises ValueError where there are none, or one is newer than `current`: then the record is not of this policy.
        """
        if not versions:
            raise ValueError("a rollout without a policy version cannot be trained on")
        if max(versions) > current:
            raise ValueError(f"a turn was sampled from version {max(versions)}, and the policy is at {current}")
        if not self.mixed and len(set(versions)) > 1:
            return Masked(f"sampled from the versions {min(versions)} to {max(versions)}", Cause.STALE)
        if (lag := current - min(versions)) > self.bound:
            return Masked(f"sampled {lag} updates ago, {self.bound} are allowed", Cause.STALE)
        return None
