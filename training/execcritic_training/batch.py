"""The replies that are being generated together: a batch that rows join and leave at any step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache

from execcritic_training.chat import Generated, Wanted


@dataclass
class Live:
    """A reply that is being generated: one row of the batch."""

    prompt: list[int]
    wanted: Wanted
    done: Future[Generated] = field(default_factory=Future)
    output: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    random: torch.Generator = field(default_factory=torch.Generator)


class Batch:
    """Rows side by side, their prompts padded on the left. `finished` is asked about a row after each of its tokens."""

    def __init__(self, model: Any, finished: Callable[[Live], bool]) -> None:
        self.model = model
        self.rows: list[Live] = []
        self._finished = finished
        self._cache: Any = None
        self._mask = torch.empty(0)

    def admit(self, new: Sequence[Live]) -> None:
        """Read the prompts of new rows and sample their first tokens."""
        if not new:
            return
        width = max(len(row.prompt) for row in new)
        pad = [width - len(row.prompt) for row in new]
        ids = torch.tensor([[0] * n + row.prompt for n, row in zip(pad, new, strict=True)])
        mask = torch.tensor([[0] * n + [1] * (width - n) for n in pad])
        cache = DynamicCache(config=self.model.config)
        logits = self._forward(ids, mask, cache)
        if not self.rows:
            self._cache, self._mask = cache, mask
        else:
            wide = max(width, self._mask.shape[1])
            for each in (self._cache, cache):
                for layer in each.layers:
                    layer.keys, layer.values = _left(layer.keys, wide, 2), _left(layer.values, wide, 2)
            for ours, theirs in zip(self._cache.layers, cache.layers, strict=True):
                ours.keys = torch.cat([ours.keys, theirs.keys])
                ours.values = torch.cat([ours.values, theirs.values])
            self._mask = torch.cat([_left(self._mask, wide, 1), _left(mask, wide, 1)])
        first = len(self.rows)
        self.rows += new
        self._sample(first, logits)

    def step(self) -> None:
        """One more token for every row."""
        if not self.rows:
            return
        ids = torch.tensor([[row.output[-1]] for row in self.rows])
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], 1)
        self._sample(0, self._forward(ids, self._mask, self._cache))

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor, cache: Any) -> torch.Tensor:
        """Logits after the last token of each row."""
        places = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        more = {"attention_mask": mask, "position_ids": places, "cache": cache, "use_cache": True}
        logits: torch.Tensor = self.model(input_ids=ids, logits_to_keep=1, **more).logits[:, -1].float()
        return logits

    def _sample(self, first: int, logits: torch.Tensor) -> None:
        """A token for the rows from `first` on; rows that are finished leave the batch."""
        scores = torch.log_softmax(logits, -1)
        for row, each in zip(self.rows[first:], scores, strict=True):
            token = _choose(each, row.wanted, row.random)
            row.output.append(token)
            row.logprobs.append(float(each[token]))
        going = [n for n, row in enumerate(self.rows) if n < first or not self._finished(row)]
        if len(going) == len(self.rows):
            return
        self.rows = [self.rows[n] for n in going]
        if not going:
            self._cache = None
            return
        self._cache.batch_select_indices(torch.tensor(going))
        self._mask = self._mask[going]
        if unused := int(self._mask.any(0).int().argmax()):  # columns that only longer rows needed
            self._mask = self._mask[:, unused:]
            for layer in self._cache.layers:
                layer.keys, layer.values = layer.keys[:, :, unused:], layer.values[:, :, unused:]


def _choose(scores: torch.Tensor, wanted: Wanted, random: torch.Generator) -> int:
    if wanted.temperature == 0:
        return int(scores.argmax())
    chances = torch.softmax(scores / wanted.temperature, -1)
    if wanted.top_p < 1:
        ordered, places = chances.sort(descending=True)
        ordered[ordered.cumsum(0) - ordered >= wanted.top_p] = 0  # the first that passes it still counts
        return int(places[torch.multinomial(ordered, 1, generator=random)])
    return int(torch.multinomial(chances, 1, generator=random))


def _left(tensor: torch.Tensor, width: int, axis: int) -> torch.Tensor:
    """Zeros before what is there, so that the axis is `width` long."""
    missing = width - tensor.shape[axis]
    if not missing:
        return tensor
    shape = [*tensor.shape[:axis], missing, *tensor.shape[axis + 1 :]]
    return torch.cat([tensor.new_zeros(shape), tensor], axis)
