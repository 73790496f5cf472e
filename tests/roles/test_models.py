"""The registry, recordings and a person at the terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from execcritic_roles.models.human import HumanModel
from execcritic_roles.models.openai import OpenAIModel
from execcritic_roles.models.options import ModelOptions
from execcritic_roles.models.registry import create
from execcritic_roles.models.replay import ReplayModel
from execcritic_roles.terminal import Terminal
from execcritic_roles.tools import Bash, Check, Submit, SubmitTest, ToolSet
from execcritic_scaffold.errors import ModelError, UsageError
from tests.openai_server import assistant

ONE = assistant(("bash", {"command": "echo 1"}))
TWO = assistant(("bash", {"command": "echo 2"}), reasoning_content="kept")


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_specifications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = lines(tmp_path / "a:b.jsonl", ONE)
    assert isinstance(create(f"replay:{recording}", "test"), ReplayModel)
    assert isinstance(create("human", "test"), HumanModel)
    options = ModelOptions(base_url="http://localhost:1/v1")
    model = create("openai:org/model:free", "test", options)
    assert isinstance(model, OpenAIModel) and model.name == "openai:org/model:free"
    (tmp_path / "own_models.py").write_text("def make(argument, role, options):\n    return (argument, role)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert create("own_models.make:x:y", "repair") == ("x:y", "repair")


@pytest.mark.parametrize(
    "spec", ["", "gpt-5", "replay:", "human:x", "anthropic:claude", "no.such.module:x", "os.nope:x"]
)
def test_an_unknown_specification_names_the_choices(spec: str) -> None:
    with pytest.raises(UsageError, match=r"openai:MODEL, replay:FILE or human"):
        create(spec, "test")


def test_one_recording_serves_both_roles(tmp_path: Path) -> None:
    both = {"role": "assistant", "content": "for whoever asks"}
    path = lines(tmp_path / "r.jsonl", {**ONE, "role_name": "test"}, {**TWO, "role_name": "repair"}, both)
    test, repair = ReplayModel(path, "test"), ReplayModel(path, "repair")
    assert [test.complete([], []).message for _ in range(2)] == [ONE, both]
    first = repair.complete([], [])
    assert (first.message, first.finish_reason) == (TWO, "tool_calls")
    second = repair.complete([], [])
    assert (second.message, second.finish_reason) == (both, "stop")
    with pytest.raises(ModelError, match=r"holds 2 replies for the role 'repair', all used up;.*\.$"):
        repair.complete([], [])


def test_a_wrapped_message_carries_how_it_ended(tmp_path: Path) -> None:
    usage = {"input_tokens": 9, "cached_tokens": 3, "output_tokens": 2, "cost": 0.5, "unknown": 1}
    path = lines(tmp_path / "r.jsonl", {"message": ONE, "finish_reason": "length", "usage": usage, "model": "m1"})
    reply = ReplayModel(path, "test").complete([], [])
    assert (reply.message, reply.finish_reason, reply.model) == (ONE, "length", "m1")
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.cost) == (9, 3, 0.5)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        ("", "no reply for the role 'test'"),
        ('{"role": "assistant", "role_name": "repair"}\n', "no reply for the role 'test'"),
        ("not json\n{}\n", "line 1"),
        ('{"role": "user", "content": "x"}\n', "no assistant message"),
        ('{"message": "x"}\n', "no assistant message"),
    ],
)
def test_a_bad_recording_is_known_before_anything_starts(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "r.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=words):
        ReplayModel(path, "test")


def test_a_person_types_the_actions() -> None:
    typed = io.StringIO(
        "\n/nonsense\necho hi \\\n| cat\n/bash\nfor x in 1 2\ndo echo $x; done\n.\n/check\n/submit done, really\n"
    )
    shown = io.StringIO()
    human = HumanModel(Terminal(typed, shown), "repair")
    tools = ToolSet({"bash": Bash, "check": Check, "submit": Submit})
    messages: list[dict[str, Any]] = [{"role": "system", "content": "SYS"}, {"role": "user", "content": "ISSUE"}]
    actions = []
    for _ in range(4):
        reply = human.complete(messages, tools.schemas)
        actions.append(tools.parse(reply.calls[0]).arguments)
        messages += [reply.message, {"role": "tool", "content": f"RESULT{len(actions)}"}]
    assert actions == [
        Bash(command="echo hi \\\n| cat"),
        Bash(command="for x in 1 2\ndo echo $x; done"),
        Check(),
        Submit(reason="done, really"),
    ]
    text = shown.getvalue()
    assert [text.count(word) for word in ("SYS", "ISSUE", "RESULT1", "RESULT3", "RESULT4")] == [1, 1, 1, 1, 0]
    assert text.count("One action a turn") == 2  # at the start and for /nonsense
    assert text.count("  check        Have the hidden regression test run") == 2
    assert text.count("repair> ") == 6
    with pytest.raises(ModelError, match="input ended"):
        human.complete(messages, tools.schemas)


def test_a_person_submits_a_test_as_json() -> None:
    typed = io.StringIO('/submit_test {"nodes": ["a"], "contract": {}}\n/bin/echo hi\n')
    human = HumanModel(Terminal(typed, io.StringIO()), "test")
    schemas = ToolSet({"bash": Bash, "submit_test": SubmitTest}).schemas
    # A program's path is a command, not a tool.
    written = [json.loads(human.complete([], schemas).calls[0].arguments) for _ in range(2)]
    assert written == [{"nodes": ["a"], "contract": {}}, {"command": "/bin/echo hi"}]
