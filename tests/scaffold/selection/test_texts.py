"""Quotes and pinned literals."""

from __future__ import annotations

import pytest

from execcritic_scaffold.bundle import BundleRecord, FrozenBundle, NodeRecord, blob_of
from execcritic_scaffold.selection.evidence import evidence, quoted
from execcritic_scaffold.selection.pinning import demanded, pinning
from execcritic_scaffold.selection.score import Signal

ISSUE = "`mean([])` raises ZeroDivisionError;\n  it should return 0.\nNot None."


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("it should return 0.", True),
        ("ZeroDivisionError; it should", True),
        ("it  should\nreturn 0", True),
        ("`mean([])` raises ZeroDivisionError", True),
        ("It should return 0", False),
        ("t should return 0", False),
        ("it should retur", False),
        ("should return", False),
        ("", False),
        ("it should return None.", False),
    ],
)
def test_a_quote_is_word_for_word(quote: str, found: bool) -> None:
    assert quoted(quote, ISSUE) is found


def test_the_whole_of_a_short_issue_is_a_quote() -> None:
    assert quoted("it hangs", " it hangs\n")


def test_evidence_is_the_share_that_the_issue_gives() -> None:
    contract = {"issue_evidence": ["it should return 0.", "from the docstring only", 3]}
    assert evidence(contract, ISSUE) == Signal(1 / 3, 3)
    assert evidence(None, ISSUE) is None
    assert evidence({"issue_evidence": []}, ISSUE) is None


TEST = b'''import pytest
from stats import mean


def test_it(tmp_path):
    """A docstring is no demand."""
    given = "alpha beta"
    assert mean([]) == 0, "a message of the test's own"
    assert mean(["input text"]) == ["gamma delta", "alpha", 0.123456]
    with pytest.raises(ValueError, match="wrong sort of mean"):
        mean(given)


def test_companion():
    assert mean([1]) == "nobody asks"
'''


def bundle(text: bytes) -> FrozenBundle:
    file, empty = blob_of(text), blob_of(b"")
    fails = NodeRecord(kind="reproducing", tier="assertion", base_outcome="FAILED_ASSERT", signature="")
    passes = NodeRecord(kind="companion", tier="passes", base_outcome="PASSED", signature="")
    record = BundleRecord(
        harness="0", created="", base_tree="0" * 40, base_commit=None, delta=None, environment_files={},
        issue_sha256="", author="agent", runner="pytest", runner_options={}, files={"tests/test_m.py": file},
        readonly=[], nodes={"tests/test_m.py::test_it": fails, "tests/test_m.py::test_companion": passes},
        superseded=[], contract=None, environment={}, guard={}, evidence=[], findings=[], test_patch=empty,
    )  # fmt: skip
    return FrozenBundle(record, {file.sha256: text, empty.sha256: b""})


def test_what_a_test_demands_literally() -> None:
    assert demanded(bundle(TEST)) == {
        "gamma delta": False,
        "alpha": True,
        "0.123456": False,
        "wrong sort of mean": False,
    }
    assert demanded(bundle(b"def broken(:\n")) == {}


def test_pinning_is_what_comes_from_nowhere() -> None:
    literals = {"gamma delta": False, "alpha": True, "0.123456": False, "wrong sort of mean": False}
    assert pinning(literals, {"alpha", "gamma delta"}) == Signal(0.75, 4)
    assert pinning(literals, ()) == Signal(1.0, 4)
    assert pinning({}, ()) is None
