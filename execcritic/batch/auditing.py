"""An audit as a whole: which frozen tests there are, what is known of them already, and workers for the rest.

Only the process that owns audit.jsonl writes it; a worker is given plain data and gives back a line.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from execcritic import credentials, places
from execcritic.batch import results, runrecord
from execcritic.batch.datasets import Dataset
from execcritic.batch.folder import Folder
from execcritic.batch.instance import Candidate, Gold, Instance
from execcritic.batch.results import Grade
from execcritic.config import Config
from execcritic_scaffold.errors import ExecCriticError, InfrastructureError, UsageError


@dataclass(frozen=True)
class Frozen:
    """A frozen test of an instance: its id, and the folder where it lies."""

    instance: str
    bundle: str
    folder: Path


@dataclass(frozen=True)
class Task:
    """What a worker is given. Without a `bundle` it is the control run of the instance's reference patch."""

    instance: Instance
    gold: Gold
    bundle: Path | None
    config: Config
    key: str
    """What the answer depends on: kept in the line, so that it is known when it has to be made again."""


def bundles(root: Path) -> list[Frozen]:
    """Every frozen test of a batch, or of a folder of bundles (INSTANCE/ or INSTANCE/bundle/), each once.

    Raises UsageError for a folder that is neither.
    """
    found: dict[tuple[str, str], Frozen] = {}
    if Folder(root).manifest.exists():
        batch = results.load(root)
        for row in batch.rows:
            record = runrecord.read(batch.folder.run(row.instance, row.repeat), [])
            if row.bundle and record.frozen is not None:
                found.setdefault((row.instance, row.bundle), Frozen(row.instance, row.bundle, record.frozen))
        return list(found.values())
    try:
        children = sorted(path for path in root.iterdir() if path.is_dir())
    except OSError as error:
        raise UsageError(f"{root} cannot be read ({error.strerror}); name a batch, or a folder of bundles.") from None
    for child in children:
        for folder in (child, child / "bundle"):
            if (body := _object(folder / "bundle.json")) is not None:
                one = Frozen(child.name, str(body.get("id")), folder)
                found.setdefault((one.instance, one.bundle), one)
    return list(found.values())


def from_batches(roots: Iterable[Path]) -> dict[str, list[Candidate]]:
    """Labelled patches by instance: what other batches submitted, as the official evaluator graded it."""
    found: dict[str, list[Candidate]] = {}
    for root in roots:
        batch = results.load(root)
        for row in batch.rows:
            if row.grade is not Grade.NOT_GRADED and row.empty is False:
                patch = runrecord.read(batch.folder.run(row.instance, row.repeat), []).patch
                one = Candidate(f"{batch.name}/{row.repeat}", patch, row.grade is Grade.RESOLVED)
                found.setdefault(row.instance, []).append(one)
    return found


def tasks(
    found: Sequence[Frozen], rows: Dataset, more: Mapping[str, Sequence[Candidate]], config: Config, control: bool
) -> list[Task]:
    """One task for each frozen test, and the control of each of their instances.

    `rows` is the data set. Raises UsageError for an instance that it does not have.
    """
    instances = {one.id: one for one in rows.instances}
    if absent := sorted({one.instance for one in found} - instances.keys()):
        raise UsageError(f"The data set has no instance {absent[0]} ({len(absent)} such); check --dataset and --split.")
    golds = {name: with_candidates(rows.gold(name), more) for name in {one.instance for one in found}}
    shared = f"{rows.digest} {config.qualify} {config.verify}"
    made = []
    for one in found:
        gold = golds[one.instance]
        made.append(Task(instances[one.instance], gold, one.folder, config, _key(shared, one.bundle, gold)))
    for name in golds if control else ():
        made.append(Task(instances[name], golds[name], None, config, _key(shared)))
    return made


def latest(path: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The newest line of everything, by kind, instance and key."""
    lines = (line for _, line in results.lines(path) if line is not None)
    return {(str(line.get("kind")), str(line.get("instance")), str(line.get("key"))): line for line in lines}


def done(line: Mapping[str, Any]) -> bool:
    """Whether a line holds all answers that can be had, and none that the machine kept back."""
    return "error" not in line and not line.get("again")


def run(path: Path, tasks: Sequence[Task], workers: int) -> Iterator[dict[str, Any]]:
    """Do what is not known yet and append it to audit.jsonl; yields each new line. Raises UsageError where another
    process has the file."""
    earlier = {key for key, line in latest(path).items() if done(line)}
    todo = [task for task in tasks if (kind(task), task.instance.id, task.key) not in earlier]
    with open(path, "a+b", buffering=0) as out:
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{path} is in use by another process; wait for it.") from None
        if out.tell() and os.pread(out.fileno(), 1, out.tell() - 1) != b"\n":
            out.write(b"\n")  # a torn line must not swallow the next one
        for line in _lines(todo, workers):
            out.write((credentials.masked_urls(json.dumps(line)) + "\n").encode())
            os.fsync(out.fileno())
            yield line


def work(task: Task) -> dict[str, Any]:
    """One line; what goes wrong with the machine is in it as `error`."""
    from execcritic.batch import audit, prepare

    line: dict[str, Any] = {"kind": kind(task), "instance": task.instance.id, "key": task.key}
    if task.bundle is not None:
        line["bundle"] = (_object(task.bundle / "bundle.json") or {}).get("id")
    try:
        ready = prepare.prepared(task.instance.source, task.instance.runner)
        if task.bundle is None:
            gold = prepare.with_tests(task.gold, task.instance.source)
            return line | audit.control(task.instance, gold, ready.repo, ready.ref, ready.place, task.config)
        with tempfile.TemporaryDirectory(prefix="execcritic-") as scratch:
            repo = places.checkout(ready.repo, Path(scratch) / "repository", ready.ref)
            return line | audit.examine(task.bundle, task.instance, task.gold, repo, ready.place, task.config)
    except (ExecCriticError, OSError) as error:
        return line | {"error": credentials.hidden(f"{type(error).__name__}: {error}", (), os.environ)}


def with_candidates(gold: Gold, more: Mapping[str, Sequence[Candidate]]) -> Gold:
    """Gold with the labelled patches of other batches."""
    return replace(gold, candidates=(*gold.candidates, *more.get(gold.instance, ())))


def _lines(tasks: Sequence[Task], workers: int) -> Iterator[dict[str, Any]]:
    if workers == 1:
        yield from map(work, tasks)
        return
    pool = ProcessPoolExecutor(workers)
    try:
        running: list[Future[dict[str, Any]]] = [pool.submit(work, task) for task in tasks]
        for future in as_completed(running):
            yield future.result()
    except BrokenExecutor:
        raise InfrastructureError("A worker process died; start again, what is done is kept.") from None
    finally:
        pool.shutdown(cancel_futures=True)


def kind(task: Task) -> str:
    """What the task's line is called."""
    return "control" if task.bundle is None else "bundle"


def _key(shared: str, bundle: str = "", gold: Gold | None = None) -> str:
    labelled = [(one.id, one.patch, one.resolved) for one in gold.candidates] if gold else []
    return hashlib.sha256(repr((shared, bundle, labelled)).encode()).hexdigest()[:16]


def _object(path: Path) -> dict[str, Any] | None:
    try:
        body = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return body if isinstance(body, dict) else None
