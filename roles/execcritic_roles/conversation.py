"""The messages of an episode: they grow at the end, and are always acceptable to the server they are sent back to.

What a model wrote is kept as it is, unknown fields included, but for what would make every later request fail: broken
argument strings, empty lists, replies without content, calls without an id (METHOD 4 retains history over all rounds,
so one poisoned message would end the episode).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Container, Sequence
from typing import Any

from execcritic_roles.models.protocol import Message, Reply, ToolCall, raw_calls
from execcritic_roles.observation import Origin
from execcritic_roles.tools import ToolInputError, parse_object

_EMPTY = "(empty reply)"
_BAD_NAME = re.compile(r"[^A-Za-z0-9_-]")


class Conversation:
    """Grows at its end only, so that a server that caches prefixes never sees one change, but for `elide`."""

    def __init__(self, system: str, opening: str) -> None:
        self._messages: list[dict[str, Any]] = []
        self._sent = 0
        self._outputs: list[tuple[int, int, Origin]] = []
        """Position and turn of each command's output that is still there, and where it came from."""
        self.chars = 0
        """Characters of all texts and arguments so far."""
        self._append({"role": "system", "content": system})
        self._append({"role": "user", "content": opening})

    @property
    def messages(self) -> Sequence[Message]:
        return self._messages

    def take(self) -> list[dict[str, Any]]:
        """The messages that were added since the last call, for the record; from now on they cannot change."""
        new = self._messages[self._sent :]
        self._sent = len(self._messages)
        return new

    def add_user(self, text: str) -> None:
        """A user message; two in a row become one, because some chat templates insist on alternation."""
        if self._messages[-1]["role"] == "user" and self._sent < len(self._messages):
            self._messages[-1]["content"] += f"\n\n{_clean(text)}"
            self.chars += len(text)
        else:
            self._append({"role": "user", "content": _clean(text)})

    def add_result(self, call: ToolCall, text: str, turn: int = 0, origin: Origin | None = None) -> None:
        """The one reply to a tool call; with an `origin`, a command's output of `turn` that may be elided one day."""
        if origin is not None:
            self._outputs.append((len(self._messages), turn, origin))
        self._append({"role": "tool", "tool_call_id": call.id, "content": _clean(text)})

    def elide(self, before: int, goal: float, least: float, gone: Container[str]) -> list[dict[str, Any]]:
        """Replace outputs of turns up to `before` by a line that says what they were, the oldest first, until at most
        `goal` characters are left. Nothing is changed where that would free less than `least`.

        `gone` are files that cannot be read again. Returns position, call and new content of what was replaced.
        """
        elided, chars, kept = [], self.chars, []
        for index, turn, origin in self._outputs:
            message = self._messages[index]
            stub = origin.stub(len(message["content"]), gone)
            saved = len(message["content"]) - len(stub)
            if chars <= goal or turn > before or saved <= len(stub):
                kept.append((index, turn, origin))
            else:
                chars -= saved
                elided.append({"index": index, "tool_call_id": message["tool_call_id"], "content": stub})
        if not elided or self.chars - chars < least:
            return []
        for change in elided:
            self._messages[change["index"]] = {**self._messages[change["index"]], "content": change["content"]}
        self._outputs, self.chars = kept, chars
        return elided

    def add_reply(self, reply: Reply, turn: int) -> tuple[ToolCall, ...]:
        """Append the assistant's message in a replayable form; returns its calls, each with an id of its own."""
        calls, seen = [], set()
        for index, call in enumerate(reply.calls):
            identity = call.id if call.id and call.id not in seen else f"call_{turn}_{index}"
            seen.add(identity)
            calls.append(ToolCall(identity, call.name, call.arguments))
        self._append(replayable(reply.message, calls))
        return tuple(calls)

    def _append(self, message: dict[str, Any]) -> None:
        self._messages.append(message)
        self.chars += len(str(message.get("content") or ""))
        self.chars += sum(len(call["function"]["arguments"]) for call in message.get("tool_calls", ()))


def replayable(message: Message, calls: Sequence[ToolCall]) -> dict[str, Any]:
    """A copy of an assistant message that any server accepts; `calls` are its calls with their final ids."""
    clean: dict[str, Any] = _clean(copy.deepcopy(dict(message)))
    clean["role"] = "assistant"
    fixed = []
    for raw, call in zip(raw_calls(clean), calls, strict=True):
        entry = raw if isinstance(raw, dict) else {}
        function = entry.get("function")
        function = function if isinstance(function, dict) else {}
        name = _BAD_NAME.sub("_", call.name)[:64] or "unknown"
        try:
            parse_object(call.arguments)
            arguments = call.arguments if call.arguments.strip() else "{}"
        except ToolInputError:
            arguments = "{}"
        function = {**function, "name": name, "arguments": arguments}
        fixed.append({**entry, "id": call.id, "type": "function", "function": function})
    if fixed:
        clean["tool_calls"] = fixed
    else:
        clean.pop("tool_calls", None)
        content = clean.get("content")
        if not content or (isinstance(content, str) and not content.strip()):
            clean["content"] = _EMPTY
    return clean


def _clean(value: Any) -> Any:
    """Without lone surrogates, which JSON can carry and UTF-8 cannot."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value
