"""verl: an agent loop that makes an episode with our controller, and an advantage estimator for its scores.

    loop = agent_loop(recipe, make)          # in the module that agent_loop_config_path names
    algorithm.adv_estimator=execcritic       # after register()

verl takes one row of an episode: where its context was rewritten, the last row is given, which holds its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from execcritic_scaffold.errors import UsageError
from execcritic_training.advantages import Rollout, advantages
from execcritic_training.export.common import Make, responses, scored
from execcritic_training.recipes import RlRecipe
from execcritic_training.rewards import Cause, Masked, Reward

NAME = "execcritic"


def agent_loop(recipe: RlRecipe, make: Make) -> Any:
    """The class, registered under the name that the tasks carry. Raises UsageError without verl."""
    try:
        from verl.experimental.agent_loop.agent_loop import (
            AgentLoopBase,
            AgentLoopMetrics,
            AgentLoopOutput,
            register,
        )
    except ImportError:
        raise UsageError("verl is missing; run this in the environment of verl's trainer.") from None

    class ExecCriticLoop(AgentLoopBase):  # type: ignore[misc]
        async def run(self, sampling_params: Any, **task: Any) -> Any:
            record = await make(task["raw_prompt"][-1]["content"])
            (score,) = scored([record], recipe)
            found = responses(record, recipe) if record.turns and not isinstance(score, Masked) else []
            extra: dict[str, Any] = {"group": record.group, "episode": record.id}
            if isinstance(score, Masked) or not found:
                extra["masked"] = score.reason if isinstance(score, Masked) else "longer than the window"
                pad = self.tokenizer.eos_token_id  # no response would break verl's batches; nothing of it is trained
                return AgentLoopOutput(
                    prompt_ids=[pad],
                    response_ids=[pad],
                    response_mask=[0],
                    response_logprobs=[0.0],
                    reward_score=0.0,
                    num_turns=len(record.turns),
                    metrics=AgentLoopMetrics(),
                    extra_fields=extra,
                )
            row = found[-1]
            return AgentLoopOutput(
                prompt_ids=row.prompt,
                response_ids=row.response,
                response_mask=row.mask,
                response_logprobs=row.logprobs,
                reward_score=score.value,
                num_turns=len(record.turns),
                metrics=AgentLoopMetrics(),
                extra_fields=extra,
            )

    return register(NAME)(ExecCriticLoop)


def centred(rewards: Sequence[float], groups: Sequence[str], counted: Sequence[bool]) -> list[float]:
    """The advantage of each episode: its reward less the mean of those of its group that count, 0 for the others."""
    rollouts = [
        Rollout(group, Reward(float(value), "verl") if counts else Masked("masked", Cause.OPERATIONAL))
        for value, group, counts in zip(rewards, groups, counted, strict=True)
    ]
    return list(advantages(rollouts).values)


def register() -> None:
    """Make `algorithm.adv_estimator=execcritic` known. Raises UsageError without verl."""
    try:
        from verl.trainer.ppo.core_algos import register_adv_est
    except ImportError:
        raise UsageError("verl is missing; run this in the environment of verl's trainer.") from None

    def estimate(token_level_rewards: Any, response_mask: Any, index: Any, **more: Any) -> tuple[Any, Any]:
        rewards = token_level_rewards.sum(-1).tolist()
        counted = (response_mask.sum(-1) > 0).tolist()
        values = centred(rewards, [str(group) for group in index], counted)
        spread = response_mask * token_level_rewards.new_tensor(values)[:, None]
        return spread, spread

    register_adv_est(NAME)(estimate)
