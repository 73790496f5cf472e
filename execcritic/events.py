"""The events of `--progress jsonl`: what a program that watches a run is told of each step (docs/progress.md).

The whole of each step is in the run's folder; here are its main facts, texts cut to a bounded length.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from execcritic import credentials, records
from execcritic_roles.models.protocol import Reply
from execcritic_roles.printable import one_line

MOST = 400
"""Characters of one text."""

_FIELDS = {
    "run": ("directory", "command"),
    "warning": ("text",),
    "test.started": ("turns", "submissions"),
    "round.started": ("round", "turns"),
    "model.waiting": ("role", "reason", "seconds"),
    "action": ("role", "turn", "exit_code", "timed_out", "seconds", "bytes"),
    "test.submitted": ("number", "nodes"),
    "test.rejected": ("number", "detail"),
    "patch": ("patch",),
    "patch.refused": ("detail",),
    "check.started": ("number", "patch"),
    "check.repeated": ("patch", "decision"),
    "selection.gate": ("gate", "scores"),
    "repair.ended": ("rounds", "checks", "error"),
    "result": ("status", "exit_code", "verdict", "reason", "rounds", "checks", "turns", "tokens", "cost", "seconds"),
}


def fields(kind: str, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of an event, as plain JSON values; None for one that is not told."""
    chosen = _chosen(kind, data)
    if chosen is None:
        return None
    named = {"episode": data["episode"]} if "episode" in data else {}
    return {key: _bounded(records.plain(value)) for key, value in {**named, **chosen}.items()}


def _chosen(kind: str, data: Mapping[str, Any]) -> dict[str, Any] | None:
    match kind:
        case "turn":
            message = data["message"]
            calls = [{"name": call.name, "arguments": call.arguments} for call in Reply(message).calls]
            usage = data["usage"]
            tokens = {name: usage[f"{name}_tokens"] for name in ("input", "cached", "output")}
            said = message.get("content")
            return {
                **{key: data[key] for key in ("role", "turn")},
                "said": said if isinstance(said, str) else None,
                "calls": calls,
                "tokens": tokens,
                "cost": usage["cost"],
            }
        case "test.qualification":
            result = data["qualification"]
            return {"number": data["number"], "status": result.status, "code": result.code, "detail": result.detail}
        case "test.ended":
            gate = data["gate"]
            return {"status": gate.status, "bundle": gate.bundle, "submissions": gate.submissions}
        case "repair.stopped":
            return {"round": data["round"], "kind": data["stop"].kind, "reason": data["stop"].reason}
        case "check":
            verdict = data["verdict"]
            found = {"decision": verdict.decision, "reason": verdict.reason, "detail": verdict.detail}
            return {"number": data["number"], "patch": data["patch"], **found}
        case "dispute":
            upheld = not isinstance(data["answer"], str)
            return {**{key: data[key] for key in ("node", "quote", "reason")}, "upheld": upheld}
    names = _FIELDS.get(kind)
    return None if names is None else {name: data.get(name) for name in names}


def _bounded(value: Any) -> Any:
    """A JSON value whose texts are short, in one line each, and hold no credentials."""
    if isinstance(value, str):
        return one_line(credentials.hidden(value[: 4 * MOST], (), os.environ), MOST)
    if isinstance(value, dict):
        return {_bounded(key): _bounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_bounded(item) for item in value[:MOST]]
    return value
