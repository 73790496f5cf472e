"""Real checkouts and environments from the cache that the benchmarks share, whatever cache a test has set."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from _realset import Unavailable, cache

SHARED_CACHE = cache().parent
Argument = TypeVar("Argument")
Result = TypeVar("Result")


def fetched(make: Callable[[Argument], Result], argument: Argument) -> Result:
    """`make(argument)` with the shared cache; skips the test where a package index cannot be had."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("EXECCRITIC_CACHE", str(SHARED_CACHE))
        try:
            return make(argument)
        except Unavailable as reason:
            pytest.skip(str(reason))
