"""The seam between the turn loop and whatever writes the replies.

Messages and tools are plain dictionaries in the form of Chat Completions: what a provider adds to a message
(reasoning, thought signatures) has no place in a class of ours and must survive the way back to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from execcritic_scaffold.errors import ExecCriticError

Message = Mapping[str, Any]
ToolSchema = Mapping[str, Any]


class ContextOverflow(ExecCriticError):
    """The endpoint says that the conversation does not fit the model's context window."""


class OutOfTime(ExecCriticError):
    """The reply did not come within the time the caller had left; the endpoint itself did nothing wrong."""


class Quit(ExecCriticError):
    """A person ends the episode; its patch is kept."""


@dataclass(frozen=True)
class ToolCall:
    """One call as the model wrote it: `arguments` is the raw text, which need not be JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class TokenUsage:
    """Tokens of one reply. `cached_tokens` are those of `input_tokens` that the provider read from its cache.

    `cost` in US dollars, None when unknown. `estimated`: the provider counted nothing, the numbers are characters / 4.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    estimated: bool = False


@dataclass(frozen=True)
class Reply:
    """One reply: `message` is the assistant message exactly as the provider gave it.

    `finish_reason` "length" means that it was cut off. `model` is the provider's own name for what answered.
    `waited`: seconds before this reply that are no working time: failed attempts, back-off, a person's thinking.
    `correction`: what the model is to be told where its message holds no call; empty: the agent's own words.
    """

    message: Message
    finish_reason: str | None = None
    usage: TokenUsage = field(default_factory=TokenUsage)
    model: str = ""
    waited: float = 0.0
    correction: str = ""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the message; an id that is missing is the empty string."""
        return tuple(_call(item) for item in raw_calls(self.message))


@dataclass(frozen=True)
class Wait:
    """A visible wait before the next attempt: why, how long and how much patience is left, in seconds."""

    reason: str
    seconds: float
    attempt: int
    patience_left: float


OnWait = Callable[[Wait], None]


class ChatModel(Protocol):
    """Answers a conversation."""

    name: str
    """The specification it was made from, for records."""

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], seconds: float | None = None) -> Reply:
        """The next assistant message. `seconds`: working time the caller has left for it.

        Raises ModelError when the endpoint refuses or stays broken, ContextOverflow when the conversation does
        not fit, OutOfTime when a healthy endpoint was too slow for `seconds`, Quit when a person ends the episode,
        Interrupted when cancelled.
        """

    def close(self) -> None:
        """Release connections and files. Idempotent."""


def raw_calls(message: Message) -> list[Any]:
    """The items of `tool_calls` whatever they are; an absent, null or ill-typed field is an empty list."""
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else []


def _call(item: Any) -> ToolCall:
    item = item if isinstance(item, dict) else {}
    function = item.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = function.get("arguments")
    if not isinstance(arguments, str):  # some servers send an object, some null for a tool without arguments
        arguments = "" if arguments is None else json.dumps(arguments)
    identity, name = item.get("id"), function.get("name")
    return ToolCall(identity if isinstance(identity, str) else "", name if isinstance(name, str) else "", arguments)
