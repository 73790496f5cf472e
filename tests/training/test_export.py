"""The adapters against stand-ins for the classes of slime and verl: ids, masks and log-probabilities as sampled, masked
episodes out of every mean."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from execcritic.batch.instance import Checkout, Instance
from execcritic_scaffold.errors import UsageError
from execcritic_training.export import common, verl
from execcritic_training.export.slime import Adapter
from execcritic_training.records import Outcome, Record
from tests.training.judged import bad, broken, episode, good, rl_recipe

RECIPE = rl_recipe()
TWO = (((1, 2), (3, 4)), ((9,), (5,)))


@dataclass
class Sample:
    """The fields of slime's."""

    class Status(Enum):
        PENDING = "pending"
        COMPLETED = "completed"
        ABORTED = "aborted"

    label: str
    tokens: list[int] = field(default_factory=list)
    response_length: int = 0
    reward: float | None = None
    loss_mask: list[int] | None = None
    weight_versions: list[str] = field(default_factory=list)
    rollout_log_probs: list[float] | None = None
    remove_sample: bool = False
    status: Status = Status.PENDING
    metadata: dict[str, Any] = field(default_factory=dict)


def maker(*records: Record) -> common.Make:
    known = {record.id: record for record in records}

    async def make(name: str) -> Record:
        return known[name]

    return make


def test_slime_gets_what_was_sampled() -> None:
    records = [
        episode("a", good(), pairs=TWO),
        episode("b", bad()),
        episode("c", broken()),
        episode("d", None, outcome=Outcome(status="op_error", reason="endpoint")),
    ]
    adapter = Adapter(RECIPE, maker(*records))
    samples = [asyncio.run(adapter.generate(None, Sample(record.id), {})) for record in records]
    a = samples[0]
    assert (a.tokens, a.response_length, a.loss_mask) == ([1, 2, 3, 4, 9, 5], 4, [1, 1, 0, 1])
    assert a.rollout_log_probs == [-5.0, -5.0, 0.0, -5.0] and a.weight_versions == ["0"]
    rewards = asyncio.run(adapter.reward(None, samples))
    for sample, reward in zip(samples, rewards, strict=True):
        sample.reward = reward
    assert rewards == [0.2, -0.2, 0.0, 0.0]
    assert [sample.remove_sample for sample in samples] == [False, False, True, True]
    assert samples[2].metadata["masked"] == "operational: the sandbox died"
    assert adapter.centred(None, samples) == (rewards, [pytest.approx(0.2), pytest.approx(-0.2), 0.0, 0.0])


def test_slime_counts_an_episode_of_several_rows_once() -> None:
    forked = episode("f", good(), pairs=TWO)
    tokens = forked.turns[1].tokens
    assert tokens is not None
    rewritten = forked.turns[1].model_copy(update={"tokens": tokens.model_copy(update={"keep": 1})})
    forked = forked.model_copy(update={"turns": [forked.turns[0], rewritten]})
    adapter = Adapter(RECIPE, maker(forked, episode("b", bad()), episode("c", bad())))
    rows = asyncio.run(adapter.generate(None, Sample("f"), {}))
    assert [row.tokens for row in rows] == [[1, 2, 3, 4], [1, 9, 5]]
    samples = [*rows, *(asyncio.run(adapter.generate(None, Sample(name), {})) for name in "bc")]
    for sample in samples:
        sample.reward = 0.0
    mean = (0.2 - 0.2 - 0.2) / 3
    assert adapter.centred(None, samples)[1] == pytest.approx([0.2 - mean, 0.2 - mean, -0.2 - mean, -0.2 - mean])


@pytest.fixture
def fake_verl(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Modules with the names that verl has, and what was registered in them."""
    registered: dict[str, Any] = {}

    def register(name: str) -> Any:
        return lambda thing: registered.setdefault(name, thing)

    loop = ModuleType("verl.experimental.agent_loop.agent_loop")
    loop.AgentLoopBase = SimpleNamespace  # type: ignore[attr-defined]
    loop.AgentLoopMetrics = loop.AgentLoopOutput = SimpleNamespace  # type: ignore[attr-defined]
    loop.register = register  # type: ignore[attr-defined]
    for name in ("verl", "verl.experimental", "verl.experimental.agent_loop"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, loop.__name__, loop)
    return registered


def test_verl_gets_what_was_sampled(fake_verl: dict[str, Any]) -> None:
    make = maker(episode("a", good(), pairs=TWO), episode("c", broken()))
    loop = verl.agent_loop(RECIPE, make)(tokenizer=SimpleNamespace(eos_token_id=7))
    assert set(fake_verl) == {"execcritic"}
    a, c = (asyncio.run(loop.run({}, raw_prompt=[{"role": "user", "content": name}])) for name in "ac")
    assert (a.prompt_ids, a.response_ids, a.response_mask) == ([1, 2], [3, 4, 9, 5], [1, 1, 0, 1])
    assert a.response_logprobs == [-5.0, -5.0, 0.0, -5.0] and a.reward_score == 0.2
    assert c.response_mask == [0] and c.extra_fields["masked"] == "the sandbox died"


def test_verls_advantages_leave_masked_ones_out() -> None:
    got = verl.centred([1.0, 0.0, 0.0, 0.5], ["x", "x", "x", "y"], [True, True, False, True])
    assert got == [0.5, -0.5, 0.0, 0.0]


def test_without_verl_it_says_so() -> None:
    for asked in (lambda: verl.agent_loop(RECIPE, maker()), verl.register):
        with pytest.raises(UsageError, match="verl is missing"):
            asked()


def test_tasks_name_the_instance_and_nothing_of_gold() -> None:
    (line,) = common.tasks([Instance("i-1", "o/r", "It fails.", Checkout("repo"))])
    assert line["label"] == line["prompt"][0]["content"] == "i-1" and line["agent_name"] == "execcritic"
