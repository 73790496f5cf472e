"""Progress of a run for people, one line a step; and the summary at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from execcritic.messages import headline
from execcritic_roles.models.protocol import Reply, ToolCall
from execcritic_roles.printable import one_line
from execcritic_roles.tools import ToolInputError, parse_object
from execcritic_scaffold.agents import StopKind
from execcritic_scaffold.wording import count

AGENTS = {"test": "Test agent  ", "repair": "Repair agent", "judge": "Judge       "}
WIDTH = 100
"""Characters of an agent's reply that are shown."""
LONGEST = 1000
"""Characters of any line."""


def line(kind: str, data: Mapping[str, Any]) -> str | None:
    """One event of the loop in one line; None for events that tell a person nothing.

    One line whatever an agent wrote: it must not look like the harness's word.
    """
    text = _line(kind, data)
    named = f"{data['episode']:<9} " if "episode" in data else ""
    return one_line(f"{named}{text}", LONGEST) if text else None


def doing(message: Mapping[str, Any]) -> str:
    """What an agent does, in one line: its command, or the tools it calls."""
    return one_line("; ".join(_call(call) for call in Reply(message).calls), LONGEST) or "(no action)"


def _call(call: ToolCall) -> str:
    try:
        command = parse_object(call.arguments).get("command") if call.name == "bash" else None
    except ToolInputError:
        command = None
    return f"$ {command}" if command is not None else f"{call.name} {call.arguments}"


def _gist(message: Mapping[str, Any]) -> str:
    """What an agent says, else what it does, in one line."""
    return one_line(str(message.get("content") or ""), WIDTH) or one_line(doing(message), WIDTH)


def _line(kind: str, data: Mapping[str, Any]) -> str | None:
    match kind:
        case "run":
            return f"Run {data['directory']}"
        case "warning":
            return str(data["text"])
        case "setup.found":
            lines = [f"Set-up        {step['command']}\n              ({step['reason']})" for step in data["steps"]]
            return "\n".join([f"Set-up        found, as {data['why']}; the network is on for it alone", *lines])
        case "turn":
            return f"{AGENTS[data['role']]} {data['turn']:>3}  {_gist(data['message'])}"
        case "model.waiting":
            return f"{AGENTS[data['role']]}  waits {data['seconds']:.0f} s for its model ({data['reason']})"
        case "test.submitted":
            return f"Test agent    submission {data['number']}: {', '.join(data['nodes'])}"
        case "test.rejected":
            return f"Test agent    submission {data['number']} cannot be taken: {data['detail']}"
        case "test.qualification":
            result = data["qualification"]
            return f"Harness       submission {data['number']}: {headline(result.status, result.code, result.detail)}"
        case "test.ended":
            gate = data["gate"]
            if gate.bundle is not None:
                return f"Harness       test frozen as {gate.bundle.id[:12]}"
            if gate.error is not None:
                return f"Harness       the Test episode broke off: {gate.error}"
            if gate.stop is not None and gate.stop.kind is StopKind.MODEL:
                return f"Test agent    its model failed: {gate.stop.reason}"
            why = f" ({gate.stop.reason or gate.stop.kind.value})" if gate.stop else ""
            return f"Harness       no test qualified after {count(gate.submissions, 'submission')}{why}"
        case "repair.stopped" if data["stop"].kind is StopKind.MODEL:
            return f"Repair agent  its model failed: {data['stop'].reason}"
        case "round.started":
            name = "Round 0" if data["round"] == 0 else f"revision {data['round']}"
            return f"Repair agent  {name}, at most {count(data['turns'], 'turn')}"
        case "check":
            verdict = data["verdict"]
            return f"Harness       check {data['number']}: {headline(verdict.decision, verdict.reason, verdict.detail)}"
        case "check.repeated":
            return f"Harness       the same patch as before: {data['decision']}"
        case "dispute":
            upheld = not isinstance(data["answer"], str)
            told = "is upheld, and the test demoted" if upheld else str(data["answer"]).splitlines()[0]
            return f"Harness       dispute of {data['node']}: {told}"
        case "selection.gate":
            scores = ", ".join(f"{test} {score:.2f}" for test, score in data["scores"].items())
            return (
                f"Harness       revisions are checked with {data['gate'] or 'no test'} ({scores or 'none is frozen'})"
            )
        case "patch.refused":
            return f"Harness       the workspace cannot be taken as a patch: {data['detail']}"
    return None


def _stopped(body: Mapping[str, Any]) -> str:
    """Who stopped and why; a reason that an agent gave is told as its own words."""
    who = "the Test agent" if body["rounds"] is None else "the Repair agent"
    kind, reason = body["stopped"]["kind"], body["stopped"]["reason"]
    if kind == StopKind.SUBMIT:
        return f'{who} ended its work: "{reason}"' if reason else f"{who} ended its work"
    return f"{who}: {reason or kind}"


def _undecided(body: Mapping[str, Any]) -> str:
    """Why there is no verdict."""
    if ruling := body.get("demoted"):
        return f'A dispute was upheld ("{ruling["quote"]}"), so the test decides nothing'
    abstained = (body.get("selection") or {}).get("abstained")
    frozen = body.get("selection") and any(body["selection"]["scores"])
    return "No test qualified" if not (abstained and frozen) else f"{abstained[0].upper()}{abstained[1:]}"


def summary(body: Mapping[str, Any]) -> str:
    """The result of `resolve`, `test` or `repair` in a few lines."""
    only_test = body["checks"] is None
    first = {
        "RESOLVED": "A test is frozen." if only_test else "Resolved: the frozen test passes with the patch.",
        "UNQUALIFIED": f"{_undecided(body)}; "
        + ("the patch is unverified." if body["fix_patch"] else "there is no patch."),
        "NOT_FIXED": "A test is frozen, the patch does not satisfy it.",
        "INFRASTRUCTURE": "The machine or the model failed, or the result is inconclusive.",
    }[body["status"]]
    lines = [first]
    if chosen := body.get("selection"):
        lines.append(f"  chosen      {chosen['test'] or 'no test'}, {chosen['patch'] or 'no patch'}")
        lines += [f"              {reason}" for reason in chosen["reasons"]]
    if body["verdict"]:
        lines.append(f"  verdict     {headline(body['verdict'], body['reason'], body['detail'])}")
    if body.get("refused"):
        lines.append(f"  refused     the last state of the workspace is no patch: {body['refused']}")
    if body["error"]:
        lines.append(f"  error       {body['error']}")
    elif body["status"] != "RESOLVED" and body["stopped"]:
        lines.append(f"  stopped     {_stopped(body)}")
    for name in ("fix_patch", "test_patch", "bundle"):
        if body[name]:
            lines.append(f"  {name.replace('_', ' '):<11} {body[name]}")
    cost = "unknown cost" if body["cost"] is None else f"${body['cost']:.2f}"
    tokens = body["tokens"]
    lines.append(f"  used        {count(body['turns'], 'turn')}, {tokens['input']} + {tokens['output']} tokens, {cost}")
    return "\n".join(one_line(line, LONGEST) for line in lines)
