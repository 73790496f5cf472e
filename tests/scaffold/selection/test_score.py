"""The score and the choice, worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from execcritic_scaffold.selection.choose import choose, gate, trusted
from execcritic_scaffold.selection.matrix import Matrix
from execcritic_scaffold.selection.score import SIGNALS, Score, Signal, score
from execcritic_scaffold.selection.settings import ScoreSettings, Weights

WEIGHTS = Weights(prior=1, dual=2, accepts=1, rejects=1, mutants=4, pinning=1, evidence=1, judge=3)
SETTINGS = ScoreSettings(prior=0.6, threshold=0.5, weights=WEIGHTS)


def test_every_signal_has_a_weight() -> None:
    assert set(SIGNALS) == set(Weights.model_fields) - {"prior"}


def test_without_signals_the_prior_is_all() -> None:
    assert score({}, SETTINGS).value == pytest.approx(0.6)


def test_a_signal_counts_with_its_observations() -> None:
    """fair: (1 x 0.6 + 2 x 3/4 x 0) / (1 + 1.5) = 0.24; sharp: (0.6 + 4 x 1/2 x 1) / 3 = 0.867."""
    found = score({"dual": Signal(0.0, 3), "mutants": Signal(1.0, 1)}, SETTINGS)
    assert (found.fair, found.sharp) == (pytest.approx(0.24), pytest.approx(2.6 / 3))
    assert found.value == found.fair


def test_no_observation_no_weight() -> None:
    assert score({"dual": Signal(0.0, 0)}, SETTINGS).value == pytest.approx(0.6)


def test_a_weak_test_is_as_good_as_its_worse_side() -> None:
    """Everybody agrees with it, and it notices one mutant of six: sharp = (0.6 + 4 x 6/7 x 1/6) / (1 + 24/7)."""
    found = score({"dual": Signal(1.0, 9), "mutants": Signal(1 / 6, 6)}, SETTINGS)
    assert found.value == found.sharp == pytest.approx((0.6 + 4 / 7) / (1 + 24 / 7))
    assert found.value < SETTINGS.threshold < found.fair


def test_a_demoted_test_has_no_score() -> None:
    assert score({"judge": Signal(1.0)}, SETTINGS, "a dispute was upheld").value == 0


def scores(**values: float) -> dict[str, Score]:
    return {test: Score(value, value) for test, value in values.items()}


def grid(rows: Mapping[str, str], **weights: int) -> Matrix:
    patches = ("p1", "p2", "p3")[: len(next(iter(rows.values())))]
    passes = {(t, p): sign == "+" for t, row in rows.items() for p, sign in zip(patches, row, strict=True)}
    return Matrix(tuple(rows), patches, passes, weights)


def test_the_gate_is_the_best_trusted_test_and_of_equals_the_stricter() -> None:
    matrix = grid({"a": "+++", "b": "+--", "c": "---"})
    assert gate(matrix, scores(a=0.7, b=0.7, c=0.6), 0.5) == "b"
    assert gate(matrix, scores(a=0.71, b=0.7, c=0.6), 0.5) == "a"
    assert gate(matrix, scores(a=0.4, b=0.4, c=0.49), 0.5) is None
    assert trusted(scores(a=0.4, b=0.5, c=0.9), 0.5) == ["c", "b"]


def chosen(rows: Mapping[str, str], standing: dict[str, Score], **weights: int) -> tuple[str | None, str | None]:
    matrix = grid(rows, **weights)
    choice = choose(matrix, standing, 0.5, matrix.passes)
    assert (choice.test is None) == (choice.abstained is not None)
    assert choice.reasons
    return choice.test, choice.patch


def test_the_patch_that_the_best_tests_pass_and_the_best_of_these_tests() -> None:
    assert chosen({"a": "-+", "b": "-+", "c": "+-"}, scores(a=0.6, b=0.7, c=0.9)) == ("b", "p2")


def test_patches_that_agree_count_more() -> None:
    """{p1, p3}: sqrt(2) x 0.6 = 0.85; {p2}: 0.7. A patch that two episodes made counts as two."""
    assert chosen({"a": "+-+", "b": "-+-"}, scores(a=0.6, b=0.7)) == (None, "p1")  # and b outweighs a
    assert chosen({"a": "+-+", "b": "-+-"}, scores(a=0.7, b=0.6)) == ("a", "p1")
    assert chosen({"a": "+-", "b": "-+"}, scores(a=0.61, b=0.6), p2=2) == (None, "p2")


def test_tests_below_the_threshold_may_not_decide_but_may_speak_against() -> None:
    assert chosen({"a": "+", "b": "-"}, scores(a=0.6, b=0.4)) == ("a", "p1")
    assert chosen({"a": "+", "b": "-", "c": "-"}, scores(a=0.6, b=0.4, c=0.4)) == (None, "p1")
    demoted = {**scores(a=0.6, b=0.4), "c": Score(0.9, 0.9, demoted="a dispute was upheld")}
    assert chosen({"a": "+", "b": "-", "c": "-"}, demoted) == ("a", "p1")


@pytest.mark.parametrize("standing", [scores(a=0.49), {"a": Score(1.0, 1.0, demoted="a dispute was upheld")}])
def test_without_a_trusted_test_nothing_is_decided_whatever_passes(standing: dict[str, Score]) -> None:
    assert chosen({"a": "++"}, standing, p2=2) == (None, "p2")


def test_no_patch_passes() -> None:
    assert chosen({"a": "--", "b": "--"}, scores(a=0.6, b=0.7)) == ("b", "p1")


def test_no_patch_and_no_test() -> None:
    assert choose(Matrix(("a",), (), {}), scores(a=0.6), 0.5, {}).patch is None
    choice = choose(Matrix((), ("p1",), {}), {}, 0.5, {})
    assert (choice.test, choice.patch, choice.reasons) == (None, "p1", ("no test qualified",))


def test_a_patch_that_the_guard_fails_comes_last() -> None:
    matrix = grid({"a": "+++"}, p1=5)
    choice = choose(matrix, scores(a=0.6), 0.5, {("a", "p1"): False, ("a", "p2"): True, ("a", "p3"): False})
    assert (choice.test, choice.patch) == ("a", "p2")
