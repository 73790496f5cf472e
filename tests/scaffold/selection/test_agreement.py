"""Signals from the matrix, on matrices small enough to work out by hand."""

from __future__ import annotations

from math import sqrt

import pytest

from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.selection.agreement import accepts, dual, notices, rejects
from execcritic_scaffold.selection.matrix import Matrix, said_by_the_test
from execcritic_scaffold.selection.score import Signal


def matrix(rows: dict[str, str], **weights: int) -> Matrix:
    """`+` passes, `-` fails, `?` has no verdict; one column a patch."""
    count = len(next(iter(rows.values())))
    patches = tuple(f"p{n}" for n in range(1, count + 1))
    passes = {
        (test, patch): sign == "+"
        for test, row in rows.items()
        for patch, sign in zip(patches, row, strict=True)
        if sign != "?"
    }
    return Matrix(tuple(rows), patches, passes, weights)


THREE = {"valid": "++-", "weak": "+++", "strict": "---"}


def test_patches_that_pass_the_same_tests_form_a_set() -> None:
    assert matrix(THREE).classes() == {frozenset({"valid", "weak"}): ("p1", "p2"), frozenset({"weak"}): ("p3",)}


def test_dual_agreement() -> None:
    """Sets: {p1, p2} with two tests = sqrt(2) x 2; {p3} with one = 1. The best is 2.83."""
    found = dual(matrix(THREE))
    assert found["valid"] == found["weak"] == Signal(1.0, 2)
    assert found["strict"] == Signal(0.0, 2)


def test_dual_agreement_of_a_test_that_only_the_smaller_set_passes() -> None:
    found = dual(matrix({"a": "++-", "b": "++-", "c": "--+"}))
    assert found["c"].value == pytest.approx(1 / (sqrt(2) * 2))


def test_episodes_that_came_to_the_same_patch_count_each() -> None:
    """{p1} twice with one test = sqrt(2); {p2} once with one = 1."""
    assert dual(matrix({"a": "+-", "b": "-+"}, p1=2))["b"].value == pytest.approx(1 / sqrt(2))


@pytest.mark.parametrize("rows", [{"a": "---", "b": "---"}, {"a": "???"}])
def test_where_no_patch_passes_anything_nothing_is_known(rows: dict[str, str]) -> None:
    assert dual(matrix(rows)) == {}


def test_a_single_patch_agrees_with_nobody() -> None:
    assert dual(matrix({"a": "+", "b": "-"}))["b"].observations == 0


def test_accepting_and_rejecting_what_others_do() -> None:
    """Others pass: for valid, weak's p1 p2 p3 (it passes 2 of 3); for weak, valid's p1 p2; for strict, five in all."""
    assert accepts(matrix(THREE)) == {"valid": Signal(2 / 3, 3), "weak": Signal(1.0, 2), "strict": Signal(0.0, 5)}
    # strict is not asked: nothing passes it. weak fails nothing, so only valid's p3 is left, for the other two.
    assert rejects(matrix(THREE)) == {"weak": Signal(0.0, 1), "strict": Signal(1.0, 1)}


def test_pairs_without_a_verdict_do_not_count() -> None:
    assert accepts(matrix({"a": "?+", "b": "++"})) == {"a": Signal(1.0, 1), "b": Signal(1.0, 1)}


def test_mutants() -> None:
    """Of three mutants, `sharp` notices two and `weak` one of those; the third, which nobody notices, counts half."""
    passes = {
        ("sharp", 0): False,
        ("sharp", 1): False,
        ("sharp", 2): True,
        ("weak", 0): False,
        ("weak", 1): True,
        ("weak", 2): True,
    }
    assert notices(passes) == {"sharp": Signal(2 / 2.5, 3), "weak": Signal(1 / 2.5, 3)}
    assert notices({}) == {}


@pytest.mark.parametrize(
    ("decision", "reason", "said"),
    [
        (Decision.PASS, "PASS", True),
        (Decision.FAIL, "FROZEN_TEST", False),
        (Decision.FAIL, "GUARD", True),
        (Decision.FAIL, "EMPTY_PATCH", None),
        (Decision.FAIL, "NO_EFFECT", None),
        (Decision.INCONCLUSIVE, "FLAKY", None),
        (Decision.FORBIDDEN, "TEST_MODIFIED", None),
        (Decision.TAMPERED, "TWIN", None),
    ],
)
def test_what_the_frozen_nodes_say(decision: Decision, reason: str, said: bool | None) -> None:
    assert said_by_the_test(Verdict(decision, reason, "")) is said
