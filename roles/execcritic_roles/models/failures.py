"""What went wrong with one request, and the one sentence a user gets when it went wrong for good."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from execcritic_roles.models.overflow import is_overflow
from execcritic_roles.models.retry import retry_after, retryable

_EXCERPT = 300
_NO_TOOLS = re.compile(
    r"requires --(?:jinja|enable-auto-tool-choice)"  # llama.cpp, vLLM
    r"|(?:not|n't) support (?:tool|function)"  # Ollama
    r"|support tool use",  # OpenRouter
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Failure:
    """One failed attempt. `after`: seconds the server asked to wait. `status` None: there was no HTTP status."""

    text: str
    retry: bool
    status: int | None = None
    after: float | None = None
    overflow: bool = False
    timed_out: bool = False


def status_failure(status: int, headers: Mapping[str, str], body: str) -> Failure:
    """A failure from an HTTP status other than 2xx."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else {}
    error = error if isinstance(error, dict) else {"message": error}
    text = error.get("message") or body
    text = text if isinstance(text, str) else json.dumps(text)
    overflow = is_overflow(status, error, text)
    return Failure(
        f"HTTP {status} {_excerpt(text)}".strip(),
        retry=retryable(status) and not overflow and not _NO_TOOLS.search(text),
        status=status,
        after=retry_after(headers),
        overflow=overflow,
    )


def body_failure(error: Any) -> Failure:
    """A failure that a gateway reports inside a 200: `{"error": {"code": 429, …}}`."""
    details = error if isinstance(error, dict) else {"message": str(error)}
    code = details.get("code")
    status = code if isinstance(code, int) and 400 <= code <= 599 else 500
    return status_failure(status, {}, json.dumps({"error": details}))


def final_message(failure: Failure, url: str, model: str, spent: float) -> str:
    """One sentence with endpoint, status and next step."""
    where = _without_credentials(url)
    if failure.status is None and failure.retry:
        return (
            f"No usable answer from {where} in {spent:.0f} s ({_excerpt(failure.text)}); "
            "check that the server runs and that --base-url is right, then start again."
        )
    if failure.retry:
        return f"{where} kept failing for {spent:.0f} s ({failure.text}); start again when it has recovered."
    if _NO_TOOLS.search(failure.text):
        step = "start the server with tool calls, or use --set model.protocol=text"
        return f"{where} offers no tool calls ({failure.text}); {step}."
    step = {
        401: "set OPENAI_API_KEY to a key of this endpoint",
        403: "use a key that may use this model",
        404: f"check the model name {model!r} and --base-url, which usually ends in /v1",
    }.get(failure.status or 0, "check the model's name, or change its options (temperature, extra, …)")
    return f"{where} refused the request ({failure.text}); {step}."


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else line[:_EXCERPT] + "…"


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
