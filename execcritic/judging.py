"""The judge of a run: asks its model, keeps every question and answer in `judge/`, and asks nothing twice."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from execcritic.config import Config
from execcritic.models import View
from execcritic.request import Request
from execcritic.runs import Run
from execcritic_roles.models import registry
from execcritic_roles.models.protocol import ChatModel, Wait
from execcritic_roles.terminal import Terminal
from execcritic_scaffold.agents import Usage
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.disputes import Court, Dispute, Ruling


class Judge:
    """Answers one question at a time, each in a fresh conversation. `usage` sums over all, those of an earlier attempt
    of the run included."""

    def __init__(self, model: ChatModel, config: Config, run: Run) -> None:
        self._model, self._config, self._run = model, config, run
        self._busy = threading.Lock()
        self._counted: set[str] = set()
        self.usage = Usage()

    def court(self, issue: str) -> Court:
        """Where the Repair agents' disputes go."""
        return Court(lambda bundle, dispute: self.ask(issue, bundle, dispute), issue, self._config.selection.disputes)

    def ask(self, issue: str, bundle: FrozenBundle, dispute: Dispute | None = None) -> Ruling:
        """The ruling on a dispute, or on the whole test."""
        from execcritic_roles.judge import judge

        question = {"bundle": bundle.id, "dispute": asdict(dispute) if dispute else None}
        key = hashlib.sha256(json.dumps([issue, question], sort_keys=True).encode()).hexdigest()[:24]
        with self._busy:
            kept = self._kept(key)
            if kept is not None:
                ruling, usage = Ruling(**kept["ruling"]), Usage(**kept["usage"])
            else:
                found = judge(self._model, issue, bundle, dispute, self._config.limits.test.seconds)
                ruling, usage = found.ruling, found.usage
                body = {"ruling": asdict(ruling), "usage": asdict(usage), "messages": list(found.messages)}
                self._run.write_json(f"judge/{key}.json", {**question, **body})
            if key not in self._counted:
                self._counted.add(key)
                self.usage = _sum(self.usage, usage)
            return ruling

    def _kept(self, key: str) -> Mapping[str, Any] | None:
        """An answer of an earlier attempt; one that could not be had is asked for again."""
        try:
            body: Mapping[str, Any] = json.loads((self._run.directory / "judge" / f"{key}.json").read_bytes())
        except FileNotFoundError:
            return None
        return body if body["ruling"]["supported"] is not None else None


@contextmanager
def open_judge(
    request: Request, config: Config, run: Run, cancel: threading.Event, view: View, terminal: Terminal
) -> Iterator[Judge | None]:
    """The judge, for the time of a `with` block; None where the request names none."""
    if not request.models.get("judge"):
        yield None
        return

    def waiting(wait: Wait) -> None:
        event = {"role": "judge", "reason": wait.reason, "seconds": round(wait.seconds, 1)}
        run.log("model.waiting", event)
        view("model.waiting", event)

    model = registry.create(
        request.model("judge"), "judge", config.model, on_wait=waiting, cancel=cancel, terminal=terminal
    )
    try:
        yield Judge(model, config, run)
    finally:
        model.close()


def _sum(one: Usage, other: Usage) -> Usage:
    return replace(
        one,
        turns=one.turns + other.turns,
        input_tokens=one.input_tokens + other.input_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cost=None if one.cost is None or other.cost is None else one.cost + other.cost,
        seconds=one.seconds + other.seconds,
    )
