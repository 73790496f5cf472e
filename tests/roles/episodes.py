"""What the tests of the agents share: actions, and the rules that every server insists on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from execcritic_roles.limits import AgentLimits
from tests.openai_server import Server

MakeLimits = Callable[..., AgentLimits]


def bash(command: str, **more: Any) -> tuple[str, Any]:
    return ("bash", {"command": command, **more})


def tool_replies(server: Server, request: int = -1) -> list[tuple[str, str]]:
    """(call id, content) of the tool messages in a request."""
    return [(m["tool_call_id"], m["content"]) for m in server.requests[request]["messages"] if m["role"] == "tool"]


def check_protocol(requests: Sequence[dict[str, Any]], rewrites: int = 0) -> None:
    """What every server insists on: each call has exactly one reply before the next message of another kind, arguments
    are JSON objects, assistant messages are not empty; and the conversation grows at its end only, but for at most
    `rewrites` elisions."""
    changed = 0
    for before, after in pairwise(requests):
        changed += after["messages"][: len(before["messages"])] != before["messages"]
        assert after["tools"] == before["tools"]
    assert changed <= rewrites
    open_calls: list[str] = []
    previous = ""
    for message in requests[-1]["messages"]:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
            continue
        assert not open_calls
        assert not message["role"] == previous == "user"
        previous = message["role"]
        if message["role"] == "assistant":
            assert message.get("tool_calls") != []
            assert message.get("tool_calls") or message["content"].strip()
            for call in message.get("tool_calls", []):
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
                assert call["function"]["name"]
                open_calls.append(call["id"])
    assert not open_calls
