"""The process that judges: warm, without torch, one job after the other over its standard streams (see `warm`).

It keeps the sandboxes and sites of the last few Bases open, so that a job costs its runs and little else. Each message
is its length (8 bytes, big-endian) and a pickle; both ends are this program's own.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any

from execcritic import config, environments, places
from execcritic.batch.instance import Gold
from execcritic.places import Place
from execcritic_scaffold import base as bases
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.site import Site, reopen_site
from execcritic_training import episode, judge
from execcritic_training.episode import Role
from execcritic_training.evidence import RepairEvidence, TestEvidence

LENGTH = struct.Struct(">Q")
KEPT = 4
"""Sites that stay open."""


@dataclass(frozen=True)
class Job:
    """One episode to be judged. `repo` is a checkout that has the Base; `place` is what to say about where code runs
    beyond what the bundles recorded. A Repair episode needs the folders of the `selected` test it was shown and of the
    `official` one."""

    run: str
    role: Role
    gold: Gold
    repo: str
    place: Place = field(default_factory=Place)
    selected: str | None = None
    official: str | None = None


class Bench:
    """Sites that can be verified in, the latest few kept open. `close` gives all back."""

    def __init__(self) -> None:
        self._config = config.load()
        self._open: OrderedDict[object, tuple[Site, ExitStack]] = OrderedDict()
        self._settings = judge.JudgeSettings.over(self._config.verify)

    def judge(self, job: Job) -> TestEvidence | RepairEvidence:
        """The evidence of a job. Raises the errors of every part but what the judge itself calls operational."""

        def opened(bundle: FrozenBundle) -> Site:
            return self._site(job, bundle)

        found = episode.read(Path(job.run), job.role)
        if job.role == "test":
            bundle = FrozenBundle.load(found.bundle) if found.bundle else None
            return judge.judge_test(opened, found, bundle, job.gold, self._settings)
        if job.selected is None or job.official is None:
            raise UsageError("A Repair episode is judged by two frozen tests; name the selected and the official one.")
        selected, official = FrozenBundle.load(Path(job.selected)), FrozenBundle.load(Path(job.official))
        return judge.judge_repair(opened, found, selected, official, job.gold, self._settings)

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1][1].close()

    def _site(self, job: Job, bundle: FrozenBundle) -> Site:
        record = bundle.record
        environment = repr((record.environment, record.runner, record.runner_options, record.environment_files))
        key = (job.repo, job.place, record.base_tree, environment)
        if key not in self._open:
            place = job.place.over(record, Path(job.repo), Path(job.run))
            delta = bundle.blob(record.delta) if record.delta else b""
            base = bases.rebuild(
                Path(job.repo), places.store(), tree=record.base_tree, commit=record.base_commit, delta=delta
            )
            if base is None:
                raise UsageError(f"{job.repo} does not have the Base {record.base_tree[:12]}; name the right checkout.")
            with ExitStack() as stack:
                engine = stack.enter_context(places.sandbox(place, self._config.sandbox))
                spec = environments.spec(place, self._config, self._config.verify.setup_seconds)
                site = reopen_site(bundle, base, engine, spec, cache=places.cache())
                self._open[key] = site, stack.pop_all()
            if len(self._open) > KEPT:
                self._open.popitem(last=False)[1][1].close()
        self._open.move_to_end(key)
        return self._open[key][0]


def send(stream: IO[bytes], value: Any) -> None:
    data = pickle.dumps(value)
    stream.write(LENGTH.pack(len(data)) + data)
    stream.flush()


def serve(jobs: IO[bytes], answers: IO[bytes]) -> None:
    """Answer jobs until there are no more: evidence, or an error as text."""
    bench = Bench()
    try:
        while len(head := jobs.read(LENGTH.size)) == LENGTH.size:
            job = pickle.loads(jobs.read(LENGTH.unpack(head)[0]))
            try:
                answer: object = bench.judge(job)
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            send(answers, answer)
    finally:
        bench.close()


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt  # so that sandboxes are closed


def main() -> None:
    signal.signal(signal.SIGTERM, _stop)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that prints can get between the answers
    try:
        serve(sys.stdin.buffer, answers)
    except KeyboardInterrupt:
        os._exit(130)


if __name__ == "__main__":
    main()
