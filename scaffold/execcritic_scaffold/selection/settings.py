"""The numbers of the selection; their values are the application's (section `selection` of config.yaml)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Weights(BaseModel):
    """How much each signal counts once it rests on many observations; `prior` is what is believed without any."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prior: float = Field(gt=0)
    dual: float = Field(ge=0)
    accepts: float = Field(ge=0)
    rejects: float = Field(ge=0)
    mutants: float = Field(ge=0)
    pinning: float = Field(ge=0)
    evidence: float = Field(ge=0)
    judge: float = Field(ge=0)


class ScoreSettings(BaseModel):
    """What makes a score of signals, and what a score is good for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prior: float = Field(ge=0, le=1)
    """The score of a test of which nothing is known but that it qualified."""
    threshold: float = Field(ge=0, le=1)
    """A test with a lower score decides nothing."""
    weights: Weights


class SelectionSettings(ScoreSettings):
    """Everything about several episodes, and about the model that judges tests."""

    concurrent: int = Field(ge=1)
    """Episodes at work at the same time."""
    seconds: float = Field(gt=0)
    """Time for the verdicts of each of the two appraisals (after Round 0, at the end); what is left over has none."""
    mutants: int = Field(ge=0)
    """Mutants of the patch that most agree on, each run under every test that it passes."""
    judge: Literal["none", "model"]
    """Whether a model rules on disputes; without one the Repair agent has no `dispute`."""
    disputes: int = Field(ge=1)
    """Disputes of one Repair episode that are ruled on."""
    consistency: bool
    """With a judge: ask it of each frozen test, too, whether the issue asks for what the test demands."""
