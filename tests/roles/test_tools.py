"""What the model is told of its tools, what it sees of a command, and when it goes round in circles."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from execcritic_roles.models.protocol import ToolCall
from execcritic_roles.observation import cut
from execcritic_roles.repetition import RepetitionDetector, Signal
from execcritic_roles.tools import Bash, SubmitTest, ToolInputError, ToolSet

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
TOOLS = ToolSet({"bash": Bash, "submit_test": SubmitTest})


def test_schemas_stand_alone() -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            assert not {"$ref", "$defs"} & value.keys()
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(json.loads(json.dumps(TOOLS.schemas)))
    bash, submit = (schema["function"] for schema in TOOLS.schemas)
    assert bash["parameters"]["required"] == ["command"] and "working directory" in bash["description"]
    properties = submit["parameters"]["properties"]
    assert submit["parameters"]["required"] == ["nodes", "contract"]
    assert set(properties) == {"nodes", "contract", "companions", "superseded", "unseen"}
    assert set(properties["contract"]["required"]) == {
        "entrypoint",
        "trigger",
        "expected_output",
        "issue_evidence",
        "alternative_hypotheses",
        "non_assertions",
        "test_nodes",
    }
    assert all(not isinstance(p.get("title"), str) for p in properties.values())


def test_further_fields_of_the_contract_are_kept() -> None:
    contract = dict.fromkeys(("entrypoint", "trigger", "expected_output"), "x")
    contract |= {"issue_evidence": ["q"], "alternative_hypotheses": [], "non_assertions": [], "test_nodes": ["n"]}
    call = ToolCall("1", "submit_test", json.dumps({"nodes": ["n"], "contract": {**contract, "confidence": 0.5}}))
    arguments = TOOLS.parse(call).arguments
    assert isinstance(arguments, SubmitTest) and arguments.contract.model_dump()["confidence"] == 0.5


@given(st.text() | JSON.map(json.dumps), st.sampled_from(["bash", "submit_test", "other"]))
def test_any_arguments_are_an_action_or_a_bounded_explanation(arguments: str, name: str) -> None:
    try:
        action = TOOLS.parse(ToolCall("1", name, arguments))
    except ToolInputError as error:
        assert 0 < len(str(error)) < 1500
    else:
        assert action.call.name == name


@given(st.text(max_size=300), st.integers(2, 100), st.integers(0, 3))
def test_cut_keeps_both_ends_and_counts_the_rest(text: str, most: int, dropped: int) -> None:
    shown = cut(text, most, dropped)
    if len(text) <= most and not dropped:
        assert shown == text
        return
    head, _, rest = shown.partition("\n[… ")
    missing, tail = rest.split(" characters (", 1)[0], rest.split(" …]\n", 1)[1]
    if "\n[… " not in text and " …]\n" not in text:
        assert text.startswith(head) and text.endswith(tail)
        assert len(head) + int(missing) + len(tail) == len(text)


def signals(repeats: int, *turns: tuple[str, str]) -> list[Signal]:
    detector = RepetitionDetector(repeats)
    return [detector.push(*turn) for turn in turns]


def test_what_differs_without_meaning_is_no_difference() -> None:
    same = [("pytest", f"FAILED x at 0x7f{n}a\n1 failed in 0.{n}s") for n in range(3)]
    assert signals(3, *same)[-1] is Signal.NOTICE
    assert signals(3, ("ls  -l", "a\nb"), ("ls -l", "a b"), ("ls -l ", " a  b"))[-1] is Signal.NOTICE


def test_what_differs_is_a_difference() -> None:
    for outcomes in (["1", "2", "3"], ["10 %", "20 %", "30 %"], ["3.5s elapsed", "4.5s elapsed", "5.5s elapsed"]):
        assert signals(3, *(("sleep 1", outcome) for outcome in outcomes)) == [Signal.NONE] * 3
    assert signals(3, ("a", "x"), ("a", "x"), ("a", "y"), ("a", "x"), ("a", "x")) == [Signal.NONE] * 5


def test_another_action_ends_the_count() -> None:
    a, b = ("a", "x"), ("b", "x")
    assert signals(3, a, a, a, b, a, a, a).count(Signal.NOTICE) == 2
    assert Signal.STOP not in signals(3, a, a, a, a, b, a, a, a, a)


@given(st.lists(st.integers(), min_size=60, max_size=60, unique=True))
def test_no_false_alarm(turns: list[int]) -> None:
    assert set(signals(2, *((str(turn), "") for turn in turns))) == {Signal.NONE}
