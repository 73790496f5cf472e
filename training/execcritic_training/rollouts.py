"""The episodes of a step, made by our own controller: run, judged, recorded.

Agents run as in any batch, in processes of their own, each with a session of the recording proxy as its endpoint; a
judge without torch makes the evidence afterwards. The records of a step lie in `FOLDER/step-000003.jsonl` once they are
all there, so that a resumed run trains on the same ones; what an interrupted step left is made again.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from execcritic.batch import oracle, prepare, worker
from execcritic.batch.assignment import Assignment, Ended, Mode
from execcritic.batch.instance import Gold, Instance
from execcritic.batch.local import LocalExecutor
from execcritic.config import Config
from execcritic.places import Place
from execcritic_scaffold.errors import ExecCriticError, UsageError
from execcritic_training import lines, warm
from execcritic_training.episodes import About, to_record
from execcritic_training.evidence import RepairEvidence, TestEvidence
from execcritic_training.judge_worker import Job
from execcritic_training.proxy import RecordingProxy
from execcritic_training.recipes import RlRecipe
from execcritic_training.recordfile import read_records
from execcritic_training.records import Outcome, Policy, Record, Sampling, Task, group_key
from execcritic_training.sampling import Plain, Sampled, sample
from execcritic_training.steps import by_role, scores


@dataclass(frozen=True)
class Field:
    """Where episodes are made: the tasks, Gold (which no agent's process gets), the model as `openai:NAME`, the hash of
    its chat template, the folder of what is made, and how many episodes are at work at a time."""

    instances: Mapping[str, Instance]
    gold: Callable[[str], Gold]
    model: str
    template: str
    folder: Path
    place: Place
    workers: int


class Rollouts:
    """A `rl.Source`. `proxy` is running; `config` has the recipe's bounds (see `bounds`)."""

    def __init__(self, recipe: RlRecipe, field: Field, config: Config, proxy: RecordingProxy) -> None:
        """Raises UsageError for a data set without a task."""
        if not field.instances:
            raise UsageError("The data set has no task; name another one.")
        self._recipe, self._field, self._config, self._proxy = recipe, field, config, proxy

    def __call__(self, step: int, version: int) -> list[Record]:
        """The judged episodes of a step: sampled on until enough groups have unequal rewards, within the budget. Also
        those of groups that teach nothing, so that they are counted."""
        path = self._field.folder / f"step-{step:06d}.jsonl"
        if path.exists():
            return list(read_records(path))
        work = path.with_suffix("")
        shutil.rmtree(work, ignore_errors=True)
        self._proxy.version = version
        made: list[Record] = []
        with LocalExecutor(self._field.workers) as executor:
            tasks = self._tasks(step)
            first = [next(tasks) for _ in range(self._recipe.episodes.groups)]
            begun = {name: self._begin(executor, work, name) for name in dict.fromkeys(first)}  # all at work at once

            def roll(name: str, many: int) -> Sequence[Sampled[Record]]:
                started = begun.pop(name, None) or self._begin(executor, work, name)
                group = self._group(started, step, version)
                made.extend(group)
                scored = scores(group, by_role(self._recipe), self._recipe)
                return [Sampled(record, score) for record, score in zip(group, scored, strict=True)]

            def named() -> Iterator[str]:
                yield from first
                yield from tasks

            numbers = self._recipe.episodes
            size = numbers.groups * numbers.samples
            sample(named(), roll, Plain(numbers.samples), numbers.groups, size * numbers.budget)
        lines.write(path, (record.to_json() for record in made), "--out")
        return made

    def _tasks(self, step: int) -> Iterator[str]:
        """Tasks without end, every one once before any comes again; a step goes on where the one before would."""
        names = sorted(self._field.instances)
        start = step * self._recipe.episodes.groups
        for n in count(start):
            epoch, at = divmod(n, len(names))
            yield random.Random(f"{self._recipe.seed} {epoch}").sample(names, len(names))[at]

    def _begin(self, executor: Executor, work: Path, name: str) -> _Begun:
        instance, repair = self._field.instances[name], self._recipe.role == "repair"
        taken = sum(1 for _ in work.glob(f"{name}@*"))
        folder = work / f"{name}@{taken}"
        folder.mkdir(parents=True)
        shown = None
        if repair:
            shared = self._field.folder / "oracle" / name
            settings = worker.Settings(self._config, {}, self._field.place, str(work / "stop"))
            made = oracle.known(name, shared) or oracle.make(instance, self._field.gold(name), str(shared), settings)
            if made.bundle is None:
                raise UsageError(
                    f"The official test of {name} makes no frozen test ({made.reason or 'it was refused'}); leave this "
                    "task out of the data set."
                )
            shown = made.bundle
        futures = []
        for n in range(self._recipe.episodes.samples):
            digest = hashlib.sha256(f"{name}@{taken}".encode()).hexdigest()[:16]
            session = f"{work.name}.{digest}.{n}"
            run = folder / str(n)
            url = self._proxy.session_url(session)
            model = self._config.model.model_copy(update={"base_url": url})
            config = self._config.model_copy(update={"model": model})
            models: dict[str, str | None] = {self._recipe.role: self._field.model}
            settings = worker.Settings(config, models, self._field.place, str(work / "stop"))
            mode = Mode.ORACLE if repair else Mode.TEST
            assignment = Assignment(instance, mode, n, str(run), bundle=shown)
            self._proxy.path_of(session).unlink(missing_ok=True)
            futures.append((run, session, executor.submit(worker.work, assignment, settings)))
        return _Begun(instance, shown, futures)

    def _group(self, begun: _Begun, step: int, version: int) -> list[Record]:
        gold = prepare.with_tests(self._field.gold(begun.instance.id), begun.instance.source)
        ended = [(run, session, future.result()) for run, session, future in begun.futures]
        ready = prepare.prepared(begun.instance.source, begun.instance.runner)
        place = worker.over(self._field.place, ready.place)
        jobs = [
            Job(str(run), self._recipe.role, gold, ready.repo, place, begun.shown, begun.shown) for run, _, _ in ended
        ]
        evidence = warm.judge_all(jobs, min(self._field.workers, len(jobs)))
        records = []
        for (run, session, end), found in zip(ended, evidence, strict=True):
            id_ = f"{step}/{begun.instance.id}/{run.parent.name.rpartition('@')[2]}.{run.name}"
            records.append(self._record(run, session, end, found, id_, version))
        return records

    def _record(
        self, run: Path, session: str, end: Ended, found: TestEvidence | RepairEvidence, id_: str, version: int
    ) -> Record:
        policy = Policy(model=self._field.model.removeprefix("openai:"), version=version)
        about = About(end.instance, policy, "train", self._field.template, found)
        try:
            return to_record(run, self._recipe.role, about, self._proxy.path_of(session), id=id_)
        except (ExecCriticError, OSError) as error:  # it broke before there was an episode
            task = Task(instance_id=end.instance, base="none", split="train")
            return Record(
                id=id_,
                role=self._recipe.role,
                task=task,
                group=group_key(task, self._recipe.role, None),
                policy=policy,
                sampling=Sampling(),
                tools=[],
                template=self._field.template,
                turns=[],
                outcome=Outcome(status="op_error", reason=end.reason or str(error)),
            )


@dataclass(frozen=True)
class _Begun:
    """A group at work: run directory, session and future of each episode; `shown` is the bundle to repair under."""

    instance: Instance
    shown: str | None
    futures: list[tuple[Path, str, Future[Ended]]]


def bounds(recipe: RlRecipe) -> list[str]:
    """The recipe's bounds of an episode as settings of the configuration."""
    numbers, role = recipe.episodes, recipe.role
    sets = [f"loop.{role}_turns={numbers.turns}", f"model.max_output_tokens={numbers.response}"]
    sets += [f"limits.{role}.context_tokens={recipe.window.tokens - numbers.response}", "model.temperature=1.0"]
    sets += ["model.extra.top_p=1.0", "batch.failures=0"]
    if numbers.seconds is not None:
        sets.append(f"limits.{role}.seconds={numbers.seconds}")
    if role == "repair":
        sets += [f"loop.revisions={numbers.revisions}"]
        sets += [f"loop.revision_turns={numbers.revision_turns}"] if numbers.revision_turns else []
    return sets
