"""The service as HTTP: one request, asked again while it is overloaded or out of reach, and never for ever.

Every request may be sent twice, so whoever calls this asks only for what is harmless to ask for again.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Mapping
from typing import Any

import httpx

from execcritic_scaffold.errors import SandboxError
from execcritic_scaffold.sandbox.remote.settings import TOKEN, RemoteSettings

TRANSIENT = (408, 425, 429, 502, 503, 504)
CONNECT_SECONDS = 10.0
SLACK = 15.0
"""Seconds beyond what a request is meant to take until it counts as lost."""
BACKOFF = 0.25, 10.0
"""Seconds before the second attempt, and at most before any."""
LARGEST = 3 << 30
"""Bytes of a reply: base64 of the largest frame."""


class Gone(SandboxError):
    """The service knows no sandbox or job of that name (any more)."""


class _Again(Exception):
    """A failure that may pass; its text says which."""


class Service:
    """A client of one service, for any number of threads."""

    def __init__(self, settings: RemoteSettings) -> None:
        if settings.url is None:
            raise SandboxError("No sandbox service is configured; set sandbox.remote.url.")
        self.url, self._patience = settings.url, settings.patience_seconds
        self._token = os.environ.get(TOKEN, "").strip()
        headers = {"X-API-Key": self._token} if self._token else {}
        try:
            # No redirects: the key is for this address and for no other.
            self._client = httpx.Client(
                base_url=self.url, headers=headers, limits=httpx.Limits(max_connections=None), follow_redirects=False
            )
        except (ValueError, httpx.InvalidURL):
            raise SandboxError(
                f"{TOKEN} or sandbox.remote.url cannot be sent; check them for odd characters."
            ) from None

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        seconds: float = 60.0,
        patience: float | None = None,
    ) -> dict[str, Any]:
        """The reply, a JSON object. `seconds` is what one attempt is meant to take, `patience` bounds all of them.

        Raises Gone for 404, SandboxError for a refusal, and where it has not worked when patience has ended.
        """
        patience = self._patience if patience is None else patience
        deadline, attempt = time.monotonic() + patience, 0
        while True:
            try:
                return self._once(method, path, body, params, seconds + SLACK)
            except _Again as failure:
                delay = min(BACKOFF[0] * 2**attempt, BACKOFF[1]) * random.uniform(0.5, 1.5)
                attempt += 1
                if time.monotonic() + delay > deadline:
                    raise SandboxError(
                        f"The sandbox service at {self.url} failed for {patience:.0f} s while asked to {method} "
                        f"{path.split('?')[0]} ({failure}); check it, or raise sandbox.remote.patience_seconds."
                    ) from None
                time.sleep(delay)

    def close(self) -> None:
        self._client.close()

    def _once(
        self, method: str, path: str, body: Mapping[str, Any] | None, params: Mapping[str, Any] | None, seconds: float
    ) -> dict[str, Any]:
        end = time.monotonic() + seconds
        data = bytearray()
        timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS)
        try:
            with self._client.stream(method, path, json=body, params=params, timeout=timeout) as reply:
                for part in reply.iter_bytes():
                    data += part
                    # httpx bounds each read, not all of them: a reply that trickles would never end.
                    if time.monotonic() > end or len(data) > LARGEST:
                        raise _Again("its reply did not end")
        except httpx.TransportError as error:
            raise _Again(self._masked(str(error) or type(error).__name__)) from None
        except httpx.HTTPError as error:  # a reply that cannot be decoded
            raise _Again(self._masked(type(error).__name__)) from None
        if reply.status_code in TRANSIENT:
            raise _Again(f"it answered {reply.status_code}")
        return self._read(reply.status_code, bytes(data), f"{method} {path}")

    def _read(self, status: int, data: bytes, asked: str) -> dict[str, Any]:
        if status in (401, 403):
            raise SandboxError(f"The sandbox service at {self.url} refuses us ({status}); set {TOKEN} to its key.")
        if status == 404:
            raise Gone(f"The sandbox service at {self.url} does not know what was asked for ({asked}); start again.")
        if status >= 300:
            raise SandboxError(
                f"The sandbox service at {self.url} answered {status} to {asked} ({self._said(data)}); see its log."
            )
        try:
            found = json.loads(data)
        except ValueError:
            raise _Again("its reply was no JSON") from None
        if not isinstance(found, dict):
            raise _Again("its reply was no JSON object")
        return found

    def _said(self, data: bytes) -> str:
        return self._masked(" ".join(data[:2000].decode("utf-8", "replace").split())[:300]) or "nothing"

    def _masked(self, text: str) -> str:
        return text.replace(self._token, "***") if self._token else text
