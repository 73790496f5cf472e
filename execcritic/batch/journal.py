"""The journal of a batch: which runs of which instances were started and how they ended, one synced JSON line each.

A line that a crash tore, or that something else damaged, costs what it said and nothing more: it is reported with its
number. A lost "ended" is made up for by the run directory, which holds the result.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from execcritic import credentials
from execcritic.batch.assignment import Ended, Ending
from execcritic_scaffold.errors import UsageError

Key = tuple[str, int]
"""Instance and repeat."""


@dataclass
class State:
    """What the journal says of one repeat of one instance."""

    attempts: int = 0
    open: bool = False
    """An attempt was started of which no end is known: its process was killed."""
    ending: Ending | None = None
    reason: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    costs: list[float | None] = field(default_factory=list)
    """US dollars of each run directory it had, the newest last."""


@dataclass(frozen=True)
class Read:
    """The journal as it is. `damaged`: numbers of the lines, from 1, that could not be used."""

    states: Mapping[Key, State]
    damaged: tuple[int, ...]


def read(path: Path) -> Read:
    """Every state, from the lines that can be read. Raises OSError."""
    states: dict[Key, State] = {}
    damaged: list[int] = []
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    _apply(states, json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                damaged.append(number)
    return Read(states, tuple(damaged))


def _apply(states: dict[Key, State], line: Mapping[str, Any]) -> None:
    """One line; raises what a line of another form makes Python raise, and then changes nothing."""
    event, instance, repeat, attempt = line["event"], line["instance"], line["repeat"], line["attempt"]
    if not isinstance(instance, str) or not isinstance(repeat, int) or not isinstance(attempt, int):
        raise TypeError
    state = states.get((instance, repeat)) or State()
    if event == "started":
        state.attempts, state.open = max(state.attempts, attempt), True
        if line["fresh"] or not state.costs:
            state.costs.append(0.0)
    elif event == "ended":
        ending, body = Ending(line["ending"]), {**line["body"]}
        cost = None if line["cost"] is None else float(line["cost"])
        state.attempts, state.open = max(state.attempts, attempt), False
        state.ending, state.reason, state.body = ending, line["reason"], body
        state.costs = [*state.costs[:-1], cost]
    else:
        raise ValueError
    states[instance, repeat] = state


def spent(states: Iterable[State]) -> float | None:
    """US dollars of all runs together; None where one price is unknown."""
    costs = [cost for state in states for cost in state.costs]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


class Journal:
    """The journal, open for writing by this process alone, as long as it lives. Raises UsageError where another
    process has it, OSError where it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by `close`
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise UsageError(
                f"{path.parent} is in use by another process; wait for it, or name another folder with --out."
            ) from None
        if self._file.tell():
            self._file.seek(-1, os.SEEK_END)
            if self._file.read(1) != b"\n":
                self._file.write(b"\n")  # a torn line must not swallow the next one

    def started(self, key: Key, attempt: int, fresh: bool) -> None:
        self._append({"event": "started", **_named(key), "attempt": attempt, "fresh": fresh})

    def ended(self, ended: Ended, attempt: int) -> None:
        self._append(
            {
                "event": "ended",
                **_named((ended.instance, ended.repeat)),
                "attempt": attempt,
                "ending": ended.ending.value,
                "reason": ended.reason,
                "cost": ended.cost,
                "body": ended.body,
            }
        )

    def close(self) -> None:
        self._file.close()

    def _append(self, body: Mapping[str, Any]) -> None:
        line = json.dumps({"time": round(time.time(), 3), **body}) + "\n"
        data = credentials.masked_urls(line).encode()
        while data:
            data = data[self._file.write(data) :]
        os.fsync(self._file.fileno())


def _named(key: Key) -> dict[str, Any]:
    return {"instance": key[0], "repeat": key[1]}
