"""Which functions and which families are for training and which for tests: neither is ever shared.

A function belongs to one side by its name, a family by its place in an order that the seed gives, and a function is
mutated with the families of its own side only. So no pair has to be thrown away.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection

from execcritic_training.factory.operators import COMMON

TEST_SHARE = 0.25
"""Of functions, and of families, for tests."""


def of_function(key: str, seed: int) -> str:
    """ "train" or "test", from the function's key (package, path and name)."""
    return "test" if _digest(f"{seed}:function:{key}") < TEST_SHARE else "train"


def families(every: Collection[str], split: str, seed: int) -> tuple[str, ...]:
    """The families of one side, sorted. About a quarter is for tests, of those that most functions have and of others:
    else a seed may leave the tests with next to nothing."""
    held: set[str] = set()
    for group in (COMMON & set(every), set(every) - COMMON):
        order = sorted(group, key=lambda name: (_digest(f"{seed}:family:{name}"), name))
        held.update(order[: math.ceil(len(order) * TEST_SHARE)])
    return tuple(sorted(held if split == "test" else set(every) - held))


def _digest(text: str) -> float:
    """A number from 0 to 1 that only the text decides."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
