"""From signals to one number per test, and to whether it may decide anything.

A test can be wrong in two ways, so a score has two sides. It is *fair* where nothing speaks for its demanding too much
(dual agreement, accepting what others accept, few pinned literals, evidence from the issue, the judge), and *sharp*
where nothing speaks for its demanding too little (noticing mutants, rejecting what others reject). Each side is the
mean of its signals and of the prior; a signal that rests on n observations counts weight x n / (n + 1). The score is
the lower side: a test is as good as its worse one. It ranks; it is no probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from execcritic_scaffold.selection.settings import ScoreSettings

FAIR = ("dual", "accepts", "pinning", "evidence", "judge")
SHARP = ("mutants", "rejects")
SIGNALS = (*FAIR, *SHARP)


@dataclass(frozen=True)
class Signal:
    """A value from 0 (speaks against the test) to 1 (speaks for it), and how many observations it rests on."""

    value: float
    observations: float = 1.0


@dataclass(frozen=True)
class Score:
    """One test's standing. `demoted` says why it decides nothing whatever its signals are (an upheld dispute)."""

    fair: float
    sharp: float
    signals: Mapping[str, Signal] = field(default_factory=dict)
    demoted: str | None = None

    @property
    def value(self) -> float:
        return 0.0 if self.demoted else min(self.fair, self.sharp)


def score(signals: Mapping[str, Signal], settings: ScoreSettings, demoted: str | None = None) -> Score:
    """The score of a test; a signal that is missing is not known and counts for neither side."""
    return Score(_side(signals, FAIR, settings), _side(signals, SHARP, settings), dict(signals), demoted)


def _side(signals: Mapping[str, Signal], names: Iterable[str], settings: ScoreSettings) -> float:
    weights = settings.weights.model_dump()
    total, held = weights["prior"] * settings.prior, weights["prior"]
    for name in names:
        if signal := signals.get(name):
            weight = weights[name] * signal.observations / (signal.observations + 1)
            total, held = total + weight * signal.value, held + weight
    return float(total / held)
