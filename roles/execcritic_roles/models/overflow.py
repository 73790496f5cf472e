"""Recognising that a conversation no longer fits the context window, whatever server says so.

By structure where a server gives one, by its wording where it does not. The forms known here:

    OpenAI      400 {"error": {"code": "context_length_exceeded", …}}
    vLLM        400 {"error": {"param": "input_tokens", …}} "You passed 5000 input tokens and requested 512 output
                    tokens. However, the model's context length is only 4096 tokens, …", earlier "This model's maximum
                    context length is 4096 tokens. However, …", and from the engine "The decoder prompt (length 5000)
                    is longer than the maximum model length of 4096."
    llama.cpp   400 {"error": {"type": "exceed_context_size_error", …}}, earlier a 500 "context size has been exceeded";
                    its Python server "Requested tokens (5000) exceed context window of 4096"
    SGLang      400 "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
                    "Requested token count exceeds the model's maximum context length of 4096 tokens. …",
                    "Input length (5000 tokens) exceeds the maximum allowed length (4090 tokens). …"

A server that cuts the conversation instead of refusing it may say so in a 200: in the finish reason, or as `truncated`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CODES = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "context_window_exceeded",
        "model_context_window_exceeded",
        "model_length",
    }
)
_PARAMETERS = ("input_tokens", "input_text")
_TEXT = re.compile(
    r"maximum (?:context|model|prompt) length"
    r"|(?:longer|greater) than the (?:model'?s )?context length"
    r"|context length is only"
    r"|exceeds? (?:the )?(?:model'?s )?(?:available |maximum )?context (?:size|length|window)"
    r"|input length .{0,40}exceeds the maximum allowed"
    r"|context[ _](?:size|length|window)[ _](?:has been |was )?exceeded"
    r"|exceed_context_size"
    r"|prompt (?:is )?too long"
    r"|input token count .{0,40}exceeds the maximum"
    r"|reduce the length of the (?:messages|input|prompt)",
    re.IGNORECASE,
)
_STATUSES = frozenset({400, 413, 422, 500})


def is_overflow(status: int, error: Mapping[str, Any], text: str) -> bool:
    """True for an answer that refuses a conversation for its length. `error` is the body's error object, or empty."""
    if status not in _STATUSES:
        return False
    parameter = error.get("param")
    return (
        any(_is_code(error.get(key)) for key in ("code", "type"))
        or (isinstance(parameter, str) and parameter.startswith(_PARAMETERS))
        or bool(_TEXT.search(text))
    )


def was_cut(answer: Mapping[str, Any], choice: Mapping[str, Any]) -> bool:
    """True for an answer that came about without all of the conversation, or ended where the window does."""
    return _is_code(choice.get("finish_reason")) or any(part.get("truncated") is True for part in (answer, choice))


def _is_code(value: Any) -> bool:
    return isinstance(value, str) and value in _CODES
