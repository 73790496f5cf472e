"""A recording answers: bare assistant messages, or one of our own trajectories, so that a recorded run re-runs exactly.

Each line is one of

    {"role": "assistant", "content": …, "tool_calls": […]}                         a message
    {"message": {…}, "finish_reason": …, "usage": {…}, "role_name": "test"}        a message with how it ended
    {"event": "reply", "role_name": "test", "message": {…}, …}                     a line of trajectory.jsonl
    {"event": "overflow", "role_name": "test", "reason": …}                        likewise: a conversation too long

With a `role_name` ("test" or "repair"; it may also stand beside the fields of a bare message) the line is for that role
only; without, it is for the role that the file was given to. Of several episodes of a role, the second is played by the
lines for "test-2" where there are any, else by those for "test". Lines of a trajectory that are no replies are passed
over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from execcritic_roles.models.protocol import ContextOverflow, Message, Reply, TokenUsage, ToolSchema, raw_calls
from execcritic_roles.trajectory import read
from execcritic_scaffold.errors import ModelError, UsageError
from execcritic_scaffold.wording import count


class ReplayModel:
    """Plays back the replies of one role, read one line at a time.

    Raises UsageError for a file that is missing, is not such a recording, or holds nothing for the role.
    """

    def __init__(self, path: Path, role: str) -> None:
        self.name = f"replay:{path}"
        self._path, self._role = path, role
        self._played = 0
        try:
            self._recorded = _count(path, role)  # a damaged file is known before anything starts
            if not self._recorded:
                self._role = role.partition("-")[0]
                self._recorded = _count(path, self._role)
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}); name a file of recorded replies.") from None
        if not self._recorded:
            raise UsageError(f"{path} holds no reply for the role {role!r}; give that role another recording or model.")
        self._replies = _replies(path, self._role)

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], seconds: float | None = None) -> Reply:
        """The next recorded reply, whatever the conversation says. Raises ContextOverflow where one was recorded."""
        reply = next(self._replies, None)
        if isinstance(reply, ContextOverflow):
            raise reply
        if reply is None:
            raise ModelError(
                f"{self._path} holds {count(self._recorded, 'reply', 'replies')} for the role {self._role!r}, "
                "all used up; record a longer run or use a live model."
            )
        self._played += 1
        return reply

    def close(self) -> None:
        """See `ChatModel.close`."""
        self._replies = iter(())


def _replies(path: Path, role: str) -> Iterator[Reply | ContextOverflow]:
    for number, line in enumerate(read(path), 1):
        event = line.get("event", "reply")
        if event not in ("reply", "overflow") or line.get("role_name", role) != role:
            continue
        if event == "overflow":
            yield ContextOverflow(str(line.get("reason", "")))
            continue
        wrapped = "message" in line and "role" not in line
        message = line["message"] if wrapped else {k: v for k, v in line.items() if k != "role_name"}
        if not isinstance(message, dict) or message.get("role", "assistant") != "assistant":
            raise UsageError(f'{path}, entry {number} is no assistant message; its role must be "assistant".')
        if wrapped:
            yield _wrapped(message, line)
        else:
            yield Reply(message, "tool_calls" if raw_calls(message) else "stop", TokenUsage(cost=0.0), "replay")


def _wrapped(message: Mapping[str, Any], line: Mapping[str, Any]) -> Reply:
    recorded = line.get("usage")
    recorded = recorded if isinstance(recorded, dict) else {"cost": 0.0}
    usage = TokenUsage(**{k: v for k, v in recorded.items() if k in TokenUsage.__dataclass_fields__})
    default = "tool_calls" if raw_calls(message) else "stop"
    model, correction = str(line.get("model", "replay")), str(line.get("correction", ""))
    return Reply(message, line.get("finish_reason", default), usage, model, correction=correction)


def _count(path: Path, role: str) -> int:
    return sum(isinstance(reply, Reply) for reply in _replies(path, role))
