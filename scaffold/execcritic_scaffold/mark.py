"""One place in a Python text that a reviewer should know of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mark:
    """`code` is stable, `text` says what is there; the two together are what is counted. `line` is 1-based."""

    code: str
    text: str
    line: int
    hard: bool
