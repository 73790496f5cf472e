"""Reading the body of a 200: a reply, or what is wrong with it.

Servers and gateways report failures of all kinds in a 200. A message that could not be sent back is a failure as well:
it would end the episode one turn later.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from execcritic_roles.models.failures import Failure, body_failure
from execcritic_roles.models.options import Price
from execcritic_roles.models.overflow import was_cut
from execcritic_roles.models.prices import cost_of
from execcritic_roles.models.protocol import Reply, TokenUsage

_DEEPEST = 100  # levels of a message; copying it and sending it back are recursive
_LENGTH = ("max_tokens", "MAX_TOKENS", "max_output_tokens")  # how some gateways say `length`
_BROKEN_OFF = ("error", "abort", "network_error")


def read_answer(raw: bytes, body: Mapping[str, Any], price: Price | None) -> Reply | Failure:
    """The reply to the request `body`: its message as the provider sent it, its usage and its cost."""
    try:
        # NaN and 1e999 are no JSON in the strict sense and could not be sent back.
        answer = json.loads(raw, parse_float=_finite, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return Failure(f"an answer that is not JSON: {_start(raw)}", retry=True)
    if not isinstance(answer, dict):
        return Failure(f"an answer that is no object: {_start(raw)}", retry=True)
    if answer.get("error"):
        return body_failure(answer["error"])
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return Failure(f"an answer without a message: {_start(raw)}", retry=True)
    if _too_deep(message):
        return Failure(f"an answer that is nested too deeply: {_start(raw)}", retry=True)
    if was_cut(answer, choice):
        return Failure("the server says that it left out a part", retry=False, status=200, overflow=True)
    reason = choice.get("finish_reason")
    if reason in _BROKEN_OFF:
        return Failure(f"the server broke the answer off ({reason})", retry=True, status=500)
    if reason in _LENGTH:
        reason = "length"
    named = answer.get("model")
    return Reply(
        message,
        reason if isinstance(reason, str) else None,
        _usage(answer.get("usage"), body, raw, price),
        named if isinstance(named, str) else str(body["model"]),
    )


def _usage(usage: Any, body: Mapping[str, Any], raw: bytes, price: Price | None) -> TokenUsage:
    if not isinstance(usage, dict) or not isinstance(usage.get("prompt_tokens"), int):
        return TokenUsage(len(json.dumps(body["messages"])) // 4, 0, len(raw) // 4, None, estimated=True)
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens")
    inputs, output = usage["prompt_tokens"], usage.get("completion_tokens")
    cached = max(0, min(cached, inputs)) if isinstance(cached, int) else 0
    output = output if isinstance(output, int) else 0
    return TokenUsage(inputs, cached, output, cost_of(usage, price, inputs, cached, output))


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _too_deep(message: Mapping[str, Any]) -> bool:
    level: list[Any] = [message]
    for _ in range(_DEEPEST):
        level = [
            item
            for value in level
            for item in (value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
        ]
        if not level:
            return False
    return True


def _start(raw: bytes) -> str:
    """The beginning of an answer as it may be told: one line of text."""
    return " ".join(raw[:120].decode("utf-8", "replace").split()) or "it is empty"
