"""Grade-aware redistribution (TRAINING 6): among the rollouts of a group that pass, credit moves to the better ones.

A graded rollout's advantage A becomes lambda * f * A, with its grade f in (0, 1] and lambda such that the sum over
those that pass stays as it was: weighting without that changes the balance with the failing ones. These keep theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PatchFacts:
    """What a patch is graded by: lines added and removed, those of the reference patch, and changed files that the
    reference patch does not touch."""

    lines: int
    reference_lines: int
    unrelated_files: int = 0


def grade(facts: PatchFacts, least: float = 0.1) -> float:
    """In [least, 1]: 1 up to twice the reference's size, then falling with the size; half for each unrelated file."""
    room = 2 * max(1, facts.reference_lines)
    return max(least, min(1.0, room / max(1, facts.lines)) * 0.5**facts.unrelated_files)


def redistribute(advantages: Sequence[float], grades: Sequence[float | None]) -> list[float]:
    """The group's advantages with their sum kept. `grades` is None for a rollout that does not pass.

    Nothing changes unless the group is mixed. A passing rollout whose advantage is not positive keeps it: a lower grade
    must not raise it. A hack is no matter of grades: give it the reward 0 and centre the group again.
    """
    if any(g is not None and not 0 < g <= 1 for g in grades):
        raise ValueError("a grade lies above 0 and is 1 at most")
    graded = {i: g for i, (a, g) in enumerate(zip(advantages, grades, strict=True)) if g is not None and a > 0}
    if not graded or all(g is not None for g in grades):
        return list(advantages)
    total = math.fsum(advantages[i] for i in graded)
    scale = total / math.fsum(g * advantages[i] for i, g in graded.items())
    return [scale * graded[i] * a if i in graded else a for i, a in enumerate(advantages)]
