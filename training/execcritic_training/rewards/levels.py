"""Every number of the rewards, with METHOD 5's values."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Truncated = Literal["mask", "zero"]
"""What a truncated episode gets: no reward at all, or exactly 0. Never a success."""
Suspect = Literal["zero", "ignore"]
"""What a rollout gets that would earn something and may have got it by a trick: 0, or what it would have got."""


class TestLevels(BaseModel):
    """The Test role."""

    __test__ = False  # pytest would take it for a class of tests
    model_config = ConfigDict(frozen=True, extra="forbid")

    no_submission: float = -0.2
    not_base_to_gold: float = 0.0
    base_to_gold: float = 0.2
    accurate: float = 0.5
    perfect: float = 1.0
    accuracy: float = Field(default=0.8, ge=0, le=1)
    """Balanced accuracy from which a test is `accurate`; `perfect` needs exactly 1."""
    candidates: int = Field(default=8, ge=1)
    """Labelled patches at most."""
    slack_turns: int = Field(default=8, ge=0)
    """A rollout that is longer by more turns than this than the shortest of its level gets `slack_factor`."""
    slack_factor: float = Field(default=0.5, ge=0, le=1)
    truncated: Truncated = "mask"
    suspect: Suspect = "zero"


class RepairLevels(BaseModel):
    """The Repair role."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unusable: float = 0.0
    selected_fails: float = 0.1
    official_fails: float = 0.2
    after_revision: float = 1.0
    at_round_0: float = 1.5
    truncated: Truncated = "mask"
    suspect: Suspect = "zero"
