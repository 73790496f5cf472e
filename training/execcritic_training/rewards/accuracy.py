"""Balanced accuracy of a test over labelled patches (METHOD 2)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from execcritic_training.evidence import Labelled, Outcome


def recalls(candidates: Sequence[Labelled]) -> tuple[Fraction, Fraction]:
    """(true positive rate, true negative rate): correct patches that pass, wrong ones that fail. The recall of a class
    of which there is no patch is 0. Exact, so that thresholds are."""
    return (
        _recall([c.outcome is Outcome.PASS for c in candidates if c.correct]),
        _recall([c.outcome is Outcome.FAIL for c in candidates if not c.correct]),
    )


def balanced(candidates: Sequence[Labelled]) -> Fraction:
    """(TPR + TNR) / 2; 1 only where both classes are there and every patch is told right."""
    positive, negative = recalls(candidates)
    return (positive + negative) / 2


def _recall(right: Sequence[bool]) -> Fraction:
    return Fraction(sum(right), len(right)) if right else Fraction(0)
