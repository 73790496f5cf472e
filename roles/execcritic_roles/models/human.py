"""A person plays the role: sees what a model would see, types one action a turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TextIO

from execcritic_roles.models.protocol import Message, Reply, TokenUsage, ToolSchema
from execcritic_scaffold.errors import ModelError

_HELP = """One action a turn:
  COMMAND            runs in the workspace (bash)
  /bash              a longer script: the lines up to one that holds a single dot
  /TOOL [TEXT|JSON]  another tool: {tools}; its arguments as JSON, or the text of its only argument;
                     without either, the lines up to a single dot are taken
  /help              this text
"""


class HumanModel:
    """Reads actions from `source`, writes what is new in the conversation to `sink`."""

    name = "human"

    def __init__(self, source: TextIO, sink: TextIO) -> None:
        self._source, self._sink = source, sink
        self._shown = 0

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], seconds: float | None = None) -> Reply:
        """The person's next action. Raises ModelError at the end of the input."""
        if not self._shown:
            self._help(tools)
        for message in messages[self._shown :]:
            if message.get("role") != "assistant":
                self._sink.write(f"--- {message.get('role')}\n{message.get('content')}\n")
        self._shown = len(messages)
        known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
        while True:
            line = self._line("> ")
            name, _, text = line[1:].partition(" ") if line.startswith("/") else ("bash", "", line)
            if line == "/help" or name not in known:
                self._help(tools)
                continue
            if not line.strip():
                continue
            arguments = self._arguments(text.strip(), known[name])
            function = {"name": name, "arguments": arguments}
            call = {"id": f"typed_{self._shown}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            return Reply(message, "tool_calls", TokenUsage(cost=0.0), "human")

    def close(self) -> None:
        """The streams are the caller's."""

    def _arguments(self, text: str, schema: dict[str, Any]) -> str:
        """The JSON for a tool from what was typed; a wrong type is the agent's to correct, as for any model."""
        required = schema.get("required", [])
        if not text and required:
            lines = []
            while (line := self._line(". ")) != ".":
                lines.append(line)
            text = "\n".join(lines)
        return json.dumps({required[0]: text}) if len(required) == 1 else text or "{}"

    def _line(self, prompt: str) -> str:
        self._sink.write(prompt)
        self._sink.flush()
        line = self._source.readline()
        if not line:
            raise ModelError("The input ended before the role had finished; start again in a terminal.")
        return line.rstrip("\n")

    def _help(self, tools: Sequence[ToolSchema]) -> None:
        self._sink.write(_HELP.format(tools=", ".join(tool["function"]["name"] for tool in tools)))
