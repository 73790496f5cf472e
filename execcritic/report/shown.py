"""Values of a run in the form that a page shows: outputs, cut texts, counts, times, costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[PX^_][^\x1b]{0,4096}\x1b\\|[ -/]{0,8}[0-~])"
)


def output(value: Any) -> str:
    """What a command printed: without a terminal's escape sequences, with plain line ends."""
    return _TERMINAL.sub("", str(value).replace("\r\n", "\n"))


def cut(text: str, most: int, whole: str) -> str:
    """At most about `most` characters, head and tail, with a line between them that names where the `whole` is."""
    if len(text) <= most:
        return text
    tail = most // 3
    left = len(text) - most
    end = text[-tail:] if tail else ""
    return f"{text[: most - tail]}\n[… {left} characters left out; whole in {whole} …]\n{end}"


def pairs(value: Any) -> list[tuple[Any, Any]]:
    """The items of a JSON object, none where it is something else."""
    return list(value.items()) if isinstance(value, Mapping) else []


def each(value: Any) -> list[Any]:
    """The elements of a JSON array, none where it is something else."""
    return list(value) if isinstance(value, list | tuple) else []


def number(value: Any) -> float | None:
    """A finite number, None for anything else."""
    real = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
    return value if real else None


def duration(value: Any) -> str:
    """Seconds in words."""
    seconds = number(value)
    if seconds is None:
        return "unknown"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def money(value: Any) -> str:
    """Dollars, or that they are not known."""
    dollars = number(value)
    return "unknown cost" if dollars is None else f"${dollars:.4f}" if 0 < dollars < 0.1 else f"${dollars:.2f}"


def thousands(value: Any) -> str:
    """A count with separators."""
    found = number(value)
    return "unknown" if found is None else f"{found:,.0f}"
