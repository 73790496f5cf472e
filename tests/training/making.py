"""Records made by hand: from whole prompts and outputs in ids, without any text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from execcritic_training.capture import Chain, Exchange, Sampled
from execcritic_training.records import Outcome, Policy, Record, Sampling, Task, Tokens, Turn, group_key

TASK = Task(instance_id="spans-1", base="ab" * 20, split="train")


def logprob(token: int) -> float:
    """A log-probability that tells its token."""
    return -0.001 * (token + 1)


def turn(keep: int, prompt: Sequence[int], output: Sequence[int], **more: Any) -> Turn:
    tokens = Tokens(
        keep=keep,
        prompt=list(prompt),
        output=list(output),
        logprobs=[logprob(token) for token in output],
        mask=more.pop("mask", None),
    )
    reply = {"role": "assistant", "content": "…"}
    return Turn(keep=0, messages=[], reply=reply, finish=more.pop("finish", "stop"), tokens=tokens, **more)


def record(*turns: Turn, id: str = "run/test", **more: Any) -> Record:
    more.setdefault("role", "test")
    more.setdefault("frozen", None)
    more.setdefault("task", TASK)
    fields: dict[str, Any] = {
        "id": id,
        "group": group_key(more["task"], more["role"], more["frozen"]),
        "policy": Policy(model="m", version=3),
        "sampling": Sampling(temperature=1.0),
        "tools": [],
        "turns": list(turns),
        "outcome": Outcome(status="completed"),
    }
    return Record(**{**fields, **more})


def sampled(*pairs: tuple[Sequence[int], Sequence[int]], **more: Any) -> Record:
    """A record of turns given as whole prompt and output, in the form that the proxy makes of them."""
    chain, turns = Chain(), []
    for prompt, output in pairs:
        ids = Sampled(list(prompt), list(output), [logprob(token) for token in output])
        line = chain.pack(Exchange([], {}, {"role": "assistant"}, "stop", {}, "m", 3, ids, None))
        turns.append(Turn(keep=0, messages=[], reply={"role": "assistant"}, finish="stop", tokens=line["tokens"]))
    return record(*turns, **more)
