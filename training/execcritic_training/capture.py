"""What the recording proxy keeps of a session: JSON lines, one a request, each as what it adds to the one before.

    exchange    n (from 0), keep and messages (as in `records.Turn`), request: its other fields, null where they are
                those of the exchange before; reply, finish, usage, model, policy_version; tokens (as in
                `records.Tokens`) or untrainable: why there are none
    refused     status and the beginning of the body of an upstream error

A line is written before the agent gets the answer, so that no answer is lost; an agent that had given up by then never
saw it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from execcritic_roles.trajectory import read
from execcritic_scaffold.errors import UsageError
from execcritic_training.delta import shared
from execcritic_training.records import ROUNDING


@dataclass(frozen=True)
class Sampled:
    """Token ids of a prompt and of the reply to it, and a log-probability for each of the latter."""

    prompt: list[int]
    output: list[int]
    logprobs: list[float]


@dataclass(frozen=True)
class Exchange:
    """One request and its reply, whole. `sampled` None: `untrainable` says why, or nothing was asked for."""

    messages: list[Any]
    request: Mapping[str, Any]
    reply: Mapping[str, Any]
    finish: str | None
    usage: Any
    model: str
    policy_version: int | None
    sampled: Sampled | None
    untrainable: str | None


@dataclass
class Chain:
    """The end of a session so far: what the next line is told against."""

    messages: list[Any] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    request: Mapping[str, Any] | None = None
    count: int = 0

    def pack(self, exchange: Exchange) -> dict[str, Any]:
        """The fields of the exchange's line; the chain goes on from it."""
        keep = shared(self.messages, exchange.messages)
        line: dict[str, Any] = {"n": self.count, "keep": keep, "messages": exchange.messages[keep:]}
        line["request"] = None if exchange.request == self.request else exchange.request
        line |= {"reply": exchange.reply, "finish": exchange.finish, "usage": exchange.usage, "model": exchange.model}
        line["policy_version"] = exchange.policy_version
        sampled, ids = exchange.sampled, []
        if sampled is not None:
            kept = shared(self.ids, sampled.prompt)
            line["tokens"] = {"keep": kept, "prompt": sampled.prompt[kept:]}
            line["tokens"] |= {"output": sampled.output, "logprobs": sampled.logprobs}
            ids = sampled.prompt + sampled.output
        elif exchange.untrainable:
            line["untrainable"] = exchange.untrainable
        self.messages = [*exchange.messages, exchange.reply]
        self.ids, self.request, self.count = ids, exchange.request, self.count + 1
        return line

    def unpack(self, line: Mapping[str, Any]) -> Exchange:
        """The exchange of a line; the chain goes on from it. A proxy that was started again writes its first one whole.

        Raises KeyError, TypeError for a line that is none."""
        messages = [*self.messages[: line["keep"]], *line["messages"]]
        request = line["request"] if line["request"] is not None else self.request
        sampled, tokens = None, line.get("tokens")
        if tokens is not None:
            prompt = self.ids[: tokens["keep"]] + tokens["prompt"]
            sampled = Sampled(prompt, tokens["output"], tokens["logprobs"])
        self.messages = [*messages, line["reply"]]
        self.ids = sampled.prompt + sampled.output if sampled else []
        self.request = request
        return Exchange(
            messages,
            request if request is not None else {},
            line["reply"],
            line["finish"],
            line["usage"],
            line["model"],
            line["policy_version"],
            sampled,
            line.get("untrainable"),
        )


def read_capture(path: Path) -> Iterator[Exchange]:
    """The exchanges of a session; a torn last line is left out, since its answer never reached the agent.

    Raises UsageError for a file that cannot be read or is no capture.
    """
    chain = Chain()
    try:
        for number, line in enumerate(read(path), 1):
            if line.get("event") != "exchange":
                continue
            try:
                yield chain.unpack(line)
            except (KeyError, TypeError, AttributeError):
                raise UsageError(f"{path}, entry {number} is no exchange; name a file of the proxy.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); name a file of the proxy.") from None


def sampled_of(answer: Mapping[str, Any], choice: Mapping[str, Any]) -> Sampled | str:
    """Ids and log-probabilities of an answer in vLLM's fields, or why they are not usable.

    Nothing is filled in: an id list of another length than the log-probabilities, or one that is missing, is a reason.
    """
    prompt, output = answer.get("prompt_token_ids"), choice.get("token_ids")
    if not _ids(prompt) or not prompt:
        return "the endpoint returned no prompt_token_ids"
    if not _ids(output) or not output:
        return "the endpoint returned no token_ids"
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(content, list):
        return "the endpoint returned no log-probabilities"
    values = [entry.get("logprob") if isinstance(entry, Mapping) else None for entry in content]
    if len(values) != len(output):
        return f"the endpoint returned {len(values)} log-probabilities for {len(output)} tokens"
    if not all(_logprob(value) for value in values):
        return "the endpoint returned a log-probability that is no finite number below zero"
    return Sampled(prompt, output, [float(value) for value in values if value is not None])


def _ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _logprob(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value <= ROUNDING
