"""From a run to a record: the sample's recorded episode, and a real model behind the proxy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.errors import UsageError
from execcritic_training.episodes import About, to_record
from execcritic_training.proxy import RecordingProxy
from execcritic_training.recordfile import RecordWriter, read_records
from execcritic_training.records import Policy, template_hash
from execcritic_training.rows import build_rows
from execcritic_training.templates import check_record
from tests.app.conftest import SCRIPT
from tests.openai_server import serve
from tests.training.conftest import CHATML

ABOUT = About("spans-1", Policy(model="m", version=0), split="train")


def trajectory(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"event": "start", "role_name": "test", "turn": 0, "model": "openai:m", "limits": {}, "tools": []}, *events]


def message(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"event": "message", "turn": 0, "message": {"role": role, "content": content}, **more}


def reply(content: str, finish: str = "stop") -> dict[str, Any]:
    said = {"role": "assistant", "content": content}
    return {"event": "reply", "turn": 1, "message": said, "finish_reason": finish, "usage": {}, "model": "m"}


def stop(kind: str, reason: str = "") -> dict[str, Any]:
    return {"event": "stop", "turn": 1, "kind": kind, "reason": reason, "usage": {}}


def run(folder: Path, events: list[dict[str, Any]], *journal: dict[str, Any], role: str = "test") -> Path:
    """A run directory as far as a record needs it."""
    (folder / role).mkdir(parents=True)
    config = {"model": {"protocol": "tools", "temperature": 0.6, "max_output_tokens": 100, "extra": {"top_p": 0.9}}}
    manifest = {"base": {"tree": "ab" * 20, "commit": None}, "config": config, "request": {"bundle": None}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / role / "trajectory.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (folder / "journal.jsonl").write_text('{"torn\n' + "".join(json.dumps(event) + "\n" for event in journal))
    return folder


def gate(**fields: Any) -> dict[str, Any]:
    return {"event": "test.ended", "gate": {"bundle": None, "stop": None, "error": None, "last": None, **fields}}


FORMAT = [message("system", "s"), message("user", "u"), reply("?"), message("user", "act"), reply("?")]


def test_a_text_only_episode(tmp_path: Path) -> None:
    action = {"exit_code": 1, "timed_out": False, "seconds": 0.5}
    elided = {"event": "elision", "turn": 1, "elided": [{"index": 3, "tool_call_id": "c", "content": "(gone)"}]}
    events = trajectory(
        *FORMAT[:3],
        message("tool", "long output", action=action),
        reply("b"),
        message("user", "go on"),
        elided,
        reply("c"),
    )
    record = to_record(run(tmp_path / "r", [*events, stop("submit_test")], gate(bundle="f" * 64)), "test", ABOUT)
    assert record.id == "r/test" and record.task.base == "ab" * 20 and record.artifacts.bundle == "f" * 64
    assert record.frozen is None and record.outcome.status == "completed"
    assert (record.sampling.temperature, record.sampling.top_p, record.sampling.max_tokens) == (0.6, 0.9, 100)
    assert [(turn.keep, len(turn.messages)) for turn in record.turns] == [(0, 2), (3, 1), (3, 3)]
    assert [m["content"] for m in record.conversation()] == ["s", "u", "?", "(gone)", "b", "go on", "c"]
    assert [[o.exit_code for o in turn.observations] for turn in record.turns] == [[1], [], []]
    with pytest.raises(UsageError, match="turn 0 has no token ids"):
        build_rows([record])


@pytest.mark.parametrize(
    ("stopped", "ended", "status"),
    [
        (stop("format", "no action"), gate(), "completed"),
        (stop("loop", "again"), gate(), "completed"),
        (stop("submit_test"), gate(), "completed"),  # all submissions were refused
        (stop("turns", "60 turns"), gate(), "truncated"),
        (stop("seconds", "900 s"), gate(), "truncated"),
        (stop("context", "full"), gate(), "truncated"),
        (stop("model", "HTTP 500"), gate(), "op_error"),
        (stop("submit_test"), gate(error="the sandbox died"), "op_error"),
        (stop("submit_test"), gate(last={"status": "INCONCLUSIVE"}), "op_error"),
        (stop("quit", "had enough"), gate(), "aborted"),
        (stop("submit_test"), {"event": "run.broken"}, "aborted"),
    ],
)
def test_how_an_episode_ended(tmp_path: Path, stopped: dict[str, Any], ended: dict[str, Any], status: str) -> None:
    record = to_record(run(tmp_path / "r", trajectory(*FORMAT, stopped), ended), "test", ABOUT)
    assert record.outcome.status == status and (status == "completed" or record.outcome.reason)


def test_a_last_reply_that_was_cut_off_is_truncated(tmp_path: Path) -> None:
    events = trajectory(*FORMAT, reply("cut", "length"), stop("format", "no action"))
    assert to_record(run(tmp_path / "r", events, gate()), "test", ABOUT).outcome.status == "truncated"


def test_a_repair_that_is_submitted_by_force_is_an_answer(tmp_path: Path) -> None:
    events = trajectory(*FORMAT, stop("turns", "40 turns"))
    ended = {"event": "repair.ended", "rounds": 5, "checks": 6, "error": None}
    forced = run(tmp_path / "r", events, gate(bundle="f" * 64), ended, role="repair")
    record = to_record(forced, "repair", ABOUT)
    assert record.outcome.status == "completed" and record.frozen == "f" * 64
    unchecked = run(tmp_path / "q", events, {**ended, "checks": 0}, role="repair")
    assert to_record(unchecked, "repair", ABOUT).outcome.status == "truncated"


def test_the_capture_is_matched_by_what_the_agent_took(tmp_path: Path) -> None:
    """A reply that the agent had given up on is in the capture and in no turn; another session's capture is refused."""
    import httpx

    events = trajectory(*FORMAT[:2], reply("a"), message("user", "more"), reply("b"), stop("submit_test"))
    folder = run(tmp_path / "r", events, gate())
    with serve() as upstream, RecordingProxy(upstream.url, tmp_path / "c") as server, server.running():
        for text, prompt in (("late", [1]), ("a", [1]), ("b", [1, 5, 6])):
            choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop", "token_ids": [5]}
            choice["logprobs"] = {"content": [{"logprob": -0.5}]}
            upstream.raw(json.dumps({"model": "m", "prompt_token_ids": prompt, "choices": [choice]}).encode())
            body = {"messages": [{"role": "user", "content": "u"}], "temperature": 1.0, "seed": 7, "tools": [{"x": 1}]}
            httpx.post(f"{server.session_url('s')}/chat/completions", json=body)
    record = to_record(folder, "test", ABOUT, tmp_path / "c" / "s.jsonl")
    assert list(record.prompts()) == [[1], [1, 5, 6]]
    assert (record.sampling.temperature, record.sampling.seed, record.tools) == (1.0, 7, [{"x": 1}])
    (row,), _ = build_rows([record])
    assert row.ids == [1, 5, 6, 5]
    other = run(tmp_path / "o", trajectory(*FORMAT[:2], reply("else"), stop("submit_test")), gate())
    with pytest.raises(UsageError, match="does not hold reply 0 of the episode"):
        to_record(other, "test", ABOUT, tmp_path / "c" / "s.jsonl")
    with pytest.raises(UsageError, match="holds no episode repair"):
        to_record(folder, "repair", ABOUT)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_an_unmodified_agent_over_a_real_model(
    environment: Mapping[str, str], repo: Path, issue: Path, tmp_path: Path, smollm2: Path
) -> None:
    """It talks nonsense; its record must hold what it read and said, and how likely that was."""
    from execcritic_training.engine import Engine
    from execcritic_training.server import ChatServer

    engine = Engine(smollm2, template=CHATML.read_text("utf-8"), version=3)
    with ExitStack() as stack:
        server = stack.enter_context(ChatServer(engine, "smollm2"))
        url = stack.enter_context(server.running())
        proxy = stack.enter_context(RecordingProxy(f"{url}/v1", tmp_path / "captures"))
        stack.enter_context(proxy.running())
        # Not by `cli`, whose patience is shorter than what a model needs on a busy machine.
        command = [
            *(SCRIPT, "test", "--repo", repo, "--issue", issue, "--out", tmp_path / "run", "--model", "openai:smollm2"),
            *("--base-url", proxy.session_url("e1"), "--set", "model.max_output_tokens=16"),
            *("--set", "loop.test_turns=2", "--set", "limits.test.seconds=3000", "--set", "model.temperature=1.0"),
            *("--set", "brief.tokens=0"),
        ]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
    assert ran.returncode == 3, ran
    about = About("spans-1", Policy(model="smollm2", version=3), template=template_hash(engine.template))
    with RecordWriter(tmp_path / "records.jsonl") as writer:
        writer.append(to_record(tmp_path / "run", "test", about, proxy.path_of("e1")))
    (record,) = read_records(tmp_path / "records.jsonl", tokens=True, template=template_hash(engine.template))
    assert len(record.turns) == 2 and {turn.policy_version for turn in record.turns} == {3}
    assert record.outcome.status == "truncated" and record.tools
    for turn, prompt in zip(record.turns, record.prompts(), strict=True):
        assert turn.tokens and prompt
        again = engine.score(prompt, turn.tokens.output)
        assert turn.tokens.logprobs == pytest.approx(again, abs=1e-3)
        assert len(turn.tokens.output) == turn.usage["completion_tokens"]
    rows, counts = build_rows([record], stops=engine.stops)
    assert counts.trained == counts.sampled == sum(len(t.tokens.output) for t in record.turns if t.tokens)
    assert sum(len(row.spans) for row in rows) == 2
    check_record(lambda messages, reply: engine.render(messages, record.tools, reply=reply), record)
    engine.close()
