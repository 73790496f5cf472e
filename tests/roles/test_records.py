"""Trajectories of real episodes, and recordings that run again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from execcritic_roles.agent import ToolAgent
from execcritic_roles.limits import AgentLimits
from execcritic_roles.models.openai import OpenAIModel
from execcritic_roles.models.options import ModelOptions, Price
from execcritic_roles.models.protocol import ChatModel
from execcritic_roles.models.replay import ReplayModel
from execcritic_roles.prompts.render import PromptContext
from execcritic_roles.repairer import make_repairer
from execcritic_roles.trajectory import Trajectory, read
from execcritic_scaffold.agents import StopKind
from execcritic_scaffold.errors import Interrupted
from execcritic_scaffold.sandbox.protocol import Session
from tests.openai_server import Server, assistant
from tests.roles.episodes import MakeLimits, bash


@contextmanager
def recorded(path: Path, model: ChatModel, context: PromptContext, limits: AgentLimits) -> Iterator[ToolAgent]:
    with Trajectory(path) as trajectory:
        yield make_repairer(model, prompt_context=context, limits=limits, trajectory=trajectory)


def test_cancel(server: Server, session: Session, tmp_path: Path, context: PromptContext, limits: MakeLimits) -> None:
    cancel = threading.Event()
    server.call(bash("echo 1")).call(bash("echo 2"))
    with Trajectory(tmp_path / "t.jsonl", lambda event: event["event"] == "reply" and cancel.set()) as trajectory:
        agent = make_repairer(
            OpenAIModel("m", ModelOptions(base_url=server.url)),
            prompt_context=context,
            limits=limits(),
            trajectory=trajectory,
            cancel=cancel,
        )
        with pytest.raises(Interrupted):
            agent.work(session, 10)
    assert [line["event"] for line in read(tmp_path / "t.jsonl")][-1] == "reply"  # what it had cost is on disk


def test_a_recorded_run_runs_again_exactly(
    server: Server, session: Session, tmp_path: Path, context: PromptContext, limits: MakeLimits
) -> None:
    server.call(bash("echo a"), ("bash", "[]")).say("prose").call(bash("echo b"), finish_reason="length")
    server.call(("check", {})).call(("submit", {"reason": "r"}))
    price = {"m": Price(input=1, output=2)}
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    stops, usages = [], []
    live = OpenAIModel("m", ModelOptions(base_url=server.url, prices=price))
    for path, make in ((first, lambda: live), (second, lambda: ReplayModel(first, "repair"))):
        with recorded(path, make(), context, limits()) as agent:
            stops.append([agent.work(session, 10), agent.work(session, 10, "FAIL")])
            usages.append((agent.usage.turns, agent.usage.input_tokens, agent.usage.cost))
    assert stops[0] == stops[1] and usages[0] == usages[1]
    timeless = ("time", "seconds", "waited", "action", "usage", "model")
    runs = [[{k: v for k, v in line.items() if k not in timeless} for line in read(path)] for path in (first, second)]
    assert runs[0] == runs[1]


def test_the_trajectory_holds_exactly_what_was_sent(
    server: Server, session: Session, tmp_path: Path, repairer: Any
) -> None:
    server.call(bash("echo a")).say("hm").call(("check", {})).call(bash("echo b"))
    agent = repairer()
    agent.work(session, 10)
    agent.work(session, 1, "FAIL")
    messages = [
        line.get("history", line["message"])
        for line in read(tmp_path / "trajectory.jsonl")
        if line["event"] in ("message", "reply")
    ]
    assert messages[: len(server.requests[-1]["messages"])] == server.requests[-1]["messages"]


def test_a_bare_recording_drives_an_agent(
    session: Session, tmp_path: Path, context: PromptContext, limits: MakeLimits
) -> None:
    recording = tmp_path / "replies.jsonl"
    recording.write_text(json.dumps(assistant(bash("echo hi"))) + "\n" + json.dumps(assistant(("check", {}))) + "\n")
    with recorded(tmp_path / "t.jsonl", ReplayModel(recording, "repair"), context, limits()) as agent:
        assert agent.work(session, 10).kind is StopKind.CHECK
        assert agent.usage.cost == 0
        stop = agent.work(session, 10, "FAIL")
    assert stop.kind is StopKind.MODEL and "used up" in stop.reason
