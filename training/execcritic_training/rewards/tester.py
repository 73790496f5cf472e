"""The Test role's reward (METHOD 5): five levels, and half for a rollout that is long without need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from execcritic_training.evidence import Outcome, TestEvidence
from execcritic_training.rewards.accuracy import balanced, recalls
from execcritic_training.rewards.levels import TestLevels
from execcritic_training.rewards.score import Cause, Masked, Reward, Score

METHOD = TestLevels()


def score(evidence: TestEvidence, levels: TestLevels = METHOD) -> Score:
    """The level of one rollout, before anything is halved. Raises ValueError for more candidates than `levels` has.

    An operational error on any candidate masks the rollout, whatever the other runs say; so does evidence that is
    missing where a level needs it.
    """
    if len(evidence.candidates) > levels.candidates:
        raise ValueError(f"{len(evidence.candidates)} candidates are given, {levels.candidates} are chosen at most")
    if reason := _operational(evidence):
        return Masked(reason)
    if evidence.truncated:
        if levels.truncated == "mask":
            return Masked("the episode was cut off by a limit", Cause.TRUNCATED)
        return Reward(0.0, "truncated")
    if not evidence.submitted:
        return Reward(levels.no_submission, "no submission")
    if evidence.base is Outcome.PASS or evidence.gold is Outcome.FAIL:
        return Reward(levels.not_base_to_gold, "not Base-to-Gold")
    if evidence.base is None or evidence.gold is None:
        return Masked(f"the test was not run on {'Base' if evidence.base is None else 'Gold'}")
    if evidence.suspect is not None and levels.suspect == "zero":
        return Reward(0.0, "suspect")
    accuracy = balanced(evidence.candidates)
    if accuracy == 1:
        value, level = levels.perfect, "perfect"
    elif accuracy >= Fraction(str(levels.accuracy)):
        value, level = levels.accurate, "accurate"
    else:
        value, level = levels.base_to_gold, "Base-to-Gold"
    positive, negative = recalls(evidence.candidates)
    parts = {"accuracy": float(accuracy), "tpr": float(positive), "tnr": float(negative)}
    return Reward(value, level, {**parts, "candidates": len(evidence.candidates)})


def scores(group: Sequence[TestEvidence], levels: TestLevels = METHOD) -> list[Score]:
    """The scores of a group, in its order. Within each positive level a rollout that is more than `slack_turns` longer
    than the shortest of that level gets `slack_factor` of it; masked rollouts are not looked at."""
    found = [score(evidence, levels) for evidence in group]
    shortest: dict[str, int] = {}
    for evidence, one in zip(group, found, strict=True):
        if isinstance(one, Reward):
            shortest[one.level] = min(evidence.turns, shortest.get(one.level, evidence.turns))
    return [
        _halved(one, levels)
        if isinstance(one, Reward) and one.value > 0 and evidence.turns - shortest[one.level] > levels.slack_turns
        else one
        for evidence, one in zip(group, found, strict=True)
    ]


def _halved(reward: Reward, levels: TestLevels) -> Reward:
    parts = {**reward.components, "slack_factor": levels.slack_factor}
    return replace(reward, value=reward.value * levels.slack_factor, components=parts)


def _operational(evidence: TestEvidence) -> str | None:
    if evidence.operational is not None:
        return evidence.operational
    for where, outcome in (("Base", evidence.base), ("Gold", evidence.gold)):
        if outcome is Outcome.OPERATIONAL:
            return f"operational error on {where}"
    broken = sorted(c.id for c in evidence.candidates if c.outcome is Outcome.OPERATIONAL)
    return f"operational error on candidate {broken[0]}" if broken else None
