"""Two runs of one failure have one signature; two different failures have two."""

from __future__ import annotations

import pytest

from execcritic_scaffold.normalise import location, normalise, signature
from execcritic_scaffold.outcome import Failure, Frame, NodeResult, Outcome


def failed(
    message: str = "assert 1 == 2", kind: str = "builtins.AssertionError", path: str = "tests/test_x.py",
    function: str = "test_x", line: int = 3, outcome: Outcome = Outcome.FAILED_ASSERT,
) -> NodeResult:  # fmt: skip
    frames = (Frame("/usr/lib/runner.py", 9, "run", False), Frame(path, line, function, True))
    return NodeResult("n", outcome, Failure((kind, "builtins.Exception"), message, frames, "text"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/testbed/pkg/core.py:3", "pkg/core.py:N"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("<X object at 0x7f3c2a10>", "<X object at 0xADDR>"),
        ("0x1f", "0x1f"),
        ("'/tmp/pytest-of-me/pytest-3/x0/a.txt'", "'TMP'"),
        ("/home/agent/.cache/x, then", "TMP, then"),
        ("2024-02-29T10:11:12.5+01:00 ok", "TIME ok"),
        ("2024-02-29 is no time", "2024-02-29 is no time"),
        ("took 0.53s and 12 ms", "took DURATION and DURATION"),
        ("pid=4711", "pid=N"),
        ("<Mock id='139912345678'>", "<Mock id=N>"),
        ("row id=42", "row id=42"),
        ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", "UUID"),
        ("assert 41 == 42", "assert 41 == 42"),
    ],
)
def test_normalise(text: str, expected: str) -> None:
    assert normalise(text) == expected
    assert normalise(expected) == expected


@pytest.mark.parametrize(
    "other",
    [
        failed(line=99),
        failed("2 == 1 assert"),
        failed("assert  1 ==\n2"),
    ],
)
def test_same_failure(other: NodeResult) -> None:
    assert signature(other) == signature(failed())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (failed(), failed("assert 1 == 3")),
        (failed(), failed(kind="builtins.ValueError")),
        (failed(), failed(function="helper")),
        (failed(), failed(path="pkg/core.py")),
        (failed(), failed(outcome=Outcome.FAILED_EXCEPTION)),
        (failed(), NodeResult("n", Outcome.PASSED)),
    ],
)
def test_another_failure(one: NodeResult, other: NodeResult) -> None:
    assert signature(one) != signature(other)


def test_what_changes_from_run_to_run_does_not_count() -> None:
    one = failed("assert {'a', 'b'} == <X at 0x7f00aa10> in /tmp/a1/x after 3 ms")
    two = failed("assert {'b', 'a'} == <X at 0x7f99bb20> in /tmp/b2/x after 4 ms")
    assert signature(one) == signature(two)


def test_a_message_that_was_cut_says_nothing_certain() -> None:
    assert signature(failed("1 ... 2")) == signature(failed("3 ... 4"))
    assert signature(failed("1 ... 2")) != signature(failed("1 2"))


def test_location_leaves_the_message_out() -> None:
    assert location(signature(failed("a"))) == location(signature(failed("b")))
    assert location(signature(failed())) != location(signature(failed(path="tests/test_y.py")))
