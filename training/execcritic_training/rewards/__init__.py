"""Rewards: pure functions from what the judge found to a value, or to nothing at all (METHOD 5, docs/rewards.md).

tester.py and repairer.py hold each role's levels, levels.py their numbers, accuracy.py the balanced accuracy.
"""

from execcritic_training.rewards.levels import RepairLevels, TestLevels
from execcritic_training.rewards.score import Cause, Masked, Reward, Score

__all__ = ["Cause", "Masked", "RepairLevels", "Reward", "Score", "TestLevels"]
