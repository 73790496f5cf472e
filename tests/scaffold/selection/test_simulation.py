"""What docs/selection.md says of the benchmark's figures, on fewer issues; the draws are seeded."""

from __future__ import annotations

from dataclasses import replace

import selection

ISSUES = 300
THRESHOLD = selection.SETTINGS.threshold


def test_several_beat_one_of_each() -> None:
    one = selection.rates(selection.World(), 1, 1, ISSUES, THRESHOLD)
    nine = selection.rates(selection.World(), 3, 3, ISSUES, THRESHOLD)
    assert nine["right"] > 1.2 * one["right"]
    assert nine["wrong_pass"] < 0.5 * one["wrong_pass"]


def test_bad_tests_stop_hurting() -> None:
    """Where most tests are bad, one by one hands out fewer right patches than no test would; three by three more."""
    world = replace(selection.World(), bad_tests=0.6)
    assert selection.rates(world, 3, 3, ISSUES, THRESHOLD)["right"] > 1.2 * world.right_patches


def test_more_tests_alone_make_the_answer_safer() -> None:
    one = selection.rates(selection.World(), 1, 1, ISSUES, THRESHOLD)
    assert selection.rates(selection.World(), 3, 1, ISSUES, THRESHOLD)["wrong_pass"] < 0.6 * one["wrong_pass"]
