"""The start-up check of a chat template: does turn N + 1 continue turn N, token by token, and is a reply rendered as it
was sampled?

A template that drops earlier reasoning, reorders tools or doubles the opening of a reply makes every turn a row of its
own at best, and trains other tokens than were sampled at worst. `render(messages, reply)` gives token ids; `reply`
says that the opening of the next reply follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from execcritic_training.delta import shared
from execcritic_training.records import Message, Record, require_tokens

Render = Callable[[Sequence[Message], bool], list[int]]

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
        },
    }
]
"""What `DIALOGUE` calls."""


def _asks(number: int, command: str) -> Message:
    function = {"name": "bash", "arguments": f'{{"command": "{command}"}}'}
    calls = [{"id": f"call_{number}", "type": "function", "function": function}]
    return {
        "role": "assistant",
        "content": f"Step {number}.",
        "reasoning_content": f"I think about step {number}.",
        "tool_calls": calls,
    }


DIALOGUE: list[Message] = [
    {"role": "system", "content": "You fix bugs."},
    {"role": "user", "content": "It fails."},
    _asks(1, "ls"),
    {"role": "tool", "tool_call_id": "call_1", "content": "a.py\n"},
    _asks(2, "cat a.py"),
    {"role": "tool", "tool_call_id": "call_2", "content": "x = 1\n"},
    {"role": "assistant", "content": "Done.", "reasoning_content": "That was it."},
    {"role": "user", "content": "It still fails."},
    {"role": "assistant", "content": "Indeed.", "reasoning_content": "One more look."},
]
"""What agents say: reasoning, calls, results, and a note of the harness after the last call."""


@dataclass(frozen=True)
class Finding:
    """One way in which a template does not fit: at the reply `turn` (from 0), from token `position` on."""

    kind: Literal["rewrites", "reply", "opening"]
    turn: int
    position: int

    def __str__(self) -> str:
        if self.kind == "rewrites":
            return (
                f"The prompt of turn {self.turn + 1} does not continue turn {self.turn}: it differs from token "
                f"{self.position} on, so each such turn becomes a row of its own; use a template that keeps replies as "
                "they were."
            )
        if self.kind == "opening":
            return (
                f"A reply without reasoning is rendered with something in front, at token {self.position}, that is "
                "not in the prompt it is sampled after; train on the sampled ids, or put it into the opening."
            )
        return (
            f"Reply {self.turn} is rendered otherwise than it is sampled, from token {self.position} on; train on the "
            "sampled ids, or serve with the template that is trained."
        )


def check_template(render: Render, dialogue: Sequence[Message] = DIALOGUE) -> list[Finding]:
    """What is wrong with a template on a dialogue; empty: rows can be merged, and rendering agrees with sampling."""
    findings = _opening(render, dialogue)
    replies = [at for at, message in enumerate(dialogue) if message["role"] == "assistant"]
    for turn, at in enumerate(replies):
        prompt, whole = render(dialogue[:at], True), render(dialogue[: at + 1], False)
        if (same := shared(prompt, whole)) < len(prompt):
            findings.append(Finding("reply", turn, same))
        if turn + 1 < len(replies):
            following = render(dialogue[: replies[turn + 1]], True)
            if (same := shared(whole, following)) < len(whole):
                findings.append(Finding("rewrites", turn, same))
    return findings


def _opening(render: Render, dialogue: Sequence[Message]) -> list[Finding]:
    """Two replies that have nothing in common must have nothing in common behind the prompt either."""
    before = [message for message in dialogue[:2] if message["role"] != "assistant"]
    prompt = render(before, True)
    one, other = (render([*before, {"role": "assistant", "content": text}], False) for text in ("Done.", "Zebras"))
    return [Finding("opening", 0, len(prompt))] if shared(one, other) > len(prompt) else []


def check_record(render: Render, record: Record) -> list[Finding]:
    """Where rendering the messages of an episode gives other ids than the server read and sampled. Raises UsageError
    for a record without ids."""
    require_tokens(record)
    findings: list[Finding] = []
    messages: list[Message] = []
    for number, (turn, prompt) in enumerate(zip(record.turns, record.prompts(), strict=True)):
        assert turn.tokens is not None and prompt is not None
        messages = [*messages[: turn.keep], *turn.messages, turn.reply]
        held = prompt + turn.tokens.output
        if (same := shared(held, render(messages, False))) < len(held):
            findings.append(Finding("reply", number, same))
    return findings
