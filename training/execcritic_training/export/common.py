"""What both adapters need: the tasks as a file, and an episode as a prompt with a response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from execcritic.batch.instance import Instance
from execcritic_training.recipes import RlRecipe
from execcritic_training.records import Record
from execcritic_training.rows import build_rows
from execcritic_training.steps import by_role, scores

Make = Callable[[str], Awaitable[Record]]
"""Makes and judges one episode of the task with this id, by the policy as it is served now."""


@dataclass(frozen=True)
class Response:
    """One row of an episode: its first prompt, then everything after it. `mask` and `logprobs` are aligned with
    `response`; a log-probability is 0 where nothing was sampled and the mask is 0."""

    prompt: list[int]
    response: list[int]
    mask: list[int]
    logprobs: list[float]


def tasks(instances: Iterable[Instance]) -> Iterator[dict[str, Any]]:
    """One line for each task. The prompt is a name: the episode's own controller writes what the model reads."""
    for one in instances:
        message = {"role": "user", "content": one.id}
        yield {"prompt": [message], "label": one.id, "data_source": "execcritic", "agent_name": "execcritic"}


def responses(record: Record, recipe: RlRecipe) -> list[Response]:
    """The rows of an episode, longer ones by the recipe's rule; more than one where its context was rewritten."""
    rows, _ = build_rows([record], recipe.window.of_rows())
    found = []
    for row in rows:
        start = row.spans[0].output
        found.append(Response(row.ids[:start], row.ids[start:], list(row.mask[start:]), row.aligned(0.0)[start:]))
    return found


def scored(records: Sequence[Record], recipe: RlRecipe) -> Sequence[Any]:
    """METHOD's scores of episodes; those of one group are compared with each other only."""
    return scores(records, by_role(recipe), recipe)
