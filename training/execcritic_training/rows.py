"""Turns become training rows: by exact prefixes of token ids, never by tokenising text again.

A turn whose prompt begins with everything its row holds continues that row; any other (the conversation was rewritten,
outputs were elided, the template dropped earlier reasoning, a reply decodes to text that encodes differently) begins a
new row with its whole prompt. So each sampled token is trained exactly once, behind the very tokens it was sampled
after. Trained are sampled tokens only, the stop token among them; prompts, tool results and what a template adds are
not. A row longer than the window is dealt with by a rule that the caller names, and everything left out is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

from execcritic_scaffold.errors import UsageError
from execcritic_training.records import Record, require_tokens

IGNORED = -100
"""The label of a position that is not trained, as trainers expect it."""

Rule = Literal["drop", "cut", "split"]


@dataclass(frozen=True)
class Span:
    """Where a turn lies in a row: its new prompt tokens from `start`, its sampled tokens in [output, end)."""

    turn: int
    start: int
    output: int
    end: int


@dataclass
class Row:
    """One training sequence. `mask` has a byte for each id, 1: sampled and trained.

    `logprobs` are those of the trained tokens, in order: nothing stands in for the others. None: they do not belong to
    this context (see `Window`).
    """

    record: str
    ids: list[int] = field(default_factory=list)
    mask: bytearray = field(default_factory=bytearray)
    logprobs: list[float] | None = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    @property
    def trained(self) -> int:
        return self.mask.count(1)

    @property
    def labels(self) -> list[int]:
        """Aligned with `ids`: the id where it is trained, else IGNORED. The loss compares the label at position t with
        what the model predicts at t - 1; models of `transformers` shift by themselves."""
        return [token if trained else IGNORED for token, trained in zip(self.ids, self.mask, strict=True)]

    def aligned(self, fill: float) -> list[float]:
        """Log-probabilities aligned with `ids`, `fill` where nothing was sampled. Raises UsageError without them."""
        if self.logprobs is None:
            raise UsageError(
                f"A row of episode {self.record} has no log-probabilities: it was split; use the rule drop or cut."
            )
        rest = iter(self.logprobs)
        return [next(rest) if trained else fill for trained in self.mask]


@dataclass(frozen=True)
class Window:
    """The longest row in tokens, and what is done with longer ones.

    drop: they are left out. cut: what lies behind the window is left out; the rest is exact. split: pieces of whole
    turns that fit; a piece after the first no longer sees the beginning, so its log-probabilities are gone: for
    supervised training only. A turn that is longer than the window by itself is left out.
    """

    tokens: int
    rule: Rule


@dataclass
class Counts:
    """What became of the turns. `forks`: turns that began a new row because their prompt was no continuation."""

    turns: int = 0
    sampled: int = 0
    trained: int = 0
    rows: int = 0
    forks: int = 0
    without_label: int = 0
    """Rows without a trained token, left out: they would make the loss NaN."""
    dropped: int = 0
    cut: int = 0
    split: int = 0
    tokens_left_out: int = 0
    """Sampled tokens that are in no row for one of these reasons, or that the record's mask excludes."""

    def add(self, other: Counts) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


def build_rows(
    records: Iterable[Record], window: Window | None = None, stops: Collection[int] = ()
) -> tuple[list[Row], Counts]:
    """The rows of all records, and what became of their turns.

    `stops` are the ids that end a reply: where they are given, a reply that ended by itself without one is an error,
    because its end would never be trained. Raises UsageError for that, and for a record without ids (see
    `records.require_tokens`).
    """
    rows: list[Row] = []
    counts = Counts()
    for record in records:
        require_tokens(record)
        if stops and not record.sampling.stop:
            _check_stops(record, stops)
        for row in _merge(record, counts):
            rows += fitting(row, window, counts)
    counts.rows = len(rows)
    counts.trained = sum(row.trained for row in rows)
    counts.tokens_left_out = counts.sampled - counts.trained
    return rows, counts


def _merge(record: Record, counts: Counts) -> list[Row]:
    rows: list[Row] = []
    row = Row(record.id)
    held = 0
    for number, turn in enumerate(record.turns):
        tokens = turn.tokens
        assert tokens is not None
        tail = tokens.prompt
        if tokens.keep < held or not rows:
            prompt = row.ids[: tokens.keep] + tokens.prompt
            if rows and prompt[:held] == row.ids:  # kept less than it could have
                tail = prompt[held:]
            else:
                counts.forks += bool(rows)
                row, tail = Row(record.id), prompt
                rows.append(row)
        _extend(row, number, tail, tokens.output, tokens.logprobs, tokens.mask)
        held = len(row.ids)
        counts.turns += 1
        counts.sampled += len(tokens.output)
    return rows


def _extend(
    row: Row,
    turn: int,
    prompt: Sequence[int],
    output: Sequence[int],
    logprobs: Sequence[float],
    mask: list[bool] | None,
) -> None:
    assert row.logprobs is not None
    start = len(row.ids)
    row.ids += prompt
    row.ids += output
    row.mask += bytes(len(prompt))
    row.mask += b"\1" * len(output) if mask is None else bytes(mask)
    row.logprobs += logprobs if mask is None else [p for p, trained in zip(logprobs, mask, strict=True) if trained]
    row.spans.append(Span(turn, start, start + len(prompt), len(row.ids)))


def fitting(row: Row, window: Window | None, counts: Counts) -> list[Row]:
    """The row as the window allows it, without pieces that train nothing; what is left out is counted."""
    pieces = [row]
    if window is not None and len(row.ids) > window.tokens:
        if window.rule == "drop":
            counts.dropped += 1
            return []
        if window.rule == "cut":
            counts.cut += 1
            pieces = [_piece(row, row.spans, window.tokens)]
        else:
            counts.split += 1
            pieces = _split(row, window.tokens)
    kept = [piece for piece in pieces if 1 in piece.mask]
    counts.without_label += len(pieces) - len(kept)
    return kept


def _split(row: Row, size: int) -> list[Row]:
    groups: list[list[Span]] = []
    for span in row.spans:
        if span.end - span.start > size:
            groups.append([])  # a turn that fits nowhere; what follows does not follow what came before
        elif groups and groups[-1] and span.end - groups[-1][0].start <= size:
            groups[-1].append(span)
        else:
            groups.append([span])
    return [_piece(row, spans, size) for spans in groups if spans]


def _piece(row: Row, spans: Sequence[Span], size: int) -> Row:
    start, end = spans[0].start, min(spans[0].start + size, spans[-1].end)
    piece = Row(row.record, row.ids[start:end], row.mask[start:end])
    if start:
        piece.mask[0] = 0  # nothing stands before it that could predict it
    piece.logprobs = None if start or row.logprobs is None else row.logprobs[: piece.trained]
    for span in spans:
        if span.start < end:
            moved = (min(at, end) - start for at in (span.start, span.output, span.end))
            piece.spans.append(Span(span.turn, *moved))
    return piece


def _check_stops(record: Record, stops: Collection[int]) -> None:
    for number, turn in enumerate(record.turns):
        assert turn.tokens is not None
        if turn.finish in ("stop", "tool_calls") and turn.tokens.output[-1] not in stops:
            raise UsageError(
                f"Episode {record.id}, turn {number} ended by itself, but its last token "
                f"({turn.tokens.output[-1]}) is no stop token, so that the end of a reply would not be trained; have "
                "the server return the stop token, or correct the list."
            )
