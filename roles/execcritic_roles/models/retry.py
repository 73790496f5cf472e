"""How long to wait before asking an endpoint again."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from execcritic_roles.models.protocol import OnWait, Wait
from execcritic_scaffold.errors import Interrupted


def retryable(status: int) -> bool:
    """By status alone: the wording of a 429 differs from server to server, its meaning does not."""
    return status in (408, 409, 425, 429) or status >= 500


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait (`Retry-After` in seconds or as a date, `retry-after-ms`), if it does."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        seconds = _number(value)
        if seconds is None:
            seconds = _until(value)
        if seconds is not None:
            return max(0.0, seconds * unit)
    return None


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _until(value: str) -> float | None:
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return (date - datetime.now(UTC)).total_seconds() if date.tzinfo else None


class Patience:
    """The waits of one reply: exponential back-off with jitter, bounded by a total time.

    The jitter keeps many workers that were refused together from coming back together.
    """

    def __init__(
        self, seconds: float, first: float, most: float, on_wait: OnWait | None, cancel: threading.Event | None
    ) -> None:
        self._start = time.monotonic()
        self.seconds = seconds
        self._first, self._most = first, most
        self._on_wait, self._cancel = on_wait, cancel
        self.attempts = 0

    @property
    def spent(self) -> float:
        """Seconds since the first attempt began."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float:
        return self.seconds - self.spent

    def wait(self, reason: str, asked: float | None) -> bool:
        """Wait before the next attempt; False when the patience does not last that long. Raises Interrupted."""
        self.attempts += 1
        if asked is None:
            delay = min(self._most, self._first * 2 ** min(self.attempts - 1, 30)) * random.uniform(0.5, 1.0)
        else:
            delay = asked + random.uniform(0, min(1.0, asked / 4))
        if delay >= self.left:
            return False
        if self._on_wait is not None:
            self._on_wait(Wait(reason, delay, self.attempts, self.left))
        if self._cancel is None:
            time.sleep(delay)
        elif self._cancel.wait(delay):
            raise Interrupted("Interrupted while waiting for the model; start again to go on.")
        return True
