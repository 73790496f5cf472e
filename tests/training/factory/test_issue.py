"""Issues: from the assertion's evidence, without names of tests or lines of the fix."""

from __future__ import annotations

from execcritic_scaffold.outcome import Failure, Frame, NodeResult, Outcome
from execcritic_training.factory import issue, split
from execcritic_training.factory.issue import template, write
from execcritic_training.factory.operators import COMMON, FAMILIES

TEST = b"""import pytest
from pack import count, make

def helper():
    return make(1)

class TestCount:
    def test_the_count(self):
        items = []
        items.append("a")
        unrelated = count("zzz")
        wanted = 1
        assert count(items, helper()) == wanted

    def test_loop(self):
        for text, size in [("a", 1), ("bb", 2)]:
            assert count(text) == size

    def test_error(self):
        with pytest.raises(ValueError):
            count(None)

    def test_inside(self):
        made = make(2)
        self.assertIn(3, made)

    @pytest.mark.parametrize("text, size", [("a", 1)])
    def test_given(self, text, size):
        assert count(text) == size
"""


def failing(name: str, line: int, message: str, kind: str = "builtins.AssertionError") -> dict[str, NodeResult]:
    outcome = Outcome.FAILED_ASSERT if kind.endswith("AssertionError") else Outcome.FAILED_EXCEPTION
    frames = (Frame("t.py", line, name, True), Frame("pack.py", 3, "count", True))
    node = f"t.py::TestCount::{name}"
    return {node: NodeResult(node, outcome, Failure((kind,), message, frames, ""))}


def test_code_that_stands_alone_with_what_came_and_what_should() -> None:
    text = write(failing("test_the_count", 13, "assert 2 == 1"), {"t.py": TEST}, {"test_the_count"}, template)
    assert text is not None
    assert text.startswith("`count` gives a wrong result\n")
    assert "from pack import count, make\n" in text
    assert "items = []\nitems.append('a')\nwanted = 1\ncount(items, helper())\n" in text
    assert "unrelated" not in text
    assert "assert" not in text
    assert "2 == 1" in text
    assert "should give `wanted`" in text


def test_a_loop_and_an_exception_and_a_parameter() -> None:
    loop = write(failing("test_loop", 17, "assert 3 == 2"), {"t.py": TEST}, (), template)
    assert loop is not None
    assert "for (text, size) in [('a', 1), ('bb', 2)]:\n    count(text)\n" in loop.replace(
        "for text, size in", "for (text, size) in"
    )
    error = write(failing("test_error", 20, "DID NOT RAISE <class 'ValueError'>"), {"t.py": TEST}, (), template)
    assert error is not None
    assert "accepts what it should refuse" in error
    assert "It should raise `ValueError`." in error
    given = write(failing("test_given", 29, "assert 3 == 1\n +  where 3 = count('a')"), {"t.py": TEST}, (), template)
    assert given is not None
    assert "where 3 = count('a')" in given
    assert "The two sides shown should be the same." in given


def test_what_a_unittest_looks_at() -> None:
    text = write(failing("test_inside", 25, "3 not found in [2]"), {"t.py": TEST}, (), template)
    assert text is not None
    assert "`make` gives a wrong result" in text
    assert "made = make(2)\n3 in made\n" in text
    assert "The last expression should be true." in text


def test_an_exception_of_the_package_is_named() -> None:
    text = write(failing("test_loop", 17, "bad", "pack.PackError"), {"t.py": TEST}, (), template)
    assert text is not None
    assert text.startswith("`count` fails with pack.PackError\n")


def test_what_leaks_is_not_written() -> None:
    secret = issue.secrets(["t.py::TestCount::test_loop[x]"], [b"    return len(text)", b"else:"])
    assert secret == {"TestCount", "test_loop", "return len(text)"}
    evidence = failing("test_loop", 17, "assert 3 == 2 in return  len(text)")
    assert write(evidence, {"t.py": TEST}, secret, template) is None
    # A model that says too much is passed over for the template.
    asked = []

    def model(prompt: str) -> str:
        asked.append(prompt)
        return "See test_loop."

    text = write(failing("test_loop", 17, "assert 3 == 2"), {"t.py": TEST}, secret, issue.by_model(model))
    assert text is not None
    assert text.startswith("`count`")
    assert "count(text)" in asked[0]


def test_addresses_do_not_differ_from_run_to_run() -> None:
    text = write(failing("test_loop", 17, "assert <a at 0x7f12ab34cd> == 2"), {"t.py": TEST}, (), template)
    assert text is not None
    assert "<a at 0x...>" in text


def test_splits_share_nothing() -> None:
    for seed in range(20):
        train, test = (split.families(FAMILIES, side, seed) for side in ("train", "test"))
        assert not set(train) & set(test)
        assert {*train, *test} == FAMILIES.keys()
        assert len(test) == 7
        assert len(COMMON & set(test)) == 4
    sides = [split.of_function(f"p/m.py::f{n}", 0) for n in range(400)]
    assert 60 < sides.count("test") < 140
    assert sides == [split.of_function(f"p/m.py::f{n}", 0) for n in range(400)]
