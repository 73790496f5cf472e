"""What models get wrong: each wrong reply is answered once, bounded in number, and never poisons what is sent back."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from execcritic_roles.trajectory import read
from execcritic_scaffold.agents import StopKind
from execcritic_scaffold.sandbox.protocol import Session
from tests.openai_server import Server
from tests.roles.episodes import bash, check_protocol, tool_replies


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("bash", '{"command": '), "not valid JSON"),
        (("bash", "[]"), "must be a JSON object"),
        (("bash", "null"), "must be a JSON object"),
        (("bash", "7"), "must be a JSON object"),
        (("bash", '{"command": NaN}'), "not valid JSON"),
        (("bash", "[" * 100_000), "not valid JSON"),
        (("bash", '{"command": "touch ran \\ud800"}'), "not valid JSON"),
        (("bash", '{"command": "touch ran\\u0000"}'), "NUL"),
        (("bash", ""), "command: Field required"),
        (("bash", {"command": ["touch ran"]}), "command"),
        (("bash", {"cmd": "touch ran"}), "command: Field required"),
        (("bash", {"command": ""}), "command"),
        (("bash", {"command": "touch ran", "timeout": -1}), "timeout"),
        (("bash", {"command": "touch ran", "timeout": "60"}), "timeout"),
        (("submit", {}), "reason"),
        (("check", {"now": True}), "now"),
        (("shell", {"command": "touch ran"}), "no tool 'shell'"),
        (("", {"command": "touch ran"}), "no tool"),
        (("b a s h!" + "x" * 100, {"command": "touch ran"}), "no tool"),
    ],
)
def test_a_wrong_call_is_not_run_and_the_others_of_its_turn_are(
    server: Server, session: Session, workspace: Path, repairer: Any, call: tuple[str, Any], words: str
) -> None:
    server.call(bash("echo first"), call, bash("echo third")).call(("check", {}))
    assert repairer().work(session, 10).kind is StopKind.CHECK
    replies = tool_replies(server)
    assert [identity for identity, _ in replies] == ["c0_0", "c0_1", "c0_2"]
    assert words in replies[1][1] and len(replies[1][1]) < 700
    assert "first" in replies[0][1] and "third" in replies[2][1]
    assert not (workspace / "ran").exists()
    check_protocol(server.requests)


# As the SDK writes it: compact, and not escaped.
PROVIDERS_OWN = (
    '{"role":"assistant","content":null,"refusal":null,"reasoning_content":"Überlegung ✓\\n  two","reasoning_details":'
    '[{"type":"reasoning.encrypted","data":"AA==","index":0}],"thinking_blocks":[{"signature":"s","thinking":"t"}],'
    '"tool_calls":[{"index":0,"id":"a","type":"function","function":{"arguments":"{\\"command\\":  \\"echo 1\\"}",'
    '"name":"bash"},"extra_content":{"google":{"thought_signature":"zz="}}},{"id":"b","function":{"name":"bash",'
    '"arguments":"{\\n\\"command\\": \\"echo 2\\"}"},"type":"function"}],"x":[1,2.5,12345678901234567890,true,{"":{}}]}'
)


def test_what_a_provider_sent_goes_back_to_the_byte(server: Server, session: Session, repairer: Any) -> None:
    answer = f'{{"choices":[{{"finish_reason":"tool_calls","message":{PROVIDERS_OWN}}}]}}'.encode()
    server.raw(answer).raw(answer.replace(b'"a"', b'"c"').replace(b'"b"', b'"d"')).call(("check", {}))
    assert repairer().work(session, 10).kind is StopKind.CHECK
    assert PROVIDERS_OWN.encode() in server.bodies[1] and PROVIDERS_OWN.encode() in server.bodies[2]
    for before, after in pairwise(server.bodies):  # the bytes of a prefix too are those that were sent before
        start, _, _ = before.partition(b'],"tools"')
        assert start.startswith(b'{"model":"m","messages":[') and after.startswith(start)
    assert [identity for identity, _ in tool_replies(server)] == ["a", "b", "c", "d"]
    check_protocol(server.requests)


def test_numbers_that_are_no_json_do_not_poison_the_history(server: Server, session: Session, repairer: Any) -> None:
    answer = b'{"choices":[{"message":{"content":"x","score":NaN,"odds":[1e999,-Infinity,0.5]}}]}'
    server.raw(answer).call(("check", {}))
    assert repairer().work(session, 10).kind is StopKind.CHECK
    assert server.requests[1]["messages"][2]["odds"] == [None, None, 0.5]


def test_what_was_broken_stays_in_the_record(server: Server, session: Session, tmp_path: Path, repairer: Any) -> None:
    server.call(("bash", '{"command": ')).call(("check", {}))
    repairer().work(session, 10)
    reply = next(line for line in read(tmp_path / "trajectory.jsonl") if line["event"] == "reply")
    assert reply["message"]["tool_calls"][0]["function"]["arguments"] == '{"command": '
    assert reply["history"]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("finish_reason", ["length", "tool_calls"])
def test_a_reply_cut_off_in_a_call_runs_nothing(
    server: Server, session: Session, workspace: Path, repairer: Any, finish_reason: str
) -> None:
    # A complete first call and a fragment. Some servers say `tool_calls` where they cut: the fragment is broken JSON.
    server.call(bash("touch whole"), ("bash", '{"command": "touch fragment'), finish_reason=finish_reason)
    server.call(("check", {}))
    assert repairer().work(session, 10).kind is StopKind.CHECK
    assert not (workspace / "fragment").exists()
    assert (workspace / "whole").exists() is (finish_reason == "tool_calls")
    assert ("cut off" in tool_replies(server)[0][1]) is (finish_reason == "length")
    check_protocol(server.requests)


def test_cut_off_again_and_again_ends_the_episode(server: Server, session: Session, repairer: Any) -> None:
    for number in range(9):
        server.call(bash(f"echo {number}"), finish_reason="length")
    assert repairer(format_errors=4).work(session, 50).kind is StopKind.FORMAT
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "reasoning_content": "hmm"},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "assistant", "content": "  \n", "tool_calls": None},
        {"content": "I fixed it."},
        {"role": "assistant", "content": "x", "tool_calls": "bash"},
        {"role": "assistant", "content": "lone surrogate \ud800"},
    ],
)
def test_a_reply_without_action_is_answered_and_stays_valid(
    server: Server, session: Session, repairer: Any, message: dict[str, Any]
) -> None:
    server.message(message).message(message).call(("check", {}))
    assert repairer().work(session, 10).kind is StopKind.CHECK
    last = server.requests[-1]["messages"]
    assert [m["role"] for m in last] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "bash, check, submit" in last[-1]["content"]
    assert last[2].get("reasoning_content") == message.get("reasoning_content")
    check_protocol(server.requests)


def test_replies_without_action_are_bounded_and_the_count_is_in_a_row(
    server: Server, session: Session, repairer: Any
) -> None:
    for _ in range(3):
        server.say("first").say("second").call(bash("true"))
    for text in ("a", "b", "c"):
        server.say(text)
    agent = repairer(format_errors=3)
    stop = agent.work(session, 50)
    assert stop.kind is StopKind.FORMAT and "3 replies" in stop.reason
    assert agent.usage.turns == 12
    server.call(("check", {}))
    assert agent.work(session, 5, "go on").kind is StopKind.CHECK  # a stop for form can be resumed
    check_protocol(server.requests)


@pytest.mark.parametrize(
    "calls",
    [
        [{"type": "function", "function": {"name": "bash", "arguments": '{"command": "true"}'}}],
        [{"id": None, "function": {"name": "bash", "arguments": {"command": "true"}}}],
        [{"id": "same", "function": {"name": "bash", "arguments": '{"command": "true"}'}}] * 2,
        ["bash", None, 7, {}, {"function": None}, {"id": "a", "type": "custom", "custom": {"name": "x", "input": "y"}}],
    ],
)
def test_misshapen_calls_are_answered_one_by_one(
    server: Server, session: Session, repairer: Any, calls: list[Any]
) -> None:
    server.message({"role": "assistant", "content": None, "tool_calls": calls}).call(("check", {}))
    assert repairer().work(session, 10).kind is StopKind.CHECK
    identities = [identity for identity, _ in tool_replies(server)]
    assert len(set(identities)) == len(calls)
    check_protocol(server.requests)


def test_several_terminal_actions_are_none(server: Server, session: Session, repairer: Any) -> None:
    server.call(("check", {}), bash("echo ran"), ("submit", {"reason": "r"})).call(("check", {}))
    assert repairer().work(session, 10).kind is StopKind.CHECK
    first, second, third = (text for _, text in tool_replies(server))
    assert "only one call" in first and "ran" in second and "only one call" in third


def test_what_comes_after_a_terminal_action_waits(
    server: Server, session: Session, workspace: Path, repairer: Any
) -> None:
    server.call(("check", {}), bash("touch late")).call(("check", {}))
    agent = repairer()
    agent.work(session, 10)
    assert not (workspace / "late").exists()
    agent.work(session, 10, "FAIL")
    assert sorted(tool_replies(server)) == [("c0_0", "FAIL"), ("c0_1", tool_replies(server)[0][1])]
    assert "came after `check`" in tool_replies(server)[0][1]
    check_protocol(server.requests)
