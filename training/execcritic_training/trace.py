"""Turn-level credit (TRAINING 6): how much each turn brought the reference answer nearer, by a reference model.

l_t is the mean log-probability of the reference answer given the state at tool boundary t; g_t = -l_t + epsilon is how
far it is. A turn's step is log(g_t / g_(t+1)): positive where the answer got more likely. Its credit is the discounted
mean of the next `steps` steps, and is added with a small weight to the outcome's advantage on that turn's tokens.
Privileged (it reads the reference), so it is an option and off by default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class TurnCredit:
    """The numbers of the method."""

    steps: int = 3
    discount: float = 0.8
    weight: float = 0.2
    epsilon: float = 1e-3

    def credits(self, likelihoods: Sequence[float]) -> list[float]:
        """One credit a turn. `likelihoods` are l_0 to l_T at the boundaries of T turns: before the first, after each.

        Raises ValueError for one that is above 0 or no number: no mean log-probability is.
        """
        if not all(math.isfinite(value) and value <= 0 for value in likelihoods):
            raise ValueError("a mean log-probability is a finite number and at most 0")
        logs = [math.log(-value + self.epsilon) for value in likelihoods]
        gains = [before - after for before, after in pairwise(logs)]
        return [self._ahead(gains[turn : turn + self.steps]) for turn in range(len(gains))]

    def per_token(self, advantage: float, likelihoods: Sequence[float], turns: Sequence[int | None]) -> list[float]:
        """The advantage of each token. `turns` says which turn sampled it; None, for a token nobody sampled, is 0."""
        credit = self.credits(likelihoods)
        return [0.0 if turn is None else advantage + self.weight * credit[turn] for turn in turns]

    def _ahead(self, gains: Sequence[float]) -> float:
        factors = [self.discount**k for k in range(len(gains))]
        return math.fsum(f * gain for f, gain in zip(factors, gains, strict=True)) / math.fsum(factors)
