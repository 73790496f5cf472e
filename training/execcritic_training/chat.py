"""Chat Completions as our server speaks it: a request checked and read, an answer built, without any model.

Log-probabilities and token ids stand in vLLM's fields: `prompt_token_ids` beside `choices`, `token_ids` and
`logprobs.content` in a choice, one entry a sampled token, the stop token among them.
"""

from __future__ import annotations

import json
import math
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from execcritic_training.httpjson import HttpError

_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
_REFUSED = ("stream", "top_logprobs", "prompt_logprobs", "response_format", "audio")
"""Fields that would change what is answered and that this server does not know."""


@dataclass(frozen=True)
class Wanted:
    """One request as far as sampling is concerned. `seed` None: another one each time."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generated:
    """What came out: the sampled ids with the log-probability of each under the model (temperature 1, all tokens, as
    vLLM gives them), the text that counts, and why it ended: "stop" or "length"."""

    prompt: Sequence[int]
    output: Sequence[int]
    logprobs: Sequence[float]
    text: str
    finish: str
    version: int


def read_messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages as a chat template takes them: contents are texts, empty where there was none. Raises HttpError."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise HttpError(400, "The request has no messages.")
    read = []
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise HttpError(400, "A message has no role.")
        read.append({**message, "content": _text(message.get("content"))})
    return read


def read_tools(body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The tools that may be called; None where there are none. Raises HttpError."""
    choice = body.get("tool_choice") or "auto"
    if choice not in ("auto", "none"):
        raise HttpError(400, "This server knows the tool_choice auto and none.")
    tools = body.get("tools") or []
    if not isinstance(tools, list) or not all(
        isinstance(t, dict) and isinstance(t.get("function"), dict) for t in tools
    ):
        raise HttpError(400, "tools is no list of functions.")
    return tools if tools and choice == "auto" else None


def read_wanted(body: Mapping[str, Any]) -> Wanted:
    """Sampling parameters. Raises HttpError for what they cannot be, and for fields that this server does not know."""
    for name in _REFUSED:
        if body.get(name):
            raise HttpError(400, f"This server does not know {name}; leave it out.")
    if body.get("n") not in (None, 1):
        raise HttpError(400, "This server gives one reply a request; ask without n.")
    stop = body.get("stop") or ()
    stop = (stop,) if isinstance(stop, str) else stop
    if not isinstance(stop, list | tuple) or not all(isinstance(text, str) and text for text in stop):
        raise HttpError(400, "stop is neither a text nor a list of texts.")
    most = body.get("max_completion_tokens")
    return Wanted(
        temperature=_number(body, "temperature", 1.0, 0.0, 100.0),
        top_p=_number(body, "top_p", 1.0, 1e-6, 1.0),
        max_tokens=_whole("max_tokens", body.get("max_tokens") if most is None else most, 1),
        seed=_whole("seed", body.get("seed"), None),
        stop=tuple(stop),
    )


def too_long(limit: int, prompt: int, asked: int | None) -> HttpError:
    """vLLM's refusal of a conversation that does not fit."""
    return HttpError(
        400,
        f"This model's maximum context length is {limit} tokens. However, you requested {prompt + (asked or 1)} tokens "
        f"({prompt} in the messages, {asked or 1} in the completion). Please reduce the length of the messages.",
        "context_length_exceeded",
    )


def answer(
    body: Mapping[str, Any], model: str, done: Generated, tools: bool, piece: Callable[[int], str]
) -> dict[str, Any]:
    """The body of a 200. `piece` gives the text of one token."""
    message, finish = _message(done.text, tools), done.finish
    if message.get("tool_calls") and finish == "stop":
        finish = "tool_calls"
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    told: dict[str, Any] = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": len(done.prompt),
            "completion_tokens": len(done.output),
            "total_tokens": len(done.prompt) + len(done.output),
        },
        "weight_version": done.version,
    }
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [_entry(piece(i), p) for i, p in zip(done.output, done.logprobs, strict=True)]}
    if body.get("return_token_ids"):
        told["prompt_token_ids"], choice["token_ids"] = list(done.prompt), list(done.output)
    return told


def _entry(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace")), "top_logprobs": []}


def _message(text: str, tools: bool) -> dict[str, Any]:
    """The text as an assistant message; calls are kept as they were written, their arguments character by character."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if not tools:
        return message
    calls = []
    for found in _CALL.finditer(text):
        call = _call(found[1])
        if call is None:
            return message  # not to be told apart from prose about calls
        calls.append({"id": f"call_{uuid.uuid4().hex[:12]}", "type": "function", "function": call})
    if calls:
        before = text[: text.index("<tool_call>")]
        message |= {"content": before.removesuffix("\n"), "tool_calls": calls}
    return message


def _call(text: str) -> dict[str, str] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    raw = re.fullmatch(r'\{\s*"name"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*"arguments"\s*:\s*(\{.*\})\s*\}', text, re.DOTALL)
    return {"name": value["name"], "arguments": raw[1] if raw else json.dumps(value.get("arguments") or {})}


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "\n".join(part for part in parts if isinstance(part, str))
    if content is None or isinstance(content, str):
        return content or ""
    raise HttpError(400, "A message's content is no text.")


def _number(body: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise HttpError(400, f"{name} is no number.")
    if not least <= value <= most:
        raise HttpError(400, f"{name} is not between {least:g} and {most:g}.")
    return float(value)


def _whole(name: str, value: Any, least: int | None) -> int | None:
    if value is None:
        return None
    if type(value) is not int or (least is not None and value < least) or abs(value) >= 1 << 63:
        raise HttpError(400, f"{name} is no whole number{'' if least is None else f' of {least} or more'}.")
    return value
