"""What may stand in a recipe. A key that is not known is an error: a misspelt number must not become its default."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from execcritic_training.advantages import Normaliser
from execcritic_training.records import Role
from execcritic_training.rewards.levels import RepairLevels, TestLevels
from execcritic_training.rows import Rule
from execcritic_training.rows import Window as RowWindow

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(strict=True, ge=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Window(_Part):
    """The longest sequence in tokens, and what becomes of longer ones (see `rows.Window`)."""

    tokens: Count
    rule: Rule = "drop"

    def of_rows(self) -> RowWindow:
        return RowWindow(self.tokens, self.rule)


class LoRA(_Part):
    """Low-rank adapters on every linear layer, or on those that are named."""

    rank: Count = 16
    alpha: Count = 32
    dropout: Share = 0.0
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"


class Optimiser(_Part):
    """AdamW. `warmup` and `max_grad_norm` are ours where METHOD names none."""

    lr: float = Field(gt=0)
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = Field(default=0, ge=0)
    """Updates over which the rate rises from 0."""
    beta1: Share = 0.9
    beta2: Share = 0.98
    weight_decay: float = Field(default=0.1, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)


class _Common(_Part):
    role: Role
    model: str = Field(min_length=1)
    """What the numbers are meant for; --model names the folder with the weights."""
    precision: Literal["bf16", "fp32"] = "bf16"
    """bf16: computed in it; the weights that are trained, and the optimiser, stay in float32."""
    lora: LoRA | None = None
    """None: all weights are trained."""
    optimiser: Optimiser
    batch: Count
    """Sequences of one update, over all devices."""
    micro_batch: Count = 1
    """Sequences that are in memory together on a device; what an update is does not depend on it."""
    checkpointing: bool = False
    """Compute activations again instead of keeping them: less memory, a third more time."""
    save_every: Count
    """Steps between two checkpoints."""
    keep: Count = 2
    """Checkpoints that stay on the disk."""
    seed: int = 0


class SftRecipe(_Common):
    """Supervised training on admitted conversations or on the rows of records."""

    stage: Literal["sft"]
    window: Window
    epochs: float = Field(default=1.0, gt=0)
    steps: Count | None = None
    """Updates; None: as many as the epochs have."""

    @model_validator(mode="after")
    def _whole(self) -> SftRecipe:
        if self.batch % self.micro_batch:
            raise ValueError(f"a batch of {self.batch} is no multiple of micro_batch {self.micro_batch}")
        return self


class Clip(_Part):
    """The ratio of the new to the sampled probability counts between 1 - low and 1 + high."""

    low: Share = 0.2
    high: float = Field(default=0.28, ge=0)


class Episodes(_Part):
    """How the episodes of a step are made. `seconds` None: no limit beyond the configuration's; `revisions` and
    `revision_turns` are the Repair role's."""

    groups: Count
    """Tasks of one step."""
    samples: Annotated[int, Field(strict=True, ge=2)]
    """Rollouts of each task; of one alone nothing could be learnt."""
    budget: Count = 3
    """Rollouts of a step at most, in multiples of groups * samples: groups without a difference are replaced."""
    response: Count
    """Tokens of one reply."""
    turns: Count
    seconds: float | None = Field(default=None, gt=0)
    revisions: int = Field(default=0, ge=0)
    revision_turns: int = Field(default=0, ge=0)
    temperature: float = Field(default=1.0, ge=1, le=1)
    top_p: float = Field(default=1.0, ge=1, le=1)
    """Only so are the sampled log-probabilities those of the policy itself."""


class Admission(_Part):
    """Which tasks are worth rollouts (METHOD 6). Nothing here is checked by the trainer: it is for the selection of the
    data set."""

    least_candidates: int | None = Field(default=None, ge=1)
    round0_below: Share | None = None
    both_labels: bool = False


class Sound(_Part):
    """When a rollout is too old to be trained on, and when a run has too many that the machine spoilt."""

    staleness: int = Field(default=4, ge=0)
    """Updates of the weights that the oldest turn may lie behind."""
    failures: Share = 0.2
    failures_window: Count = 128
    failures_least: Count = 32

    @model_validator(mode="after")
    def _least_in_window(self) -> Sound:
        if self.failures_least > self.failures_window:
            raise ValueError("failures_least is more than failures_window")
        return self


class RlRecipe(_Common):
    """Reinforcement learning on judged episodes: group-relative advantages, clipped ratios, no KL term."""

    stage: Literal["rl"]
    steps: Count
    window: Window
    episodes: Episodes
    admission: Admission = Admission()
    clip: Clip = Clip()
    kl: Literal[0] = 0
    """There is no KL term; the distance to the sampling policy is logged."""
    normaliser: Normaliser = "token"
    rewards: dict[str, float | str] = {}
    """Changes to METHOD's levels of the role, see `rewards/levels.py`."""
    sound: Sound = Sound()

    @model_validator(mode="after")
    def _fits(self) -> RlRecipe:
        if self.window.rule == "split":
            raise ValueError("the rule split is for sft alone: later pieces have no log-probabilities")
        try:
            self.levels()
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"rewards.{first['loc'][0]}: {first['msg']}") from None
        return self

    def levels(self) -> TestLevels | RepairLevels:
        """The numbers of the role's reward."""
        return (TestLevels if self.role == "test" else RepairLevels).model_validate(self.rewards)
