"""slime: a rollout function, rewards of a group, and advantages in which masked episodes take no part.

A module of yours binds them to how episodes are made and names them in the options:

    adapter = Adapter(recipe, make)
    generate, reward, centred = adapter.generate, adapter.reward, adapter.centred
    # --custom-generate-function-path mine.generate --group-rm --custom-rm-path mine.reward
    # --custom-reward-post-process-path mine.centred
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from execcritic_training.advantages import Rollout, advantages
from execcritic_training.export.common import Make, responses, scored
from execcritic_training.recipes import RlRecipe
from execcritic_training.records import Record
from execcritic_training.rewards import Masked


class Adapter:
    """`make` makes and judges an episode. Samples are slime's own, told by their attributes."""

    def __init__(self, recipe: RlRecipe, make: Make) -> None:
        self._recipe, self._make = recipe, make

    async def generate(self, args: Any, sample: Any, sampling_params: Any) -> Any:
        """The sample filled with an episode; a list where its context was rewritten on the way. What the machine broke
        has `remove_sample`, so that it has no loss."""
        record = await self._make(sample.label)
        found = responses(record, self._recipe) if record.turns and record.outcome.status == "completed" else []
        if not found:
            sample.status, sample.remove_sample = type(sample).Status.ABORTED, True
            sample.response_length, sample.loss_mask, sample.rollout_log_probs = 0, [], []
            sample.metadata = {**sample.metadata, "record": record.to_json()}
            return sample
        filled = [copy.copy(sample) for _ in found]
        for one, row in zip(filled, found, strict=True):
            one.tokens = row.prompt + row.response
            one.response_length, one.loss_mask, one.rollout_log_probs = len(row.response), row.mask, row.logprobs
            one.weight_versions = sorted({str(turn.policy_version) for turn in record.turns})
            one.status = type(sample).Status.COMPLETED
            one.metadata = {**sample.metadata, "record": record.to_json()}
        return filled[0] if len(filled) == 1 else filled

    async def reward(self, args: Any, samples: Sequence[Any], **more: Any) -> list[float]:
        """The rewards of a group. A masked episode's is 0 and is marked: `centred` leaves it out of the mean."""
        found = scored([_record(sample) for sample in samples], self._recipe)
        for sample, score in zip(samples, found, strict=True):
            if isinstance(score, Masked):
                sample.remove_sample = True
                sample.metadata = {**sample.metadata, "masked": f"{score.cause}: {score.reason}"}
        return [0.0 if isinstance(score, Masked) else score.value for score in found]

    def centred(self, args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
        """(rewards, advantages): reward less the mean of those of its group that count; 0 for masked ones. slime's own
        would count a masked reward as 0 in the mean. Of an episode with several rows only one is in the mean."""
        records = [_record(sample) for sample in samples]
        first = {record.id: n for n, record in reversed(list(enumerate(records)))}
        once = [records[n] for n in first.values()]
        found = scored(once, self._recipe)
        values = advantages([Rollout(r.group, s) for r, s in zip(once, found, strict=True)]).values
        known = {record.id: value for record, value in zip(once, values, strict=True)}
        return [float(sample.reward) for sample in samples], [known[record.id] for record in records]


def _record(sample: Any) -> Record:
    return Record.model_validate(sample.metadata["record"])
