"""Tool calls for models that have none: the model writes one fenced block a reply, the agent sees a tool call.

Outgoing, a conversation holds only system, user and assistant messages, which alternate (some chat templates insist),
and the model's own text goes back to it as it was. The tools stand at the end of the system message. A conversation
grows at its end; only a note that follows a request which failed joins that request's last message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from execcritic_roles.models.fences import Fault, find_call
from execcritic_roles.models.protocol import ChatModel, Message, Reply, ToolSchema
from execcritic_roles.prompts.render import fill


class TextProtocolModel:
    """A model that is asked without tools and whose text is read for a call."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name = model.name

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], seconds: float | None = None) -> Reply:
        """See `ChatModel.complete`. `tool_calls` of the message is the call that its text makes, and nothing else."""
        if not tools:
            return self._model.complete(messages, tools, seconds)
        reply = self._model.complete(_as_text(messages, tools), (), seconds)
        message = {key: value for key, value in reply.message.items() if key != "tool_calls"}
        names = [tool["function"]["name"] for tool in tools]
        found = find_call(_text(message.get("content")), names)
        if isinstance(found, Fault):
            correction = fill("text_protocol", found.key, found=found.found, tools=", ".join(names))
            return replace(reply, message=message, correction=correction)
        function = {"name": found.name, "arguments": found.arguments}
        turn = sum(earlier["role"] == "assistant" for earlier in messages)
        message["tool_calls"] = [{"id": f"text_{turn}", "type": "function", "function": function}]
        return replace(reply, message=message)

    def close(self) -> None:
        """See `ChatModel.close`."""
        self._model.close()


def _as_text(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[Message]:
    """The conversation without tool calls and their results."""
    sent: list[dict[str, Any]] = []
    for message in messages:
        role, content = message["role"], message.get("content")
        if role == "assistant":
            sent.append({key: value for key, value in message.items() if key != "tool_calls"})
        elif role == "system":
            sent.append({**message, "content": f"{content}\n\n{_instructions(tools)}"})
        else:
            content = f"<result>\n{content}\n</result>" if role == "tool" else str(content)
            if sent and sent[-1]["role"] == "user":
                sent[-1]["content"] += f"\n\n{content}"
            else:
                sent.append({"role": "user", "content": content})
    return list(sent)


def _instructions(tools: Sequence[ToolSchema]) -> str:
    functions: list[Mapping[str, Any]] = [tool["function"] for tool in tools]
    schemas = {f["name"]: json.dumps(f["parameters"]) for f in functions if f["parameters"].get("properties")}
    return fill("text_protocol", "instructions", tools=functions, schemas=schemas, example=functions[-1]["name"])


def _text(content: Any) -> str:
    """What a message says; some providers send a list of parts, of which those of type `text` are its words."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""
