"""A recorded episode as one conversation for supervised training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from execcritic_roles import trajectory

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Conversation:
    """Messages up to the last reply, with the tools that were offered. `elided`: old outputs were replaced on the way,
    so that later replies answer another text than the one that stands here. `characters` is the length of it all."""

    messages: tuple[Message, ...] = field(repr=False)
    tools: tuple[Mapping[str, Any], ...]
    replies: int
    elided: bool
    characters: int


def read(path: Path) -> Conversation:
    """The conversation of a trajectory. A reply stands as it was sent back: with what the next one answered to.

    Raises UsageError for a damaged file, OSError for one that cannot be read.
    """
    messages: list[Message] = []
    tools: tuple[Mapping[str, Any], ...] = ()
    replies, last, elided = 0, 0, False
    for event in trajectory.read(path):
        kind = event.get("event")
        if kind == "start":
            messages, replies, last, elided = [], 0, 0, False
            tools = tuple(event["tools"])
        elif kind == "message":
            messages.append(event["message"])
        elif kind == "reply":
            messages.append(_reply(event))
            replies, last = replies + 1, len(messages)
        elif kind == "elision":
            elided = True
    kept = tuple(messages[:last])
    return Conversation(kept, tools, replies, elided, sum(len(text) for message in kept for text in texts(message)))


def texts(message: Message) -> list[str]:
    """Every text of a message: what was said, thought, and called with."""
    found: list[str] = []
    waiting: list[object] = [message]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
    return found


def _reply(event: Mapping[str, Any]) -> Message:
    message: Message = event.get("history") or event["message"]
    return message if message.get("role") else {"role": "assistant", **message}
