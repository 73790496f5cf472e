"""A trajectory turn by turn, bounded: what is cut is named with the line of the file that has it whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from execcritic.report.reading import Folder
from execcritic.report.shown import cut, each, number, output, pairs

CHARACTERS = 900_000
"""Of all turns together; one text gets an equal share, within the next two."""
SHORTEST, LONGEST = 160, 6000
TURNS = 10_000


@dataclass
class Part:
    """Something in a turn: an action, what came of it, what was said to the agent, or an event, by its `kind`."""

    kind: str
    title: str
    text: str


@dataclass
class Turn:
    """One reply of the model and all that followed it. `number` 0: what came before the first."""

    number: int
    says: str = ""
    parts: list[Part] = field(default_factory=list)
    tokens: tuple[float, float] | None = None
    cost: float | None = None
    seconds: float | None = None
    failed: bool = False

    @property
    def gist(self) -> str:
        """The turn in one line."""
        first = self.says or next((part.text or part.title for part in self.parts), "")
        return " ".join(first[:400].split())[:140]


@dataclass
class Trajectory:
    """An episode. `name` is its folder."""

    name: str
    role: str
    model: str = ""
    turns: list[Turn] = field(default_factory=list)
    input: float = 0
    cached: float = 0
    output: float = 0
    cost: float | None = 0.0


def read(folder: Folder) -> list[Trajectory]:
    """The trajectories of a run, the Test agent's first."""
    names = [name for name in folder.names("") if name.split("-")[0] in ("test", "repair", "judge")]
    files = {name: f"{name}/trajectory.jsonl" for name in sorted(names, key=_order)}
    texts = sum(1 for file in files.values() for _ in folder.lines(file))
    share = max(SHORTEST, min(LONGEST, CHARACTERS // max(1, texts)))
    found = [_read(folder, name, file, share) for name, file in files.items()]
    return [one for one in found if one.turns]


def _order(name: str) -> tuple[int, int, str]:
    role, _, count = name.partition("-")
    return ("test", "repair", "judge").index(role), int(count) if count.isdecimal() else 0, name


def _read(folder: Folder, name: str, file: str, share: int) -> Trajectory:
    made = Trajectory(name, name.split("-")[0])
    for line, event in folder.lines(file):
        if len(made.turns) >= TURNS:
            folder.note(f"Of {file} only the first {TURNS} turns are shown.")
            break
        kind, message = event.get("event"), event.get("message")
        message = message if isinstance(message, Mapping) else {}
        whole = f"{file}, line {line}"
        if kind == "reply":
            made.turns.append(_reply(made, event, message, share, whole))
            continue
        if kind == "start":
            made.model = str(event.get("model") or "")
            if not made.turns:
                continue
        if not made.turns:
            made.turns.append(Turn(0))
        turn = made.turns[-1]
        if kind == "message":
            turn.parts.append(_message(turn, event, message, share, whole))
        else:
            turn.parts.append(Part("event", *_told(event, share, whole)))
    return made


def _reply(made: Trajectory, event: Mapping[str, Any], message: Mapping[str, Any], share: int, whole: str) -> Turn:
    usage = event.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    used = {key: number(usage.get(key)) for key in ("input_tokens", "cached_tokens", "output_tokens", "cost")}
    made.input += used["input_tokens"] or 0
    made.cached += used["cached_tokens"] or 0
    made.output += used["output_tokens"] or 0
    made.cost = None if made.cost is None or used["cost"] is None else made.cost + used["cost"]
    count = number(event.get("turn"))
    turn = Turn(int(count) if count is not None else len(made.turns), cut(_words(message), share, whole))
    turn.tokens = (used["input_tokens"] or 0, used["output_tokens"] or 0) if usage else None
    turn.cost, turn.seconds = used["cost"], number(event.get("seconds"))
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thought, str) and thought:
        turn.parts.append(Part("thought", "reasoning", cut(thought, share, whole)))
    for call in each(message.get("tool_calls")):
        function = call.get("function") if isinstance(call, Mapping) else None
        function = function if isinstance(function, Mapping) else {}
        turn.parts.append(
            Part("action", str(function.get("name")), cut(_arguments(function.get("arguments")), share, whole))
        )
    if event.get("correction"):
        turn.parts.append(Part("told", "corrected", cut(str(event["correction"]), share, whole)))
    return turn


def _words(message: Mapping[str, Any]) -> str:
    """The text of a message, which may come in parts."""
    content = message.get("content")
    if isinstance(content, Sequence) and not isinstance(content, str):
        content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return output(content or "")


def _arguments(text: Any) -> str:
    """The arguments of a call; those of a command as the command itself."""
    try:
        body = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return str(text or "")
    if not isinstance(body, dict):
        return str(text)
    if set(body) <= {"command", "timeout"} and "command" in body:
        return str(body["command"])
    return "\n".join(
        f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)}"
        for key, value in body.items()
    )


def _message(turn: Turn, event: Mapping[str, Any], message: Mapping[str, Any], share: int, whole: str) -> Part:
    text = cut(_words(message), share, whole)
    action = event.get("action")
    if isinstance(action, Mapping):
        code = action.get("exit_code")
        title = "timed out" if action.get("timed_out") else f"exit code {code}"
        turn.failed = turn.failed or title != "exit code 0"
        kept = action.get("spooled")
        if isinstance(kept, Mapping):
            title += f"; all of it was kept in {kept.get('path')} in the sandbox"
        return Part("result", title, text)
    role = message.get("role")
    return Part("result" if role == "tool" else "told", f"{'answer' if role == 'tool' else role}", text)


def _told(event: Mapping[str, Any], share: int, whole: str) -> tuple[str, str]:
    """An event beside the conversation, as title and text."""
    rest = {
        key: value
        for key, value in pairs(event)
        if key not in ("event", "time", "role_name", "turn", "usage", "elided", "limits", "tools") and value
    }
    said = "; ".join(f"{key} {value if isinstance(value, str) else json.dumps(value)}" for key, value in rest.items())
    return str(event.get("event")), cut(said, share, whole)
