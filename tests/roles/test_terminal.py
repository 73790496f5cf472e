"""What a person is shown and asked, without a terminal: the text, the form, the words before a command."""

from __future__ import annotations

import io
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execcritic_roles.approval import Approval
from execcritic_roles.models.form import Form
from execcritic_roles.models.protocol import Quit
from execcritic_roles.printable import one_line, printable
from execcritic_roles.terminal import Terminal
from execcritic_roles.tools import SubmitTest, ToolSet

NASTY = st.text(st.characters() | st.sampled_from("\x1b\x07\r\n\x7f\x9b\u202e\u200b\u2028\ufeff\ud800\U000e0041"))


def visible(text: str, but: str = "") -> bool:
    return not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in but for c in text)


class TestPrintable:
    @given(NASTY)
    def test_nothing_commands_or_hides(self, text: str) -> None:
        assert visible(printable(text), but="\t\n")
        assert printable(printable(text)) == printable(text)

    @given(NASTY, st.integers(1, 50))
    def test_one_short_line(self, text: str, most: int) -> None:
        line = one_line(text, most)
        assert visible(line) and len(line) <= most

    def test_what_is_seen(self) -> None:
        assert printable("naïve 日本 \x1b[2J\u202e") == r"naïve 日本 \x1b[2J\u202e"
        assert one_line("for x\n    in  y", 100) == "for x in  y"
        assert one_line("x" * 10**6, 10) == "x" * 9 + "…"


def terminal(typed: str) -> tuple[Terminal, io.StringIO]:
    shown = io.StringIO()
    return Terminal(io.StringIO(typed), shown), shown


class TestForm:
    SCHEMA = ToolSet({"submit_test": SubmitTest}).schemas[0]["function"]["parameters"]

    def test_what_was_given_is_kept(self) -> None:
        contract = ["merge", "a span", "", "the span", "one", "two", "", "", ""]
        again = ["", "merge_spans", *[""] * 6]
        person, shown = terminal("\n".join(["a::b", "", *contract, "", *again]) + "\n")
        form = Form(person)
        first = form.fill(self.SCHEMA)
        assert first == {
            "nodes": ["a::b"],
            "contract": {
                "entrypoint": "merge",
                "trigger": "a span",
                "expected_output": "the span",
                "issue_evidence": ["one", "two"],
                "alternative_hypotheses": [],
                "non_assertions": [],
                "test_nodes": ["a::b"],
            },
        }
        assert "Something has to be said" in shown.getvalue()
        second = form.fill(self.SCHEMA)
        assert second == {**first, "contract": {**first["contract"], "entrypoint": "merge_spans"}}


class TestApproval:
    def ask(self, typed: str, *commands: str, declined: dict[str, list[str]] | None = None):
        person, shown = terminal(typed)
        notes: list[str] = []
        approval = Approval(person, "test", lambda kind, data: notes.append(data["answer"]), declined)
        return [approval(command, 5.0) for command in commands], notes, shown.getvalue()

    def test_the_answers(self) -> None:
        answers, notes, shown = self.ask("\nwhat\ny\nNO bad idea\nn\n\nview\nalways\n", *"abcdef")
        assert answers == [None, "bad idea", "", None, None, None]
        assert notes == ["yes", "no", "no", "always"]
        assert shown.count("The Test agent wants to run (at most 5 s):\n    a\n") == 1
        assert shown.count("    d\n") == 2

    @pytest.mark.parametrize("typed", ["q\n", "", "n\n"])
    def test_leaving(self, typed: str) -> None:
        with pytest.raises(Quit):
            self.ask(typed, "a")

    def test_a_no_is_remembered_and_a_yes_is_not(self) -> None:
        digest = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"  # of "a"
        answers, notes, _ = self.ask("y\ny\n", "a", "a", "b", declined={digest: ["why"]})
        assert (answers, notes) == (["why", None, None], ["yes", "yes"])


def test_questions_do_not_interleave() -> None:
    """Two threads ask at once: each question stands whole, and what others say is held back meanwhile."""
    log: list[str] = []

    @contextmanager
    def still() -> Iterator[None]:
        log.append("(")
        yield
        log.append(")")

    class Slow(io.StringIO):
        def readline(self, *_: object) -> str:
            waiting.wait(0.05)
            return "y\n"

    waiting = threading.Event()
    person = Terminal(Slow(), io.StringIO(), still)

    def asks() -> None:
        Approval(person, "test", lambda *_: log.append("noted"))("x", 1)

    threads = [threading.Thread(target=asks) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    order = [word for word in log if word != "noted"]
    assert order == ["(", ")"] * 8
