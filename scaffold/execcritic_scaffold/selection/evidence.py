"""Quotes: whether words that somebody says are the issue's are the issue's, word for word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from execcritic_scaffold.contract import fold
from execcritic_scaffold.selection.score import Signal

WORDS = 3
"""Fewer words can be found in any text and prove nothing."""
_WORD = re.compile(r"\w")


def quoted(quote: str, issue: str) -> bool:
    """Whether the quote stands in the issue: white space folded, whole words, and long enough to say something (a
    shorter one only where it is the whole issue)."""
    wanted, text = fold(quote), fold(issue)
    if not wanted or (len(wanted.split()) < WORDS and wanted != text):
        return False
    before = r"(?<!\w)" if _WORD.match(wanted[0]) else ""
    after = r"(?!\w)" if _WORD.match(wanted[-1]) else ""
    return re.search(f"{before}{re.escape(wanted)}{after}", text) is not None


def evidence(contract: Mapping[str, Any] | None, issue: str) -> Signal | None:
    """The share of a contract's evidence that the issue itself gives, and not only the repository; None without a
    contract. Observations: the quotes."""
    quotes = contract.get("issue_evidence") if contract else None
    if not isinstance(quotes, list) or not quotes:
        return None
    return Signal(sum(isinstance(q, str) and quoted(q, issue) for q in quotes) / len(quotes), len(quotes))
