"""A data set from packages: functions in an order that the seed gives, side by side on threads."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from execcritic import places
from execcritic_scaffold.base import snapshot
from execcritic_scaffold.errors import EnvironmentFailure, UsageError
from execcritic_scaffold.sandbox.protocol import Sandbox
from execcritic_scaffold.settings import QualifySettings
from execcritic_scaffold.site import open_site
from execcritic_scaffold.store import Store
from execcritic_scaffold.task import EnvironmentSpec
from execcritic_training.factory import sdist, suite
from execcritic_training.factory.issue import Writer
from execcritic_training.factory.journal import Journal
from execcritic_training.factory.packages import Package
from execcritic_training.factory.produce import Made, Order, produce
from execcritic_training.factory.screen import MOST_NODES
from execcritic_training.factory.suite import Suite, Target

TOGETHER = 4
"""Functions in one sandbox: enough for its start to be little of it, few enough for all jobs to have work."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What is asked for. `limit` is the number of tasks of each package, None for all; `jobs` run side by side."""

    packages: Sequence[Package]
    out: Path
    writer: Writer
    writer_name: str = "template"
    seed: int = 0
    per_function: int = 3
    limit: int | None = None
    jobs: int = 1
    sandbox: str | None = None


def make(request: Request, say: Say) -> dict[str, Any]:
    """Make what is not there yet; the summary of all that is. The same request gives the same bytes.

    Raises UsageError, EnvironmentFailure where not one of the packages can be used, SandboxError.
    """
    asked = {"seed": request.seed, "per_function": request.per_function, "writer": request.writer_name}
    journal = Journal(request.out, asked)
    began, skipped = time.monotonic(), dict[str, str]()
    try:
        with places.sandbox(places.Place(request.sandbox)) as sandbox:
            for package in request.packages:
                try:
                    _package(request, package, sandbox, journal, say)
                except (UsageError, EnvironmentFailure) as error:
                    skipped[package.key] = str(error)
                    say(f"{package.key} is left out: {error}")
        body = summary(journal)
        body["skipped"] = skipped
        journal.summarise(body)
    finally:
        journal.close()
    if skipped and len(skipped) == len(request.packages):
        raise EnvironmentFailure(next(iter(skipped.values())))
    return {**body, "seconds": round(time.monotonic() - began, 1)}


def _package(request: Request, package: Package, sandbox: Sandbox, journal: Journal, say: Say) -> None:
    """All tasks of one package."""
    have = sum(len(r["instances"]) for r in journal.done.values() if r["package"] == package.key)
    if request.limit is not None and have >= request.limit:
        return
    settings = QualifySettings.model_validate({})
    order = Order(request.seed, request.per_function, request.writer, settings)
    with tempfile.TemporaryDirectory(prefix="execcritic-factory-") as scratch:
        found = _suite(package, sandbox, Store(Path(scratch) / "store"), settings)
        targets = [t for t in _ordered(found, package, request.seed) if _key(package, t) not in journal.done]
        say(f"{package.key}: {len(found.seconds)} tests pass, {len(targets)} functions to do")
        for made in _made(package, found, targets, order, request.jobs):
            rows = [row for row in made.rows if row["instance_id"] not in journal.ids]
            if request.limit is not None and have + len(rows) >= request.limit:
                # The last one is cut, and not noted as done where something of it is left.
                rest = rows[request.limit - have :]
                journal.add(_key(package, made.target) + ("#cut" if rest else ""), package.key,
                            rows[: request.limit - have], made.counts())  # fmt: skip
                return
            have += len(rows)
            journal.add(_key(package, made.target), package.key, rows, made.counts())
            if rows:
                say(f"{package.key}: {have} tasks")


def _suite(package: Package, sandbox: Sandbox, store: Store, settings: QualifySettings) -> Suite:
    repo, python = sdist.ready(package)
    spec = EnvironmentSpec(python=python, source_roots=(package.python_path,))
    return suite.read(open_site(snapshot(repo, store), sandbox, spec, cache=places.cache()), settings)


def _ordered(found: Suite, package: Package, seed: int) -> list[Target]:
    """The functions that not everything runs, in the order of the seed."""

    def rank(target: Target) -> bytes:
        return hashlib.sha256(f"{seed}:{package.key}:{target.key}".encode()).digest()

    return sorted((target for target in found.targets if len(target.nodes) <= MOST_NODES), key=rank)


def _made(package: Package, found: Suite, targets: Sequence[Target], order: Order, jobs: int) -> Iterator[Made]:
    """What comes of the functions, in their order, with little more under way than the jobs need."""
    groups = deque(targets[start : start + TOGETHER] for start in range(0, len(targets), TOGETHER))
    running: deque[Future[list[Made]]] = deque()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while groups or running:
                while groups and len(running) < 2 * jobs:
                    running.append(pool.submit(produce, package, found, groups.popleft(), order))
                yield from running.popleft().result()
        finally:
            for future in running:
                future.cancel()


def _key(package: Package, target: Target) -> str:
    return f"{package.key}/{target.key}"


def summary(journal: Journal) -> dict[str, Any]:
    """Totals of a data set: tasks by package, split and family; mutants by family and fate; what was dropped."""
    packages: Counter[str] = Counter()
    splits: Counter[str] = Counter()
    tasks: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    fates: dict[str, Counter[str]] = {}
    for record in journal.done.values():
        packages[record["package"]] += len(record["instances"])
        splits.update(record["splits"])
        tasks.update(part for family in record["families"] for part in family.split("+"))
        dropped.update(record["dropped"])
        for family, counts in record["tried"].items():
            fates.setdefault(family, Counter()).update(counts)
    return {
        "tasks": packages.total(),
        "packages": dict(sorted(packages.items())),
        "splits": dict(sorted(splits.items())),
        "families": {
            family: {"tasks": tasks[family], "mutants": counts.total(), **dict(sorted(counts.items()))}
            for family, counts in sorted(fates.items())
        },
        "dropped": dict(sorted(dropped.items())),
    }
