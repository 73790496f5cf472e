"""Every limit of an episode, and going round in circles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from execcritic_roles.agent import ToolAgent
from execcritic_roles.models.openai import OpenAIModel
from execcritic_roles.models.options import ModelOptions, Price
from execcritic_roles.prompts.render import PromptContext
from execcritic_roles.repairer import make_repairer
from execcritic_roles.trajectory import Trajectory
from execcritic_scaffold.agents import StopKind
from execcritic_scaffold.sandbox.protocol import Session
from tests.openai_server import OVERFLOWS, Server
from tests.roles.episodes import MakeLimits, bash, check_protocol, tool_replies


def test_turns_of_a_call_and_of_the_episode(server: Server, session: Session, repairer: Any) -> None:
    for number in range(9):
        server.call(bash(f"echo {number}"))
    agent = repairer(turns=7)
    assert agent.work(session, 5).kind is StopKind.TURNS
    assert len(server.requests) == 5
    assert agent.work(session, 5, "Your changes were checked: FAIL.").kind is StopKind.TURNS
    assert len(server.requests) == 7
    assert server.requests[5]["messages"][-1] == {"role": "user", "content": "Your changes were checked: FAIL."}
    assert agent.work(session, 5, "again").kind is StopKind.TURNS
    assert len(server.requests) == 7
    assert "3 turns are left" in tool_replies(server, 2)[-1][1]
    assert "1 turn is left" in tool_replies(server, 4)[-1][1]
    check_protocol(server.requests)


def test_a_note_after_a_correction_is_one_user_message(server: Server, session: Session, repairer: Any) -> None:
    server.say("done!").call(("check", {}))
    agent = repairer()
    agent.work(session, 1)
    agent.work(session, 1, "FAIL")
    assert [m["role"] for m in server.requests[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert server.requests[1]["messages"][-1]["content"].endswith("FAIL")


def test_limits_each_have_their_own_stop(server: Server, session: Session, repairer: Any) -> None:
    server.call(bash("echo 1")).call(bash("echo 2"))
    stop = repairer(tokens=240).work(session, 10)
    assert (stop.kind, len(server.requests)) == (StopKind.TOKENS, 2)
    server.call(bash("sleep 1.1; true"))
    assert repairer(seconds=1).work(session, 10).kind is StopKind.SECONDS
    server.call(*[bash("sleep 9")] * 3)  # each call of a turn has only what the ones before it left
    agent = repairer(seconds=1.5)
    assert agent.work(session, 10).kind is StopKind.SECONDS and agent.usage.seconds < 6
    server.hang()
    assert repairer(seconds=1).work(session, 10).kind is StopKind.SECONDS
    server.call(bash("head -c 9000 /dev/zero | tr '\\0' x"))
    assert repairer(context_chars=9000).work(session, 10).kind is StopKind.CONTEXT


def test_cost_stops_where_it_is_known_and_is_unknown_where_it_is_not(
    server: Server, session: Session, tmp_path: Path, context: PromptContext, limits: MakeLimits
) -> None:
    for _ in range(2):
        for number in range(3):
            server.call(bash(f"echo {number}"))
    price = {"priced": Price(input=1000, output=1000)}
    with Trajectory(tmp_path / "t.jsonl") as trajectory:

        def agent(name: str) -> ToolAgent:
            model = OpenAIModel(name, ModelOptions(base_url=server.url, prices=price))
            return make_repairer(model, prompt_context=context, limits=limits(cost=0.2), trajectory=trajectory)

        priced, unknown = agent("priced"), agent("unknown")
        assert priced.work(session, 3).kind is StopKind.COST
        assert priced.usage.cost == pytest.approx(0.24)
        assert unknown.work(session, 3).kind is StopKind.TURNS
        assert unknown.usage.cost is None


@pytest.mark.parametrize("kind", OVERFLOWS)
def test_overflow_is_its_own_stop(server: Server, session: Session, workspace: Path, repairer: Any, kind: str) -> None:
    server.call(bash("echo fixed > f")).overflow(kind).overflow(kind)
    agent = repairer()
    assert agent.work(session, 10).kind is StopKind.CONTEXT
    assert (workspace / "f").read_text() == "fixed\n"  # the edit is there to be taken
    assert agent.work(session, 10, "FAIL").kind is StopKind.CONTEXT  # and no endless shortening
    assert len(server.requests) == 3


def test_a_task_that_does_not_fit_at_all_is_the_endpoint_s_failure(
    server: Server, session: Session, repairer: Any
) -> None:
    server.overflow("vllm-now")
    stop = repairer().work(session, 10)
    assert stop.kind is StopKind.MODEL and "model.max_output_tokens" in stop.reason


def test_a_broken_endpoint_is_never_the_model_s_failure(server: Server, session: Session, repairer: Any) -> None:
    server.call(bash("true")).status(401)
    stop = repairer().work(session, 10)
    assert stop.kind is StopKind.MODEL and "401" in stop.reason and "OPENAI_API_KEY" in stop.reason


def test_waiting_for_an_endpoint_costs_no_working_time(server: Server, session: Session, repairer: Any) -> None:
    server.status(429, retry_after="1.5").call(bash("true")).call(("check", {}))
    agent = repairer(seconds=1.4)
    assert agent.work(session, 10).kind is StopKind.CHECK
    assert agent.usage.seconds < 1.4


@pytest.mark.parametrize("period", [1, 2, 3, 4])
def test_repetition_gives_one_notice_and_then_a_stop(
    server: Server, session: Session, repairer: Any, period: int
) -> None:
    for turn in range(40):
        server.call(bash(f"echo {turn % period}"))
    agent = repairer(repeats=3)
    assert agent.work(session, 100).kind is StopKind.LOOP
    assert agent.usage.turns == 5 * period
    notices = [n for n, (_, text) in enumerate(tool_replies(server)) if "[notice] You have made the same calls" in text]
    assert notices == [3 * period - 1]
    check_protocol(server.requests)
    server.call(("check", {}))
    assert agent.work(session, 1, "go on").kind is not StopKind.LOOP  # it can go on after that


def test_the_same_sentence_again_and_again_is_a_loop(server: Server, session: Session, repairer: Any) -> None:
    for _ in range(200):
        server.say("I have fixed the issue.")
    agent = repairer()
    assert agent.work(session, 200).kind is StopKind.LOOP
    assert sum("[notice]" in m["content"] for m in server.requests[-1]["messages"] if m["role"] == "user") == 1


def test_the_same_check_with_the_same_answer_is_a_loop(server: Server, session: Session, repairer: Any) -> None:
    for _ in range(9):
        server.call(("check", {}))
    agent = repairer()
    kinds = [agent.work(session, 40).kind] + [agent.work(session, 40, "same patch").kind for _ in range(5)]
    assert kinds == [StopKind.CHECK] * 5 + [StopKind.LOOP]


def test_waiting_with_changing_output_is_no_loop(server: Server, session: Session, repairer: Any) -> None:
    server.call(bash("(for i in $(seq 100); do echo $i >> log; sleep 0.02; done) > /dev/null 2>&1 &"))
    for _ in range(12):
        server.call(bash("echo x >> polled; wc -l < polled"))
    server.call(("check", {}))
    assert repairer().work(session, 50).kind is StopKind.CHECK
    assert not any("[notice] You have" in text for _, text in tool_replies(server))


def test_waiting_for_a_job_that_runs_is_no_loop(server: Server, session: Session, repairer: Any) -> None:
    server.call(bash("sleep 1000 > log &"))
    for _ in range(12):
        server.call(bash("sleep 0.01; tail log"))
    server.call(bash("kill %% 2>/dev/null; pkill -f 'sleep 1000'; sleep 0.1"))
    for _ in range(12):
        server.call(bash("sleep 0.01; tail log"))  # now there is nothing to wait for
    agent = repairer()
    assert agent.work(session, 50).kind is StopKind.LOOP
    assert agent.usage.turns == 14 + 5
