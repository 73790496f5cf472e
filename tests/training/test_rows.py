"""Turns become rows: exact prefixes, sampled tokens only, nothing lost without being counted."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from execcritic_scaffold.errors import UsageError
from execcritic_training.rows import IGNORED, Row, Span, Window, build_rows
from tests.training.making import logprob, record, sampled, turn


def test_five_tokens_by_hand() -> None:
    """Prompt 10 11, reply 12 13, stop token 2: exactly these labels, the first reply token and the stop token too."""
    (row,), counts = build_rows([sampled(([10, 11], [12, 13, 2]))])
    assert row.ids == [10, 11, 12, 13, 2]
    assert row.labels == [IGNORED, IGNORED, 12, 13, 2]
    assert row.logprobs == [logprob(12), logprob(13), logprob(2)]
    assert row.aligned(0.0) == [0.0, 0.0, logprob(12), logprob(13), logprob(2)]
    assert row.spans == [Span(0, 0, 2, 5)]
    assert (counts.turns, counts.sampled, counts.trained, counts.rows, counts.forks) == (1, 3, 3, 1, 0)


def test_tool_results_are_not_trained() -> None:
    (row,), _ = build_rows([sampled(([1, 2], [3, 9]), ([1, 2, 3, 9, 50, 51, 52], [4, 9]))])
    assert row.labels == [IGNORED, IGNORED, 3, 9, IGNORED, IGNORED, IGNORED, 4, 9]
    assert row.spans == [Span(0, 0, 2, 4), Span(1, 4, 7, 9)]


def test_a_stop_token_that_opens_the_next_message_is_trained_once() -> None:
    """The template's <user> (99) ends a reply and begins the next message."""
    (row,), _ = build_rows([sampled(([1], [5, 99]), ([1, 5, 99, 7, 8], [6, 99]))], stops={99})
    assert row.ids == [1, 5, 99, 7, 8, 6, 99]
    assert row.labels == [IGNORED, 5, 99, IGNORED, IGNORED, 6, 99]


def test_a_stop_token_that_is_not_among_the_ids_is_an_error() -> None:
    stripped = sampled(([1], [5]), ([1, 5, 99, 7], [6, 99]))
    with pytest.raises(UsageError, match=r"turn 0 .* no stop token"):
        build_rows([stripped], stops={99})
    cut_off = record(turn(0, [1], [5], finish="length"))
    assert build_rows([cut_off], stops={99})[1].trained == 1


def test_a_rewritten_conversation_begins_a_new_row() -> None:
    """The second prompt no longer holds what was thought in the first turn (7 7)."""
    rows, counts = build_rows(
        [sampled(([1, 2], [7, 7, 3, 9]), ([1, 2, 3, 9, 5], [4, 9]), ([1, 2, 3, 9, 5, 4, 9, 6], [8]))]
    )
    assert [row.ids for row in rows] == [[1, 2, 7, 7, 3, 9], [1, 2, 3, 9, 5, 4, 9, 6, 8]]
    assert [row.trained for row in rows] == [4, 3]
    assert rows[1].labels == [IGNORED] * 5 + [4, 9, IGNORED, 8]
    assert counts.forks == 1 and counts.trained == counts.sampled == 7


def test_the_same_text_in_other_tokens_is_a_rewrite() -> None:
    """Sampled as two tokens (40 41), rendered back as one (42): training the one would train what was never sampled."""
    rows, counts = build_rows([sampled(([1], [40, 41, 9]), ([1, 42, 9, 5], [4, 9]))])
    assert [row.ids for row in rows] == [[1, 40, 41, 9], [1, 42, 9, 5, 4, 9]] and counts.forks == 1
    assert rows[1].labels == [IGNORED] * 4 + [4, 9]


def test_a_whole_prompt_may_be_stored_instead_of_what_it_adds() -> None:
    whole = record(turn(0, [1, 2], [3]), turn(0, [1, 2, 3, 4], [5]), turn(2, [3, 4, 5, 6], [7]))
    (row,), counts = build_rows([whole])
    assert row.ids == [1, 2, 3, 4, 5, 6, 7] and counts.forks == 0
    assert bytes(row.mask) == bytes([0, 0, 1, 0, 1, 0, 1])


def test_a_mask_leaves_tokens_out_and_a_row_of_nothing_is_left_out() -> None:
    rows, counts = build_rows(
        [record(turn(0, [1], [2, 3], mask=[False, True])), record(turn(0, [1], [2], mask=[False]))]
    )
    assert [row.labels for row in rows] == [[IGNORED, IGNORED, 3]]
    assert rows[0].logprobs == [logprob(3)]
    assert (counts.without_label, counts.sampled, counts.trained, counts.tokens_left_out) == (1, 3, 1, 2)


LONG = sampled(([1, 2, 3], [4, 9]), ([1, 2, 3, 4, 9, 5, 6], [7, 9]), ([1, 2, 3, 4, 9, 5, 6, 7, 9, 8], [10, 9]))


def test_longer_than_the_window_dropped() -> None:
    rows, counts = build_rows([LONG, sampled(([1], [2]))], Window(11, "drop"))
    assert len(rows) == 1 and (counts.dropped, counts.tokens_left_out) == (1, 6)
    assert len(build_rows([LONG], Window(12, "drop"))[0]) == 1


def test_longer_than_the_window_cut() -> None:
    (row,), counts = build_rows([LONG], Window(8, "cut"))
    assert row.ids == [1, 2, 3, 4, 9, 5, 6, 7] and row.labels[-1] == 7
    assert row.logprobs == [logprob(4), logprob(9), logprob(7)]
    assert row.spans == [Span(0, 0, 3, 5), Span(1, 5, 7, 8)]
    assert (counts.cut, counts.tokens_left_out) == (1, 3)
    rows, counts = build_rows([LONG], Window(3, "cut"))  # nothing but prompt is left: NaN, were it trained
    assert rows == [] and (counts.cut, counts.without_label, counts.tokens_left_out) == (1, 1, 6)


def test_longer_than_the_window_split() -> None:
    rows, counts = build_rows([LONG], Window(7, "split"))
    assert [row.ids for row in rows] == [[1, 2, 3, 4, 9], [5, 6, 7, 9, 8, 10, 9]]
    assert rows[1].labels == [IGNORED, IGNORED, 7, 9, IGNORED, 10, 9]
    assert rows[1].spans == [Span(1, 0, 2, 4), Span(2, 4, 5, 7)]
    assert rows[0].logprobs == [logprob(4), logprob(9)] and rows[1].logprobs is None
    with pytest.raises(UsageError, match="was split"):
        rows[1].aligned(0.0)
    assert (counts.split, counts.tokens_left_out) == (1, 0)
    goes_on = record(turn(0, [1], [2], finish="length"), turn(2, [], [3, 4]))  # nothing stands between the two
    rows, counts = build_rows([goes_on], Window(2, "split"))
    assert [row.labels for row in rows] == [[IGNORED, 2], [IGNORED, 4]] and counts.tokens_left_out == 1
    rows, counts = build_rows([LONG], Window(4, "split"))  # the first turn fits nowhere
    assert [row.ids for row in rows] == [[5, 6, 7, 9], [8, 10, 9]] and counts.tokens_left_out == 2


def test_records_without_ids_are_refused() -> None:
    text = record(turn(0, [1], [2]).model_copy(update={"tokens": None, "untrainable": "none returned"}))
    with pytest.raises(UsageError, match=r"episode run/test, turn 0 has no token ids .*none returned"):
        build_rows([text])


tokens = st.lists(st.integers(0, 3), min_size=1, max_size=5)


@st.composite
def rewriting(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """Turns of an agent that rewrites its conversation now and then. Few ids, so that prefixes agree by chance."""
    turns: list[tuple[list[int], list[int]]] = []
    held: list[int] = []
    for _ in range(draw(st.integers(1, 6))):
        if turns and draw(st.booleans()):
            held = held[: draw(st.integers(0, len(held)))]
        prompt = held + draw(tokens)
        output = draw(tokens)
        turns.append((prompt, output))
        held = prompt + output
    return turns


@given(rewriting())
@settings(deadline=None)
def test_every_sampled_token_is_trained_once_behind_what_it_was_sampled_after(
    turns: list[tuple[list[int], list[int]]],
) -> None:
    rows, counts = build_rows([sampled(*turns)])
    spans = [(row, span) for row in rows for span in row.spans]
    assert [span.turn for _, span in spans] == list(range(len(turns)))
    for (row, span), (prompt, output) in zip(spans, turns, strict=True):
        assert row.ids[: span.output] == prompt
        assert row.ids[span.output : span.end] == output
    assert sum(row.trained for row in rows) == counts.trained == counts.sampled == sum(len(o) for _, o in turns)
    assert all(row.mask.count(1) == sum(s.end - s.output for s in row.spans) for row in rows)
    assert [p for row in rows for p in row.logprobs or ()] == [logprob(i) for _, output in turns for i in output]
    assert counts.forks == len(rows) - 1


@given(rewriting(), st.integers(1, 30), st.sampled_from(["drop", "cut", "split"]))
@settings(deadline=None)
def test_no_row_is_longer_than_the_window_or_trains_nothing(turns: list, size: int, rule: str) -> None:  # type: ignore[type-arg]
    whole, _ = build_rows([sampled(*turns)])
    rows, counts = build_rows([sampled(*turns)], Window(size, rule))  # type: ignore[arg-type]
    assert all(len(row.ids) <= size and row.trained and len(row.mask) == len(row.ids) for row in rows)
    assert counts.sampled - counts.trained == counts.tokens_left_out >= 0
    fitting = [row for row in whole if len(row.ids) <= size]
    assert all(row in rows for row in fitting)
    for row in rows:
        assert row.logprobs is None or len(row.logprobs) == row.trained
        assert _inside(row, whole)


def _inside(part: Row, rows: list[Row]) -> bool:
    """Whether a row's ids stand somewhere in one of the rows, with no label that is not there."""
    for row in rows:
        for start in range(len(row.ids) - len(part.ids) + 1):
            stop = start + len(part.ids)
            if row.ids[start:stop] == part.ids and all(
                a >= b for a, b in zip(row.mask[start:stop], part.mask, strict=True)
            ):
                return True
    return False
