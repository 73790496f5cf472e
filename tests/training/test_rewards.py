"""Every branch of both rewards by hand, and what must hold for any evidence."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execcritic_training.evidence import Labelled, Outcome, RepairEvidence, TestEvidence
from execcritic_training.rewards import Cause, Masked, RepairLevels, Reward, Score, TestLevels, repairer, tester
from execcritic_training.rewards.accuracy import balanced

P, F, OP = Outcome.PASS, Outcome.FAIL, Outcome.OPERATIONAL


def pool(right: str, wrong: str) -> tuple[Labelled, ...]:
    """Candidates by what the test said: `right` of the correct ones, `wrong` of the wrong ones (p, f, o)."""
    said = {"p": P, "f": F, "o": OP}
    both = [(True, c) for c in right] + [(False, c) for c in wrong]
    return tuple(Labelled(f"c{i}", correct, said[c]) for i, (correct, c) in enumerate(both))


def test_role(**more: object) -> TestEvidence:
    return replace(TestEvidence(True, 10, F, P, pool("pppp", "ffff")), **more)  # type: ignore[arg-type]


test_role.__test__ = False  # type: ignore[attr-defined]

TEST_ROLE: list[tuple[TestEvidence, float | Cause]] = [
    # completed without a valid submission
    (TestEvidence(False, 60), -0.2),
    # valid, passes on Base; Gold was not run
    (TestEvidence(True, 5, P), 0.0),
    # valid, fails on Base and on Gold
    (TestEvidence(True, 5, F, F), 0.0),
    # Base-to-Gold, no candidates: recalls (0 + 0) / 2 = 0 < 0.8
    (test_role(candidates=()), 0.2),
    # only correct ones, all passed: (1 + 0) / 2 = 0.5
    (test_role(candidates=pool("pppp", "")), 0.2),
    # only wrong ones, all failed: (0 + 1) / 2 = 0.5
    (test_role(candidates=pool("", "ffff")), 0.2),
    # (3/4 + 3/4) / 2 = 0.75 < 0.8
    (test_role(candidates=pool("pppf", "fffp")), 0.2),
    # (1 + 3/5) / 2 = 0.8 exactly
    (test_role(candidates=pool("ppp", "fffpp")), 0.5),
    # (1 + 3/4) / 2 = 0.875
    (test_role(candidates=pool("pppp", "fffp")), 0.5),
    # (1 + 1) / 2 = 1, whatever the classes' sizes
    (test_role(candidates=pool("p", "fffffff")), 1.0),
    # an operational error anywhere: no reward, however good the rest
    (test_role(candidates=pool("pppp", "fffo")), Cause.OPERATIONAL),
    (test_role(candidates=pool("o", "")), Cause.OPERATIONAL),
    (test_role(base=OP), Cause.OPERATIONAL),
    (test_role(gold=OP), Cause.OPERATIONAL),
    (test_role(operational="no sandbox"), Cause.OPERATIONAL),
    (TestEvidence(False, 3, operational="no endpoint"), Cause.OPERATIONAL),
    # ... on a candidate even where Gold fails, which would have been 0
    (test_role(gold=F, candidates=pool("o", "")), Cause.OPERATIONAL),
    # evidence that is missing is not a 0
    (test_role(gold=None), Cause.OPERATIONAL),
    (test_role(base=None), Cause.OPERATIONAL),
    # cut off: no reward, and not the -0.2 of an episode that came to its own end
    (TestEvidence(False, 60, truncated=True), Cause.TRUNCATED),
    # it reads source instead of running it
    (test_role(suspect="READS_SOURCE"), 0.0),
    (TestEvidence(False, 4, suspect="READS_SOURCE"), -0.2),
]


def plain(score: Score) -> float | Cause:
    return score.value if isinstance(score, Reward) else score.cause


@pytest.mark.parametrize(("evidence", "expected"), TEST_ROLE)
def test_test_role(evidence: TestEvidence, expected: float | Cause) -> None:
    assert plain(tester.score(evidence)) == expected


REPAIR: list[tuple[RepairEvidence, float | Cause]] = [
    (RepairEvidence(False, 9, 5), 0.0),
    (RepairEvidence(True, 9, 0, forbidden="TEST_MODIFIED: tests/test_a.py"), 0.0),
    # a forbidden patch that would pass everything is still forbidden
    (RepairEvidence(True, 9, 0, forbidden="x", selected=P, official=P), 0.0),
    (RepairEvidence(True, 9, 5, selected=F), 0.1),
    (RepairEvidence(True, 9, 5, selected=F, official=P), 0.1),
    # the official verdict is not asked for where the selected test fails, so its failure masks nothing
    (RepairEvidence(True, 9, 5, selected=F, official=OP), 0.1),
    (RepairEvidence(True, 9, 1, selected=P, official=F), 0.2),
    (RepairEvidence(True, 9, 0, selected=P, official=F), 0.2),
    (RepairEvidence(True, 9, 1, selected=P, official=P), 1.0),
    (RepairEvidence(True, 9, 5, selected=P, official=P), 1.0),
    (RepairEvidence(True, 9, 0, selected=P, official=P), 1.5),
    (RepairEvidence(True, 9, 0, selected=OP), Cause.OPERATIONAL),
    (RepairEvidence(True, 9, 0, selected=None), Cause.OPERATIONAL),
    (RepairEvidence(True, 9, 0, selected=P, official=OP), Cause.OPERATIONAL),
    (RepairEvidence(True, 9, 0, selected=P, official=None), Cause.OPERATIONAL),
    (RepairEvidence(False, 9, 0, operational="the model failed"), Cause.OPERATIONAL),
    (RepairEvidence(True, 9, 0, selected=P, official=P, truncated=True), Cause.TRUNCATED),
    (RepairEvidence(True, 9, 0, selected=P, official=P, suspect="READS_MODULES"), 0.0),
    (RepairEvidence(True, 9, 0, selected=F, suspect="READS_MODULES"), 0.1),
]


@pytest.mark.parametrize(("evidence", "expected"), REPAIR)
def test_repair_role(evidence: RepairEvidence, expected: float | Cause) -> None:
    assert plain(repairer.score(evidence)) == expected


def test_choices_that_the_levels_leave() -> None:
    cut, tricky = TestEvidence(False, 60, truncated=True), test_role(suspect="READS_SOURCE")
    assert plain(tester.score(cut, TestLevels(truncated="zero"))) == 0.0
    assert plain(tester.score(tricky, TestLevels(suspect="ignore"))) == 1.0
    done = RepairEvidence(True, 9, 0, selected=P, official=P)
    assert plain(repairer.score(replace(done, truncated=True), RepairLevels(truncated="zero"))) == 0.0
    assert plain(repairer.score(done, RepairLevels(at_round_0=1.0))) == 1.0  # METHOD 7: no bonus for a direct solve
    with pytest.raises(ValueError, match="9 candidates"):
        tester.score(test_role(candidates=pool("ppppp", "ffff")))


def test_slack_by_hand() -> None:
    """Shortest perfect rollout: 10 turns. 18 is 8 longer: whole. 19 is 9 longer: half. The 0.2 with 40 turns is the
    shortest of its own level. A masked rollout of 2 turns, and the -0.2 of 1, shorten nobody's slack."""
    weak = pool("pppf", "fffp")
    group = [
        test_role(turns=10),
        test_role(turns=18),
        test_role(turns=19),
        test_role(turns=40, candidates=weak),
        test_role(turns=49, candidates=weak),
        test_role(turns=2, operational="x"),
        TestEvidence(False, 1),
        TestEvidence(False, 60),
    ]
    expected = [1.0, 1.0, 0.5, 0.2, 0.1, Cause.OPERATIONAL, -0.2, -0.2]
    assert [plain(score) for score in tester.scores(group)] == expected
    halved = tester.scores(group)[2]
    assert isinstance(halved, Reward)
    assert halved.components["slack_factor"] == 0.5
    assert tester.scores([]) == []


outcomes = st.sampled_from(Outcome)
labelled = st.builds(Labelled, st.text(max_size=3), st.booleans(), outcomes)
evidence = st.builds(
    TestEvidence,
    st.booleans(),
    st.integers(0, 60),
    st.none() | outcomes,
    st.none() | outcomes,
    st.lists(labelled, max_size=8).map(tuple),
    st.none() | st.just("x"),
    st.booleans(),
    st.none() | st.just("READS_SOURCE"),
)


@given(st.lists(evidence, max_size=8), st.randoms())
def test_group_is_bounded_and_knows_no_order(group: list[TestEvidence], random: object) -> None:
    scores = tester.scores(group)
    assert all(-0.2 <= score.value <= 1 for score in scores if isinstance(score, Reward))
    order = list(range(len(group)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert tester.scores([group[i] for i in order]) == [scores[i] for i in order]


@given(st.lists(labelled, max_size=8).map(tuple), st.randoms())
def test_accuracy_is_bounded_monotone_and_knows_no_order(found: tuple[Labelled, ...], random: object) -> None:
    accuracy = balanced(found)
    assert 0 <= accuracy <= 1
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert balanced(shuffled) == accuracy
    for i, one in enumerate(found):
        better = replace(one, outcome=P if one.correct else F)
        improved = (*found[:i], better, *found[i + 1 :])
        assert balanced(improved) >= accuracy
        before = tester.score(test_role(candidates=found))
        after = tester.score(test_role(candidates=improved))
        if isinstance(before, Reward) and isinstance(after, Reward):
            assert after.value >= before.value
    assert accuracy < 1 or {one.correct for one in found} == {True, False}


@given(evidence)
def test_only_base_to_gold_earns(one: TestEvidence) -> None:
    score = tester.score(one)
    if isinstance(score, Reward) and score.value > 0:
        assert one.submitted and one.base is F and one.gold is P and not one.truncated and one.suspect is None
    if one.operational is not None or OP in (one.base, one.gold, *(c.outcome for c in one.candidates)):
        assert isinstance(score, Masked)


repairs = st.builds(
    RepairEvidence,
    st.booleans(),
    st.integers(0, 400),
    st.integers(0, 5),
    st.none() | st.just("x"),
    st.none() | outcomes,
    st.none() | outcomes,
    st.none() | st.just("x"),
    st.booleans(),
    st.none() | st.just("X"),
)


@given(repairs)
def test_repair_is_bounded_and_only_both_passing_earn_one(one: RepairEvidence) -> None:
    score = repairer.score(one)
    if isinstance(score, Reward):
        assert 0 <= score.value <= 1.5
        if score.value >= 1:
            assert one.selected is P and one.official is P and one.patch and one.forbidden is None
            assert (score.value == 1.5) == (one.rounds == 0)


def test_thresholds_are_exact() -> None:
    """4/5 is 0.8: as floats, (1 + 0.6) / 2 happens to be it too, but 0.1 * 8 steps would not."""
    assert balanced(pool("ppp", "fffpp")) == Fraction(4, 5)
