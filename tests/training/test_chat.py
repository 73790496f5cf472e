"""Calls in a reply's text, read without a model: what a template renders back must be what was written."""

from __future__ import annotations

import pytest

from execcritic_training.chat import Generated, answer


def said(text: str, *, tools: bool = True, finish: str = "stop") -> dict:  # type: ignore[type-arg]
    done = Generated([1], [2], [-0.5], text, finish, 3)
    choice: dict = answer({}, "m", done, tools, str)["choices"][0]  # type: ignore[type-arg]
    return choice


def test_a_call_keeps_its_arguments_as_they_were_written() -> None:
    choice = said(
        'I look.\n<tool_call>\n{"name": "bash", "arguments": {"command":  "ls \\u00e9",  "timeout": 1e3}}\n</tool_call>'
    )
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "bash", "arguments": '{"command":  "ls \\u00e9",  "timeout": 1e3}'}
    assert choice["message"]["content"] == "I look." and choice["finish_reason"] == "tool_calls"


def test_several_calls_have_ids_of_their_own() -> None:
    calls = said('<tool_call>{"name": "a", "arguments": {}}</tool_call>\n<tool_call>{"name": "b"}</tool_call>')[
        "message"
    ]
    assert [call["function"]["name"] for call in calls["tool_calls"]] == ["a", "b"] and calls["content"] == ""
    assert len({call["id"] for call in calls["tool_calls"]}) == 2


@pytest.mark.parametrize(
    "text",
    ["<tool_call>", '<tool_call>{"name": 1}</tool_call>', "<tool_call>{]}</tool_call>", "<tool_call>\n{" * 1000, "hi"],
)
def test_what_is_no_call_stays_text(text: str) -> None:
    assert said(text)["message"] == {"role": "assistant", "content": text}
    assert said(text)["finish_reason"] == "stop"


def test_a_cut_off_reply_stays_cut_off() -> None:
    choice = said('<tool_call>{"name": "a", "arguments": {}}</tool_call> and', finish="length")
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in said('<tool_call>{"name": "a"}</tool_call>', tools=False)["message"]
