"""The money of a batch: reserved before a run is started, settled when it has ended.

A price that is unknown makes the sum unknown: then no limit on it can hold, and the limits on turns and tokens of each
run are what is left.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from execcritic.batch.journal import Key
from execcritic.config import Config
from execcritic.models import BEGUN
from execcritic_scaffold.errors import UsageError


class Budget:
    """What is spent and what is promised, in US dollars. `spent` None: unknown."""

    def __init__(self, total: float | None, each: float | None, spent: float | None) -> None:
        """`each`: the most that one run may cost. Raises UsageError where `total` cannot be kept for want of it."""
        if total is not None and each is None:
            raise UsageError(
                "batch.cost cannot be kept where a run's own cost has no limit; set batch.instance_cost, or "
                "limits.test.cost and limits.repair.cost."
            )
        self.total, self.each, self.spent = total, each or 0.0, spent
        self._reserved: set[Key] = set()

    def reserve(self, key: Key) -> bool:
        """Whether there is money for one more run, which is then set aside for it."""
        if self.total is not None and self.spent is not None:
            left = self.total - self.spent - self.each * len(self._reserved)
            if self.each > left + 1e-9:  # a sum of binary fractions
                return False
        self._reserved.add(key)
        return True

    def settle(self, key: Key, paid: float | None) -> None:
        """A run has ended and cost so much."""
        self._reserved.discard(key)
        self.spent = None if self.spent is None or paid is None else self.spent + paid


def most(config: Config, roles: Sequence[str]) -> float | None:
    """What one run with these roles may cost; None: no limit."""
    limits = {"test": config.limits.test.cost, "repair": config.limits.repair.cost}
    costs = [limits[role] for role in roles]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def limited(config: Config, roles: Sequence[str]) -> Config:
    """The configuration with the roles' limits on cost lowered, in proportion, to `batch.instance_cost` together."""
    wanted, now = config.batch.instance_cost, most(config, roles)
    if wanted is None or (now is not None and now <= wanted):
        return config
    limits = config.limits
    shares = {role: getattr(limits, role).cost for role in roles}
    if now is None:  # no proportion is given
        shares = dict.fromkeys(roles, 1.0)
    lowered = {
        role: getattr(limits, role).model_copy(update={"cost": wanted * share / sum(shares.values())})
        for role, share in shares.items()
    }
    return config.model_copy(update={"limits": limits.model_copy(update=lowered)})


def paid(run: Path) -> float | None:
    """What the models of a run directory have cost, US dollars, over all attempts; None where a price is unknown.

    A resumed attempt plays the replies of an earlier one again, so the longest attempt holds all that was paid; what
    the episode began with was paid by another run.
    """
    total = 0.0
    for episode in [path for path in run.glob("*") if path.is_dir()]:
        attempts = [_sum(file) for file in episode.glob("trajectory*.jsonl")]
        given = _sum(episode / BEGUN) if (episode / BEGUN).exists() else 0.0
        if None in attempts or given is None:
            return None
        total += max(0.0, max((cost for cost in attempts if cost is not None), default=0.0) - given)
    return total


def _sum(trajectory: Path) -> float | None:
    total = 0.0
    with open(trajectory, "rb") as lines:
        for line in lines:
            if b'"event":"reply"' not in line:  # most of a trajectory is what commands wrote
                continue
            try:
                cost = json.loads(line)["usage"]["cost"]
            except (ValueError, KeyError, TypeError):
                continue  # a torn line, or a command's output that looks like one
            if cost is None:
                return None
            total += cost
    return total
