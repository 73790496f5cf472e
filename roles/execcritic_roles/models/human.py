"""A person plays the role: sees what a model would see, types one action a turn."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from execcritic_roles.models.form import Form
from execcritic_roles.models.protocol import Message, Quit, Reply, TokenUsage, ToolSchema
from execcritic_roles.terminal import Terminal
from execcritic_scaffold.errors import ModelError

_HELP = """One action a turn:
  COMMAND            runs in the workspace; a line that ends with \\ goes on in the next one
  /bash              a longer script: the lines up to one that holds a single dot
  /TOOL [JSON]       another tool; without JSON its arguments are asked for, one after the other
  /again             shows the last message once more
  /quit              ends this episode for good and keeps the patch (so does the end of the input at a terminal)
  /help              this text
Ctrl-C ends the whole run and keeps the patch; `execcritic resolve --resume DIR` goes on from there.
Tools:"""


class HumanModel:
    """One person at one terminal for one role."""

    name = "human"

    def __init__(self, terminal: Terminal, role: str) -> None:
        self._terminal, self._role = terminal, role
        self._form = Form(terminal)
        self._shown = 0

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], seconds: float | None = None) -> Reply:
        """The person's next action; their time is nobody's working time.

        Raises Quit where they end the episode, ModelError at the end of an input that is no terminal.
        """
        started = time.monotonic()
        with self._terminal.floor():
            try:
                name, arguments = self._action(messages, tools)
            except EOFError:
                if self._terminal.interactive:
                    raise Quit("the person at the terminal ended it") from None
                raise ModelError("The input ended before the role had finished; start again in a terminal.") from None
        self._shown = len(messages) + 1  # what was typed need not be shown
        call = {"id": f"typed_{len(messages)}", "type": "function", "function": {"name": name, "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return Reply(message, "tool_calls", TokenUsage(cost=0.0), "human", time.monotonic() - started)

    def close(self) -> None:
        """The terminal is the caller's."""

    def _action(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> tuple[str, str]:
        """The name of a tool and its arguments as JSON."""
        self._terminal.page("\n".join(_shown(message) for message in messages[self._shown :]))
        if not self._shown:
            self._help(tools)
        known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
        while True:
            line = self._terminal.line(f"{self._role}> ")
            while line.endswith("\\"):
                line += "\n" + self._terminal.line("... ")
            name, _, text = line[1:].partition(" ")
            if not line.startswith("/") or "/" in name:  # a command, which may begin with the path of a program
                name, text = "bash", line
            if name in known and line.strip():
                return name, self._arguments(name, text.strip(), known[name])
            if line == "/quit":
                raise Quit("the person at the terminal ended it")
            if line == "/again" and messages:
                self._terminal.page(_shown(messages[-1]))
            elif line.strip():
                self._help(tools)

    def _arguments(self, name: str, text: str, schema: dict[str, Any]) -> str:
        """The JSON for a tool from what was typed; a wrong type is the agent's to correct, as for any model."""
        required = schema.get("required", [])
        if text.startswith("{") and name != "bash":
            return text
        if name == "bash" and not text:
            text = self._terminal.lines(". ")
        if text:
            return json.dumps({required[0]: text}) if len(required) == 1 else text
        return json.dumps(self._form.fill(schema))

    def _help(self, tools: Sequence[ToolSchema]) -> None:
        functions = [tool["function"] for tool in tools]
        self._terminal.show("\n".join([_HELP, *(f"  {f['name']:<12} {f.get('description', '')}" for f in functions)]))


def _shown(message: Message) -> str:
    """A message as a model gets it; of an earlier attempt's replies, what was done."""
    calls = [f"{call.name} {call.arguments}" for call in Reply(message).calls]
    content = message.get("content")
    return "\n".join([f"--- {message.get('role')}", *([str(content)] if content else []), *calls])
