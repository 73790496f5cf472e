"""The turn loop of both roles with real sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from execcritic_roles.models.openai import OpenAIModel
from execcritic_roles.models.options import ModelOptions
from execcritic_roles.prompts.render import PromptContext
from execcritic_roles.tester import make_tester
from execcritic_roles.trajectory import Trajectory
from execcritic_scaffold.agents import Agent, Stop, StopKind
from execcritic_scaffold.sandbox.protocol import Session
from tests.openai_server import Server
from tests.roles.episodes import MakeLimits, bash, check_protocol, tool_replies

CONTRACT = {
    "entrypoint": "mean",
    "trigger": "mean([])",
    "expected_output": "0",
    "issue_evidence": ["it should return 0"],
    "alternative_hypotheses": [],
    "non_assertions": [],
    "test_nodes": ["tests/test_mean.py::test_empty"],
}


def test_commands_run_in_order_and_terminal_tools_return_control(
    server: Server, session: Session, workspace: Path, repairer: Any
) -> None:
    server.call(bash("echo one > f"), bash("cat f")).call(("check", ""))
    server.call(("submit", {"reason": "the test is wrong"}))
    agent: Agent = repairer()
    assert agent.work(session, 10) == Stop(StopKind.CHECK)
    assert (workspace / "f").read_text() == "one\n"
    assert tool_replies(server) == [("c0_0", "(no output)\n[exit code 0]"), ("c0_1", "one\n[exit code 0]")]
    assert agent.work(session, 10, "FAIL: expected 0") == Stop(StopKind.SUBMIT, reason="the test is wrong")
    assert tool_replies(server)[-1] == ("c1_0", "FAIL: expected 0")
    check_protocol(server.requests)
    assert agent.usage.turns == 3
    assert (agent.usage.input_tokens, agent.usage.cached_tokens, agent.usage.output_tokens) == (300, 180, 60)


def test_the_test_role_submits_a_bundle(
    server: Server, session: Session, tmp_path: Path, context: PromptContext, limits: MakeLimits
) -> None:
    nodes, superseded = CONTRACT["test_nodes"], [{"node": "a::b", "issue_quote": "q", "reason": "r"}]
    arguments = {"nodes": nodes, "contract": CONTRACT, "companions": ["a::c"], "superseded": superseded}
    server.call(("check", {})).call(("submit_test", {"nodes": nodes, "contract": {**CONTRACT, "trigger": 3}}))
    server.call(("submit_test", arguments))
    with Trajectory(tmp_path / "t.jsonl") as trajectory:
        model = OpenAIModel("m", ModelOptions(base_url=server.url))
        tester = make_tester(model, prompt_context=context, limits=limits(), trajectory=trajectory)
        stop = tester.work(session, 60)
    assert stop == Stop(
        StopKind.SUBMIT_TEST,
        nodes=tuple(nodes),
        companions=("a::c",),
        superseded=tuple(superseded),
        contract=CONTRACT,
    )
    (_, no_tool), (_, ill_typed) = tool_replies(server)
    assert "no tool 'check'" in no_tool and "bash, submit_test" in no_tool
    assert "contract.trigger" in ill_typed and "string" in ill_typed
