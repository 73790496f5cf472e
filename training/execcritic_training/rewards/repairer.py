"""The Repair role's reward (METHOD 5): five levels, by the terminal patch under the fixed oracle test."""

from __future__ import annotations

from execcritic_training.evidence import Outcome, RepairEvidence
from execcritic_training.rewards.levels import RepairLevels
from execcritic_training.rewards.score import Cause, Masked, Reward, Score

METHOD = RepairLevels()


def score(evidence: RepairEvidence, levels: RepairLevels = METHOD) -> Score:
    """The level of one rollout.

    Where the selected test fails, the official verdict is not looked at, so that it need not be had. Elsewhere a run
    that could not be judged, or is missing, masks the rollout.
    """
    if evidence.operational is not None:
        return Masked(evidence.operational)
    if evidence.truncated:
        if levels.truncated == "mask":
            return Masked("the episode was cut off by a limit", Cause.TRUNCATED)
        return Reward(0.0, "truncated")
    if evidence.forbidden is not None:
        return Reward(levels.unusable, "forbidden modification")
    if not evidence.patch:
        return Reward(levels.unusable, "no usable patch")
    if evidence.selected is None or evidence.selected is Outcome.OPERATIONAL:
        return Masked("operational error on the selected test")
    if evidence.selected is Outcome.FAIL:
        return Reward(levels.selected_fails, "selected test fails")
    if evidence.official is None or evidence.official is Outcome.OPERATIONAL:
        return Masked("operational error in the official evaluation")
    if evidence.suspect is not None and levels.suspect == "zero":
        return Reward(0.0, "suspect")
    if evidence.official is Outcome.FAIL:
        return Reward(levels.official_fails, "official evaluation fails")
    if evidence.rounds == 0:
        return Reward(levels.at_round_0, "both pass at Round 0", {"rounds": 0})
    return Reward(levels.after_revision, "both pass after revision", {"rounds": evidence.rounds})
