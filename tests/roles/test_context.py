"""Conversations that outgrow the window: old outputs are elided in rare steps; what is refused is not sent for ever."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from execcritic_roles.models.replay import ReplayModel
from execcritic_roles.prompts.render import PromptContext
from execcritic_roles.repairer import make_repairer
from execcritic_roles.trajectory import Trajectory, read
from execcritic_scaffold.agents import StopKind
from execcritic_scaffold.sandbox.protocol import Session
from tests.openai_server import OVERFLOWS, USAGE, Server, assistant
from tests.roles.episodes import MakeLimits, bash, check_protocol, tool_replies

LONG = "head -c 3000 /dev/zero | tr '\\0' '{}'; echo; echo END {}"
REMOVED = "characters of output removed to make room"


def windowed(server: Server, window: int, messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Queue answers of a server that has a window of so many tokens, three characters each; the sizes of what it
    refused are added to the list that is returned."""
    refused: list[int] = []
    left = list(messages)

    def answer(handler: Any) -> None:
        tokens = size(handler.server.requests[-1]) // 3
        if tokens > window:
            refused.append(tokens)
            status, error = OVERFLOWS["vllm"]
            handler.send(status, json.dumps(error).encode(), {})
            return
        usage = {**USAGE, "prompt_tokens": tokens}
        choice = {"index": 0, "finish_reason": "tool_calls", "message": left.pop(0)}
        handler.send(200, json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode(), {})

    for _ in range(len(messages) + 20):
        server._script.append(answer)
    return refused


def size(request: Mapping[str, Any]) -> int:
    calls = [call for m in request["messages"] for call in m.get("tool_calls", [])]
    return sum(len(m["content"] or "") for m in request["messages"]) + sum(
        len(call["function"]["arguments"]) for call in calls
    )


def work(server: Server, turns: int) -> list[dict[str, Any]]:
    """Turns that each see 3000 characters, and a check at the end."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    calls = [assistant(bash(LONG.format(letters[n % 26], n)), turn=n) for n in range(turns)]
    return [*calls, assistant(("check", {}), turn=turns)]


def sent(path: Path) -> list[dict[str, Any]]:
    """The conversation at the end of a trajectory, with its elisions carried out."""
    messages: list[dict[str, Any]] = []
    for line in read(path):
        if line["event"] in ("message", "reply"):
            messages.append(line.get("history", line["message"]))
        for change in line.get("elided", ()):
            before = messages[change["index"]]
            assert before["tool_call_id"] == change["tool_call_id"]
            messages[change["index"]] = {**before, "content": change["content"]}
    return messages


def test_old_outputs_are_elided_before_the_limit_in_rare_steps(
    server: Server, session: Session, tmp_path: Path, repairer: Any
) -> None:
    for message in [assistant(("check", {}), turn=99), *work(server, 40)]:
        server.message(message)
    agent = repairer(context_chars=40_000)
    assert agent.work(session, 50).kind is StopKind.CHECK
    assert agent.work(session, 50, "FAIL: the feedback stays").kind is StopKind.CHECK
    assert max(map(size, server.requests)) < 40_000
    check_protocol(server.requests, rewrites=40 * 3000 // 10_000)
    first, last = server.requests[0]["messages"], server.requests[-1]["messages"]
    assert last[:2] == first
    replies = [text for _, text in tool_replies(server)]
    assert replies[0] == "FAIL: the feedback stays"
    assert REMOVED in replies[1] and "`head -c 3000 /dev/zero" in replies[1] and "exit code 0" in replies[1]
    assert "\n" not in replies[1] and "Run the command again" in replies[1]
    assert all(f"END {n}\n" in replies[n + 1] for n in (37, 38, 39))
    assert sent(tmp_path / "trajectory.jsonl") == [*last, work(server, 40)[-1]]
    assert sum(f"END {n}\n" in json.dumps(line) for n in (0,) for line in read(tmp_path / "trajectory.jsonl")) == 0
    recorded = [
        line["message"]["content"] for line in read(tmp_path / "trajectory.jsonl") if line["event"] == "message"
    ]
    assert all(any(f"END {n}\n" in text for text in recorded) for n in range(40))  # nothing is lost on disk


def test_a_limit_in_tokens_goes_by_what_the_server_counts(server: Server, session: Session, repairer: Any) -> None:
    refused = windowed(server, 12_000, work(server, 40))
    assert repairer(context_tokens=12_000).work(session, 50).kind is StopKind.CHECK
    assert refused == []
    check_protocol(server.requests, rewrites=12)


def test_a_window_nobody_told_is_learnt_from_one_refusal(server: Server, session: Session, repairer: Any) -> None:
    refused = windowed(server, 12_000, work(server, 40))
    assert repairer().work(session, 50).kind is StopKind.CHECK
    assert len(refused) == 1
    check_protocol(server.requests, rewrites=12)


def test_one_output_that_is_more_than_the_window_is_no_endless_shortening(
    server: Server, session: Session, workspace: Path, repairer: Any
) -> None:
    edit = assistant(bash("echo fixed > f; " + LONG.format("x", 0)))
    flood = assistant(bash("head -c 90000 /dev/zero | tr '\\0' x"), turn=1)
    refused = windowed(server, 9_000, [edit, *work(server, 4)[:-1], flood])
    agent = repairer(output_chars=50_000)
    stop = agent.work(session, 50)
    assert stop.kind is StopKind.CONTEXT and "window" in stop.reason
    assert len(refused) <= 3
    assert (workspace / "f").read_text() == "fixed\n"
    assert agent.work(session, 50, "FAIL").kind is StopKind.CONTEXT
    assert len(refused) <= 4


def test_what_cannot_be_elided_stops_at_a_configured_limit(server: Server, session: Session, repairer: Any) -> None:
    for n in range(20):
        server.call(bash(f"true {n} " + "x" * 3000))
    agent = repairer(context_chars=40_000)
    stop = agent.work(session, 50)
    assert stop.kind is StopKind.CONTEXT and "no more to elide" in stop.reason
    assert max(map(size, server.requests)) < 40_000 and agent.usage.turns > 5


def test_a_recorded_run_elides_at_the_same_places(
    server: Server, session: Session, tmp_path: Path, context: PromptContext, limits: MakeLimits, repairer: Any
) -> None:
    windowed(server, 12_000, work(server, 30))
    assert repairer().work(session, 50).kind is StopKind.CHECK
    first, second = tmp_path / "trajectory.jsonl", tmp_path / "second.jsonl"
    with Trajectory(second) as trajectory:
        model = ReplayModel(first, "repair")
        agent = make_repairer(model, prompt_context=context, limits=limits(), trajectory=trajectory)
        assert agent.work(session, 50).kind is StopKind.CHECK
    assert sent(first) == sent(second)
    elisions: Callable[[Path], list[Any]] = lambda path: [  # noqa: E731
        (line["turn"], line["reason"], line["before"], line["after"])
        for line in read(path)
        if line["event"] == "elision"
    ]
    assert elisions(first) == elisions(second)
    assert elisions(first)[0][1] == "overflow"


def test_an_elided_output_says_where_it_is_as_long_as_it_is_there(
    server: Server, session: Session, repairer: Any
) -> None:
    for n in range(6):
        server.call(bash(f"head -c 9000000 /dev/zero | tr '\\0' x; echo {n}"))
    for n in range(4):
        server.call(bash(f"printf %1400d {n}"))
    server.call(("check", {}))
    assert repairer(context_chars=13_000, output_chars=1500).work(session, 50).kind is StopKind.CHECK
    replies = [text for _, text in tool_replies(server)]
    assert REMOVED in replies[0] and REMOVED in replies[2]
    assert "Run the command again" in replies[0]  # newer files needed the room
    assert "Read it in /" in replies[2] and "output-3.txt" in replies[2]


@pytest.mark.parametrize("command", ["seq 9000", "sleep 1000 & disown; echo started"])
def test_numbers_of_our_own_do_not_hide_a_loop(server: Server, session: Session, repairer: Any, command: str) -> None:
    for _ in range(9):
        server.call(bash(command))
    assert repairer(output_chars=1000).work(session, 50).kind is StopKind.LOOP
