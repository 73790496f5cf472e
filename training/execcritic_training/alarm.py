"""The alarm on failures of the machine: a run whose sandboxes or endpoint are broken must stop, not train on."""

from __future__ import annotations

from collections import Counter, deque

from execcritic_scaffold.errors import InfrastructureError
from execcritic_training.rewards.score import Cause, Masked, Score

MACHINE = frozenset({Cause.OPERATIONAL, Cause.ABORTED})


class FailureAlarm:
    """Watches the share of rollouts that the machine spoilt among the last `window`; silent before `least` are seen."""

    def __init__(self, bound: float = 0.2, window: int = 128, least: int = 32) -> None:
        if not 0 <= bound <= 1 or not 0 < least <= window:
            raise ValueError("the bound is a share, and the window holds at least `least` rollouts")
        self._bound, self._least = bound, least
        self._last: deque[str | None] = deque(maxlen=window)

    @property
    def rate(self) -> float:
        """The share now; 0 before anything is seen."""
        return sum(reason is not None for reason in self._last) / len(self._last) if self._last else 0.0

    def see(self, *scores: Score) -> None:
        """Count rollouts. Raises InfrastructureError, with the most frequent reason, where the share is above the
        bound."""
        for score in scores:
            spoilt = isinstance(score, Masked) and score.cause in MACHINE
            self._last.append(score.reason if spoilt and isinstance(score, Masked) else None)
        if len(self._last) >= self._least and self.rate > self._bound:
            reason, times = Counter(r for r in self._last if r is not None).most_common(1)[0]
            raise InfrastructureError(
                f"{self.rate:.0%} of the last {len(self._last)} rollouts could not be judged (most often, {times} "
                f"times: {reason}), {self._bound:.0%} are allowed; repair that and resume the run."
            )
