"""Numbers in sentences."""

from __future__ import annotations


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun in the right form; `plural` where that is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
