"""The driver: gives out runs to an executor, keeps the journal and the predictions, and decides what is run again.

It works in a thread of its own, so that a signal, which Python delivers to the main thread, never falls between a step
and its record. One process has a batch folder at a time.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from typing import Any

from execcritic.batch import journal, manifest, predictions, worker
from execcritic.batch.assignment import Assignment, Ended, Ending
from execcritic.batch.budget import Budget
from execcritic.batch.conditions import Conditions
from execcritic.batch.diskroom import scarce
from execcritic.batch.folder import Folder
from execcritic.batch.instance import Instance
from execcritic.batch.journal import Journal, Key, State
from execcritic.batch.manifest import Asked
from execcritic.batch.predictions import Prediction
from execcritic.batch.summary import Summary, summary
from execcritic.batch.worker import Settings
from execcritic_scaffold.resolution import Status

Tell = Callable[[str, Mapping[str, Any]], None]
RESOLVED = Status.RESOLVED.name
LOOK = 1.0
"""Seconds between two looks at what holds the next start, while runs are at work."""
WRITE = 5.0
"""Seconds between two writings of the predictions at least, and twenty times as long as one takes."""
AGAIN = frozenset({Ending.INFRA_FAILED, Ending.INTERRUPTED})
"""What a later start runs again by itself."""


@dataclass
class _Task:
    """A run at work: its assignment, which attempt it is, and what its folder had cost before."""

    assignment: Assignment
    attempt: int
    before: float | None
    started: float


class Batch:
    """A batch whose folder this process has. `close` gives it back."""

    def __init__(
        self,
        folder: Folder,
        asked: Asked,
        instances: Mapping[str, Instance],
        settings: Settings,
        conditions: Conditions,
        budget: Budget,
        tell: Tell,
        rerun: frozenset[Ending] = frozenset(),
        allow_changes: bool = False,
    ) -> None:
        """Takes the folder, and settles what a killed process left open. Raises UsageError."""
        self._folder, self._asked, self._instances, self._settings = folder, asked, instances, settings
        self._conditions, self._budget, self._tell = conditions, budget, tell
        self._limits, self._rerun = asked.config.batch, rerun
        self._journal = Journal(folder.journal)
        try:
            body = manifest.settle(folder, asked, allow_changes)
            folder.stop.unlink(missing_ok=True)
            found = journal.read(folder.journal)
        except BaseException:
            self._journal.close()
            raise
        self._states, self._damaged = dict(found.states), found.damaged
        self._all = manifest.keys(body["ids"], body["repeats"])
        self._halted: str | None = None
        self._held: str | None = None
        self._broken = 0
        self._tries: dict[Key, int] = {}
        self._running: dict[Future[Ended], _Task] = {}
        self._written, self._writing = 0.0, 0.0
        self._began = time.monotonic()
        for number in self._damaged:
            tell("warning", {"text": f"{folder.journal}, line {number} is damaged and was left out."})
        self._mine = frozenset(self._all)
        self._done = Counter(state.ending for key, state in self._states.items() if key in self._mine and state.ending)
        self._resolved = sum(_resolved(self._states.get(key)) for key in self._all)
        self._close_open()
        self._write()

    def close(self) -> None:
        self._journal.close()

    def todo(self) -> list[Key]:
        """What is to be run: of what was asked for now, all that has no ending, or one that is run again."""
        again = AGAIN | self._rerun
        asked = manifest.keys(self._asked.ids, self._asked.repeats)
        return [key for key in asked if (found := self._states.get(key)) is None or found.ending in (None, *again)]

    def fail(self, key: Key, ending: Ending, reason: str) -> None:
        """Record a run that cannot be started."""
        attempt = self._state(key).attempts + 1
        self._start(key, attempt, fresh=False)
        self._end(Ended(*key, ending, reason, cost=self._state(key).costs[-1]), attempt, 0.0)

    def run(self, executor: Executor, workers: int, todo: list[Key]) -> None:
        """Work everything off. Returns early, with nothing at work, once told to stop."""
        waiting = deque(todo)
        self._tell("batch.started", {**self._counts(), "todo": len(todo), "out": str(self._folder.root)})
        try:
            while waiting or self._running:
                while waiting and len(self._running) < workers and self._may_start(waiting[0]):
                    self._submit(executor, waiting.popleft())
                if not self._running:
                    if self._held and not self._stopping():
                        self._halted = self._held
                    break
                done, _ = wait(self._running, LOOK if waiting else None, FIRST_COMPLETED)
                for future in done:
                    if (key := self._settle(future)) is not None:
                        waiting.append(key)
                if time.monotonic() - self._written > max(WRITE, 20 * self._writing):
                    self._write()
        finally:
            self._write()

    def summary(self) -> Summary:
        seconds = time.monotonic() - self._began
        return summary(self._folder, self._asked.mode, self._all, self._states, seconds, self._damaged, self._halted)

    def _stopping(self) -> bool:
        return self._halted is not None or self._folder.stop.exists()

    def _may_start(self, key: Key) -> bool:
        if self._stopping():
            return False
        held = scarce(self._folder.root, self._limits.free_mb)
        if held is None and not self._budget.reserve(key):
            held = (
                f"${self._budget.spent or 0:.2f} of batch.cost={self._budget.total:g} are spent, and a run may take "
                f"${self._budget.each:.2f}; raise it and start again."
            )
        if held != self._held and held is not None:
            self._tell("warning", {"text": held})
        self._held = held
        return held is None

    def _submit(self, executor: Executor, key: Key) -> None:
        state, run = self._state(key), self._folder.run(*key)
        attempt = state.attempts + 1
        if state.ending is Ending.FINISHED and run.exists():  # asked for once more
            aside = self._folder.replaced(*key, attempt)
            aside.parent.mkdir(exist_ok=True)
            shutil.move(run, aside)
        begun = self._conditions.round0(key)
        assignment = Assignment(
            self._instances[key[0]],
            self._asked.mode,
            key[1],
            str(run),
            self._conditions.bundle(key[0]),
            str(begun) if begun else None,
        )
        self._start(key, attempt, fresh=not (run / "manifest.json").exists())
        before = self._state(key).costs[-1]
        self._tries[key] = self._tries.get(key, 0) + 1
        task = _Task(assignment, attempt, before, time.monotonic())
        self._running[executor.submit(worker.work, assignment, self._settings)] = task

    def _settle(self, future: Future[Ended]) -> Key | None:
        """Record how a run ended; the key of one that is to be tried again."""
        task = self._running.pop(future)
        error = future.exception()
        ended = future.result() if error is None else worker.lost(task.assignment, error)
        key = (ended.instance, ended.repeat)
        paid = None if ended.cost is None or task.before is None else ended.cost - task.before
        self._budget.settle(key, paid)
        self._end(ended, task.attempt, time.monotonic() - task.started)
        if self._budget.spent is None and self._budget.total is not None:
            self._budget.total = None
            self._tell(
                "warning",
                {"text": "The price of a model is unknown, so batch.cost cannot hold; the limits of each run do."},
            )
        self._broken = 0 if ended.ending is Ending.FINISHED else self._broken + (ended.ending is not Ending.INTERRUPTED)
        if self._limits.failures and self._broken >= self._limits.failures and self._halted is None:
            self._halted = f"Stopped: {self._broken} runs in a row did not finish, the last one because: {ended.reason}"
            self._tell("warning", {"text": self._halted})
        again = ended.ending is Ending.INFRA_FAILED and self._tries[key] <= self._limits.retries
        return key if again and not self._stopping() else None

    def _close_open(self) -> None:
        """Attempts whose end is not known: the process that had this folder was killed."""
        for key, state in self._states.items():
            if state.open:
                run = self._folder.run(*key)
                reason = "The program was killed; what the run had done is gone on with."
                ended = worker.ended(*key, Ending.INTERRUPTED, reason, run, {})
                self._record(ended, state.attempts)
        self._budget.spent = journal.spent(self._states.values())

    def _state(self, key: Key) -> State:
        return self._states.setdefault(key, State())

    def _start(self, key: Key, attempt: int, fresh: bool) -> None:
        state = self._state(key)
        self._journal.started(key, attempt, fresh)
        state.attempts, state.open = attempt, True
        if fresh or not state.costs:
            state.costs.append(0.0)
        self._tell("instance.started", {"instance": key[0], "repeat": key[1], "attempt": attempt})

    def _end(self, ended: Ended, attempt: int, seconds: float) -> None:
        self._record(ended, attempt)
        self._tell(
            "instance.ended",
            {
                "instance": ended.instance,
                "repeat": ended.repeat,
                "ending": ended.ending.value,
                "status": ended.body.get("status"),
                "reason": ended.reason,
                "cost": ended.cost,
                "seconds": round(seconds, 3),
                **self._counts(),
            },
        )

    def _record(self, ended: Ended, attempt: int) -> None:
        self._journal.ended(ended, attempt)
        key = (ended.instance, ended.repeat)
        state = self._state(key)
        if key in self._mine:
            self._done[ended.ending] += 1
            if state.ending is not None:
                self._done[state.ending] -= 1
            self._resolved -= _resolved(state)
            self._resolved += ended.body.get("status") == RESOLVED
        state.ending, state.reason, state.body, state.open = ended.ending, ended.reason, ended.body, False
        state.costs = [*state.costs[:-1], ended.cost]

    def _counts(self) -> dict[str, Any]:
        """How far the batch is, for whoever watches."""
        endings = {ending.value: self._done[ending] for ending in Ending}
        return {"runs": len(self._all), "endings": endings, "resolved": self._resolved, "spent": self._budget.spent}

    def _write(self) -> None:
        """The predictions of repeat 0: a row for every instance that was asked for, whatever came of it."""
        started = time.monotonic()
        name = model_name(self._asked)
        ids = dict.fromkeys(instance for instance, _ in self._all)
        rows = (Prediction(each, name, worker.patch_of(self._folder.run(each, 0))) for each in ids)
        predictions.write(self._folder, rows)
        self._written = time.monotonic()
        self._writing = self._written - started


def _resolved(state: State | None) -> bool:
    return state is not None and state.body.get("status") == RESOLVED


def model_name(asked: Asked) -> str:
    """What predictions say made them: the mode, and the name of the model that repairs."""
    spec = asked.models.get("repair") or asked.models.get("test") or ""
    kind, _, name = spec.partition(":")
    return f"execcritic-{asked.mode.value}-{kind if kind == 'replay' else name}"
