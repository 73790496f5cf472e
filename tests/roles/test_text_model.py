"""The text protocol over the wire: an agent whose model has no tool calls."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from execcritic_roles.agent import ToolAgent
from execcritic_roles.models.options import ModelOptions
from execcritic_roles.models.registry import create
from execcritic_roles.prompts.render import PromptContext
from execcritic_roles.repairer import make_repairer
from execcritic_roles.tester import make_tester
from execcritic_roles.trajectory import Trajectory, read
from execcritic_scaffold.agents import StopKind
from execcritic_scaffold.sandbox.protocol import Session
from tests.openai_server import Server, assistant
from tests.roles.episodes import MakeLimits

CHECK = "```check\n```"


@pytest.fixture
def texter(server: Server, tmp_path: Path, context: PromptContext, limits: MakeLimits) -> Iterator[Any]:
    """`texter(make, spec, **limits)`: an agent that speaks the text protocol with `server`."""
    with Trajectory(tmp_path / "trajectory.jsonl") as trajectory:

        def agent(make: Any = make_repairer, spec: str = "openai:m", **given: Any) -> ToolAgent:
            options = ModelOptions(base_url=server.url, protocol="text", backoff_seconds=0.01, patience_seconds=5)
            model = create(spec, "repair", options)
            return make(model, prompt_context=context, limits=limits(**given), trajectory=trajectory)

        yield agent


def check_text(requests: list[dict[str, Any]]) -> None:
    """No request speaks of tools, roles alternate, and the conversation only grows at its end."""
    for request in requests:
        assert "tools" not in request and "tool_choice" not in request
        roles = [message["role"] for message in request["messages"]]
        assert roles == ["system", *(["user", "assistant"] * len(roles))[: len(roles) - 1]] and roles[-1] == "user"
        assert all("tool_calls" not in m and "tool_call_id" not in m and m["content"] for m in request["messages"])
    for before, after in pairwise(requests):
        assert after["messages"][: len(before["messages"])] == before["messages"]


def test_an_episode(server: Server, session: Session, workspace: Path, texter: Any) -> None:
    first = "<think>\nhm\n</think>\n\nLook:\n```bash\necho one; export V=two\n```\n  "
    server.say(first, reasoning_content="kept", thought_signature={"a": [1, None]})
    server.say("```bash timeout=5\necho $V > f\n```").say(CHECK).say('```submit\n{"reason": "it works"}\n```')
    agent = texter()
    assert agent.work(session, 10).kind is StopKind.CHECK
    stop = agent.work(session, 10, "FAIL: too short")
    assert (stop.kind, stop.reason) == (StopKind.SUBMIT, "it works")
    assert (workspace / "f").read_text() == "two\n"
    check_text(server.requests)
    system = server.requests[0]["messages"][0]["content"]
    assert system.count("How to call a tool") == 1 and '"reason"' in system and "bash timeout=300" in system
    sent = server.requests[-1]["messages"]
    assert sent[2] == {
        "role": "assistant",
        "content": first,
        "reasoning_content": "kept",
        "thought_signature": {"a": [1, None]},
    }
    assert sent[3]["content"] == "<result>\none\n[exit code 0]\n</result>"
    assert sent[7]["content"] == "<result>\nFAIL: too short\n</result>"


def test_a_note_after_a_broken_request_joins_the_result_before_it(
    server: Server, session: Session, texter: Any
) -> None:
    server.say("```bash\necho one\n```").status(401).say(CHECK)
    agent = texter()
    assert agent.work(session, 10).kind is StopKind.MODEL
    assert agent.work(session, 10, "Go on.").kind is StopKind.CHECK
    last = server.requests[-1]["messages"]
    assert [message["role"] for message in last] == ["system", "user", "assistant", "user"]
    assert last[-1]["content"] == "<result>\none\n[exit code 0]\n</result>\n\nGo on."


def test_a_test_is_submitted_as_json(server: Server, session: Session, texter: Any) -> None:
    contract = (
        '{"entrypoint": "mean", "trigger": "[]", "expected_output": "0", "issue_evidence": ["it should return 0"], '
        '"alternative_hypotheses": [], "non_assertions": [], "test_nodes": ["t.py::a"]}'
    )
    server.say('```submit_test\n{"nodes": "t.py::a"}\n```')
    server.say(f'Here:\n```submit_test\n{{"nodes": ["t.py::a"], "contract": {contract}}}\n```')
    stop = texter(make_tester).work(session, 10)
    assert stop.kind is StopKind.SUBMIT_TEST and stop.nodes == ("t.py::a",)
    assert "nodes: Input should be a valid list" in server.requests[1]["messages"][-1]["content"]
    assert "alternative_hypotheses" in server.requests[0]["messages"][0]["content"]
    check_text(server.requests)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("I fixed it.", "holds no action"),
        ("", "holds no action"),
        (None, "holds no action"),
        ("```bash\ntouch ran\n```\n```bash\ntouch ran\n```", "holds 2 actions"),
        ("```bash\ntouch ran\n", "not closed"),
        ("```python\nopen('ran', 'w')\n```", "names a tool (python)"),
        ("```\ntouch ran\n```", "names a tool (no name)"),
        ("```bash\ntouch ran; cat <<E\n```\nx\n```\nE\n```", "block without a name"),
        ("<think>\n```bash\ntouch ran\n```", "thinking has no end"),
        ("```submit\n{reason: done}\n```", "not valid JSON"),
        ("```bash\n```", "command"),
    ],
)
def test_a_wrong_reply_is_corrected_once_and_shortly(
    server: Server, session: Session, workspace: Path, texter: Any, reply: str | None, words: str
) -> None:
    server.say(reply).say(CHECK)
    assert texter().work(session, 10).kind is StopKind.CHECK
    correction = server.requests[-1]["messages"][-1]["content"]
    assert words in correction and len(correction) < 400
    assert not (workspace / "ran").exists()
    assert server.requests[-1]["messages"][2]["content"] == (reply or "(empty reply)")
    check_text(server.requests)


def test_corrections_are_bounded(server: Server, session: Session, texter: Any) -> None:
    for number in range(9):
        server.say(f"thinking about it {number}")
    assert texter(format_errors=3).work(session, 50).kind is StopKind.FORMAT
    assert len(server.requests) == 3
    check_text(server.requests)


@pytest.mark.parametrize("text", ["```bash\ntouch ran\n```", "```bash\ntouch ran"])
def test_a_reply_that_was_cut_off_runs_nothing(
    server: Server, session: Session, workspace: Path, texter: Any, text: str
) -> None:
    server.message({"role": "assistant", "content": text}, "length").say(CHECK)
    assert texter().work(session, 10).kind is StopKind.CHECK
    assert not (workspace / "ran").exists()
    assert "cut off" in server.requests[-1]["messages"][-1]["content"]
    check_text(server.requests)


def test_content_in_parts_goes_back_in_parts(server: Server, session: Session, workspace: Path, texter: Any) -> None:
    parts = [{"type": "thinking", "thinking": "```bash\nno\n```"}, {"type": "text", "text": "```bash\ntouch ran\n```"}]
    server.message({"role": "assistant", "content": parts}).say(CHECK)
    texter().work(session, 10)
    assert (workspace / "ran").exists()
    assert server.requests[-1]["messages"][2]["content"] == parts


def test_calls_that_a_server_read_out_of_the_text_do_not_count(server: Server, session: Session, texter: Any) -> None:
    server.message({**assistant(("bash", {"command": "true"})), "content": "prose"}).say(CHECK)
    texter().work(session, 10)
    assert "holds no action" in server.requests[-1]["messages"][-1]["content"]
    check_text(server.requests)


def test_a_record_of_it_runs_again(
    server: Server, session: Session, workspace: Path, tmp_path: Path, texter: Any, context: PromptContext, limits: Any
) -> None:
    server.say("prose").say("```bash\necho x >> f\n```").say(CHECK)
    texter().work(session, 10)
    recorded = tmp_path / "trajectory.jsonl"
    replies = [line for line in read(recorded) if line["event"] == "reply"]
    assert "history" not in replies[1]  # what is kept is what is sent back
    with Trajectory(tmp_path / "again.jsonl") as again:
        model = create(f"replay:{recorded}", "repair", ModelOptions(protocol="text"))
        agent = make_repairer(model, prompt_context=context, limits=limits(), trajectory=again)
        assert agent.work(session, 10).kind is StopKind.CHECK
    assert (workspace / "f").read_text() == "x\nx\n"
    messages = [[line["message"] for line in read(path) if "message" in line] for path in (recorded, again.path)]
    assert messages[0] == messages[1]
