"""Conversations and token sequences as what they add to the turn before, so that an episode takes O(n) on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def shared(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many items the two begin with in common. Slices are compared in C: a sequence that grew costs one look."""
    if after[: len(before)] == before:
        return len(before)
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
