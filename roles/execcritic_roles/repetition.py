"""Finding out that an agent goes round in circles."""

from __future__ import annotations

import re
from collections import deque
from enum import Enum
from hashlib import blake2b

_PERIODS = range(1, 5)
# What differs between otherwise equal outputs: addresses, the duration on a test runner's last line, and what our own
# observations number (spool files, processes). Nothing else is taken out: a job whose progress shows as a number must
# not look as if it stood still.
_VOLATILE = re.compile(r"\b0x[0-9a-fA-F]+\b|(?<=\bin )\d+(?:\.\d+)?s\b|(?<=/output-)\d+(?=\.txt)|(?<=\(pid )\d+(?=\))")


_WAIT = re.compile(r"\b(?:sleep|wait)\b")


class Signal(Enum):
    """What to do about the last turn."""

    NONE = 0
    NOTICE = 1
    STOP = 2


class RepetitionDetector:
    """Looks for the same 1 to 4 turns (A-A-A as well as A-B-A-B) repeated at the end of an episode.

    `repeats` of a block give one NOTICE, 2 * repeats - 1 of it STOP. A turn is its actions together with their
    outcomes, so waiting for something whose output changes is no repetition. Once the agent does something else, the
    count begins anew.
    """

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats
        self._recent: deque[bytes] = deque(maxlen=max(_PERIODS) * (2 * repeats - 1))
        self._noticed = False

    def push(self, actions: str, outcomes: str) -> Signal:
        """Take note of a turn."""
        self._recent.append(blake2b(f"{_normal(actions)}\0{_normal(outcomes)}".encode("utf-8", "replace")).digest())
        most = max(self._count(period) for period in _PERIODS)
        if most >= 2 * self._repeats - 1:
            self.reset()
            return Signal.STOP
        if most < self._repeats:
            self._noticed = False
            return Signal.NONE
        noticed, self._noticed = self._noticed, True
        return Signal.NONE if noticed else Signal.NOTICE

    def reset(self) -> None:
        """Forget everything (after a stop, so that the episode can be resumed)."""
        self._recent.clear()
        self._noticed = False

    def _count(self, period: int) -> int:
        """How often the last `period` turns occur in a row at the end."""
        recent = list(self._recent)
        block = recent[-period:]
        count = 0
        while len(recent) >= period and recent[-period:] == block:
            count += 1
            del recent[-period:]
        return count


def _normal(text: str) -> str:
    return " ".join(_VOLATILE.sub("*", text).split())


def is_wait(command: str, running: int, started: int) -> bool:
    """Whether a command only waits: it says so, there are jobs `running` to wait for, and it `started` none."""
    return running > 0 and started == 0 and _WAIT.search(command) is not None
