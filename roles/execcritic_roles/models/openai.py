"""Chat Completions with tool calls over the `openai` SDK, against any compatible endpoint.

The body is taken as bytes and read by `answer`, so that the assistant message stays exactly what the provider sent. The
SDK's own retries are off: ours are visible, honour `Retry-After` and end with the patience.
"""

from __future__ import annotations

import ipaddress
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from execcritic_roles.models.answer import read_answer
from execcritic_roles.models.failures import Failure, final_message, status_failure
from execcritic_roles.models.options import ModelOptions
from execcritic_roles.models.prices import price_of
from execcritic_roles.models.protocol import (
    ContextOverflow,
    Message,
    OnWait,
    OutOfTime,
    Reply,
    ToolSchema,
)
from execcritic_roles.models.retry import Patience
from execcritic_scaffold.errors import Interrupted, ModelError, UsageError

if TYPE_CHECKING:
    from openai import OpenAI

OPENAI_URL = "https://api.openai.com/v1"
_MOST_BYTES = 64 << 20  # of one reply; more than this is a broken server, not an answer


class OpenAIModel:
    """One model at one endpoint.

    Raises UsageError for a base URL that is none, and without a key for an endpoint that is not on this machine.
    `on_wait` is told of every wait between attempts; setting `cancel` ends a wait, and the call,
    with Interrupted.
    """

    def __init__(
        self, model: str, options: ModelOptions, on_wait: OnWait | None = None, cancel: threading.Event | None = None
    ) -> None:
        if not model:
            raise UsageError("The model has no name; write openai:MODEL, for example openai:gpt-5-mini.")
        self.name = f"openai:{model}"
        self._model, self._options, self._on_wait, self._cancel = model, options, on_wait, cancel
        self._url = _checked((options.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL).rstrip("/"))
        self._key = _key(self._url, options)
        self._client: OpenAI | None = None
        self._answered = False

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], seconds: float | None = None) -> Reply:
        """See `ChatModel.complete`."""
        options = self._options
        patience = Patience(
            options.patience_seconds, options.backoff_seconds, options.backoff_max_seconds, self._on_wait, self._cancel
        )
        body = self._body(messages, tools)
        while True:
            if self._cancel is not None and self._cancel.is_set():
                raise Interrupted("Interrupted before the model was asked; start again to go on.")
            waited = patience.spent
            limit = options.request_seconds
            if patience.attempts:  # the first attempt has its full time; a later one must not outlast the patience
                limit = min(limit, max(patience.left, 1.0))
            hurried = seconds is not None and seconds < limit
            outcome = self._attempt(body, seconds if hurried and seconds is not None else limit)
            if isinstance(outcome, Reply):
                return replace(outcome, waited=waited)
            if outcome.overflow:
                raise ContextOverflow(f"The conversation does not fit {self._model}'s context window: {outcome.text}")
            if outcome.timed_out and hurried:
                raise OutOfTime(f"{self._model} did not answer within the {seconds:.0f} s that were left.")
            unreached = not self._answered and not outcome.timed_out
            patience.seconds = options.connect_seconds if unreached else options.patience_seconds
            if not outcome.retry or not patience.wait(outcome.text, outcome.after):
                message = final_message(outcome, _shown(self._url), self._model, patience.spent)
                raise ModelError(message.replace(self._key, "***"))

    def close(self) -> None:
        """See `ChatModel.close`."""
        if self._client is not None:
            self._client.close()

    def _body(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> dict[str, Any]:
        options = self._options
        body: dict[str, Any] = {"model": self._model, "messages": list(messages)}
        if tools:
            body["tools"] = list(tools)
        if options.temperature is not None:
            body["temperature"] = options.temperature
        if options.max_output_tokens is not None:
            official = urlsplit(self._url).hostname == urlsplit(OPENAI_URL).hostname
            field = options.max_output_field or ("max_completion_tokens" if official else "max_tokens")
            body[field] = options.max_output_tokens
        return body

    def _attempt(self, body: dict[str, Any], limit: float) -> Reply | Failure:
        """One request: its reply, or what went wrong. `limit` bounds every pause and the whole."""
        import openai  # 0.4 s: only where a model is really asked

        if self._client is None or self._client.is_closed():
            self._client = openai.OpenAI(api_key=self._key, base_url=self._url, max_retries=0)
        deadline = time.monotonic() + limit
        # Headers and the body of an error are read by the SDK, which limits each pause but not the whole.
        guard = threading.Timer(limit + 1, self._client.close)
        guard.daemon = True
        guard.start()
        try:
            # All of the body is "extra": the SDK would look into every message of it, at every turn again.
            with self._client.chat.completions.with_streaming_response.create(
                model=self._model, messages=(), extra_body={**body, **self._options.extra}, timeout=limit
            ) as response:
                raw = _read(response.iter_bytes(), deadline)
                outcome = read_answer(raw, body, price_of(self._model, self._options.prices))
                # Some page at a wrong address is no answer: only what speaks this API proves that the address is right.
                self._answered = self._answered or isinstance(outcome, Reply) or outcome.status is not None
                return outcome
        except openai.APIStatusError as error:
            self._answered = True
            return status_failure(error.status_code, error.response.headers, error.response.text)
        except Exception as error:
            if time.monotonic() > deadline or "Timeout" in type(error).__name__:
                return Failure(f"no answer within {limit:.0f} s", retry=True, timed_out=True)
            # The SDK lets some of its HTTP library's exceptions through, and which library depends on its version.
            ours = isinstance(error, (openai.APIConnectionError, ConnectionError))
            if not ours and not type(error).__module__.startswith("http"):
                raise
            cause = error.__cause__ or error
            return Failure(f"{type(cause).__name__}: {cause}", retry=True)
        finally:
            guard.cancel()


def _read(chunks: Iterator[bytes], deadline: float) -> bytes:
    """The whole body. Raises TimeoutError past the deadline, ConnectionError where it has no end."""
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > _MOST_BYTES:
            raise ConnectionError(f"the answer is longer than {_MOST_BYTES >> 20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(body)


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return url
    except ValueError:
        pass  # a port that is no number, a broken IPv6 address: not a URL either
    raise UsageError(f"--base-url {_shown(url)!r} is not an http(s) URL; write for example http://localhost:8000/v1.")


def _shown(url: str) -> str:
    """The URL as it may be told and recorded: without user and password."""
    return re.sub(r"//[^/?#]*@", "//***@", url)


def _key(url: str, options: ModelOptions) -> str:
    key = options.api_key.get_secret_value() if options.api_key else os.environ.get("OPENAI_API_KEY", "")
    if key.strip():
        if not key.isascii():
            raise UsageError("The key holds characters that no HTTP header can; correct OPENAI_API_KEY.")
        return key.strip()
    host = urlsplit(url).hostname or ""
    if _is_loopback(host):
        return "no-key-needed"
    raise UsageError(
        f"No key for {host or url}; set OPENAI_API_KEY (to any word, where the endpoint needs none) or --base-url."
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
