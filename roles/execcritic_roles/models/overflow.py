"""Recognising that a conversation no longer fits the context window, whatever server says so.

By structure where a server gives one, by its wording where it does not. The forms known here:

    OpenAI      400 {"error": {"code": "context_length_exceeded", …}}
    vLLM        400 "This model's maximum context length is 4096 tokens. However, …",
                    "The decoder prompt (length 5000) is longer than the maximum model length of 4096."
    llama.cpp   400 {"error": {"type": "exceed_context_size_error", …}}, earlier a 500 "context size has been exceeded"
    SGLang      400 "The input (5000 tokens) is longer than the model's context length (4096 tokens)."
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"})
_TEXT = re.compile(
    r"maximum context length"
    r"|maximum model length"
    r"|longer than the model'?s context length"
    r"|exceeds? the (?:model'?s )?(?:available |maximum )?context (?:size|length|window)"
    r"|context (?:size|length|window) (?:has been |was )?exceeded"
    r"|context[ _]length[ _]exceeded"
    r"|prompt is too long"
    r"|input token count .{0,40}exceeds the maximum",
    re.IGNORECASE,
)
_STATUSES = frozenset({400, 413, 422, 500})


def is_overflow(status: int, error: Mapping[str, Any], text: str) -> bool:
    """True for an answer that refuses a conversation for its length. `error` is the body's error object, or empty."""
    if status not in _STATUSES:
        return False
    return any(error.get(key) in _CODES for key in ("code", "type")) or bool(_TEXT.search(text))
