"""The choice: a test that may decide and a patch that it passes, or neither, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from execcritic_scaffold.selection.matrix import Matrix
from execcritic_scaffold.selection.score import Score


@dataclass(frozen=True)
class Choice:
    """`test` None: no test is trusted, or the tests contradict each other (`abstained` says which).

    `patch` is the one to hand out in any case; None only where there is no patch at all. `reasons` are sentences.
    """

    test: str | None
    patch: str | None
    reasons: tuple[str, ...]
    abstained: str | None = None


def trusted(scores: Mapping[str, Score], threshold: float) -> list[str]:
    """The tests that may decide, the best first; order of the mapping breaks ties."""
    return sorted(
        (t for t, s in scores.items() if not s.demoted and s.value >= threshold), key=lambda t: -scores[t].value
    )


def gate(matrix: Matrix, scores: Mapping[str, Score], threshold: float) -> str | None:
    """The test that the revisions are checked with: the best trusted one; of equals, the one fewest patches pass."""
    ranked = trusted(scores, threshold)
    return min(ranked, key=lambda t: (-round(scores[t].value, 6), len(matrix.passed_by(t)))) if ranked else None


def choose(
    matrix: Matrix, scores: Mapping[str, Score], threshold: float, accepted: Mapping[tuple[str, str], bool]
) -> Choice:
    """The pair to hand out.

    The patch comes first: patches that pass the same trusted tests form a set, and the set with the highest
    sqrt(patches) x scores of its tests wins; in it, the patch that most episodes made. The test is the best one that
    the patch passes. Nothing is decided where the tests that fail the patch have no lower scores in all than those that
    pass it; here every test counts that was not demoted, trusted or not. `accepted` are the
    verdicts with the guard in them: a patch that the guard fails is taken only where there is no other.
    """
    ranked = trusted(scores, threshold)
    if not ranked:
        return Choice(None, plurality(matrix), (_why_none(scores, threshold),), "no test is trusted")
    if not matrix.patches:
        return Choice(ranked[0], None, ("there is no patch",))
    patch = _best_patch(matrix, scores, ranked, accepted)
    passing = [t for t in ranked if matrix.passes.get((t, patch))]
    if not passing:
        reason = f"no patch passes a trusted test; {ranked[0]} has the highest score ({scores[ranked[0]].value:.2f})"
        return Choice(ranked[0], patch, (reason,))
    voting = [t for t, s in scores.items() if not s.demoted]
    failing = [t for t in voting if matrix.passes.get((t, patch)) is False]
    weight_for = sum(scores[t].value for t in voting if matrix.passes.get((t, patch)))
    weight_against = sum(scores[t].value for t in failing)
    reasons = [
        f"{patch} passes {_listed(passing)}",
        f"{passing[0]} has the highest score of them ({scores[passing[0]].value:.2f})",
    ]
    if failing:
        reasons.append(f"{_listed(failing)} fails it")
    reasons += [f"{t} decides nothing: {_weakness(scores[t], threshold)}" for t in scores if t not in ranked]
    if weight_against >= weight_for:
        return Choice(None, patch, tuple(reasons), "the tests contradict each other")
    return Choice(passing[0], patch, tuple(reasons))


def plurality(matrix: Matrix) -> str | None:
    """The patch that most episodes came to, the first of equals; None without any."""
    return max(matrix.patches, key=matrix.weight, default=None)


def _best_patch(
    matrix: Matrix, scores: Mapping[str, Score], ranked: Sequence[str], accepted: Mapping[tuple[str, str], bool]
) -> str:
    sets: dict[frozenset[str], int] = {}
    for patch in matrix.patches:
        tests = matrix.passed(patch) & set(ranked)
        sets[tests] = sets.get(tests, 0) + matrix.weight(patch)

    def worth(patch: str) -> tuple[bool, float, int]:
        tests = matrix.passed(patch) & set(ranked)
        clean = any(accepted.get((t, patch)) for t in tests)
        return clean, sqrt(sets[tests]) * sum(scores[t].value for t in tests), matrix.weight(patch)

    return max(matrix.patches, key=worth)


def _why_none(scores: Mapping[str, Score], threshold: float) -> str:
    if not scores:
        return "no test qualified"
    return "; ".join(f"{t}: {_weakness(s, threshold)}" for t, s in scores.items())


def _weakness(score: Score, threshold: float) -> str:
    if score.demoted:
        return score.demoted
    side = "may demand too much" if score.fair <= score.sharp else "may demand too little"
    return f"it {side} (score {score.value:.2f}, {threshold:.2f} is needed)"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
