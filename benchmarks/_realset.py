"""Real bugs made runnable: an instance of ../shared/realset becomes a git checkout, an interpreter and source roots.

Shared by the benchmarks and by tests/realset. The work is done by `execcritic.batch.sdists`; what is fetched is kept
below `cache()`.

    python benchmarks/_realset.py [ID ...]      fill the cache and print where each instance lies
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from execcritic import places
from execcritic.batch import sdists
from execcritic.batch.checkouts import commit
from execcritic.batch.instance import Sdist
from execcritic_scaffold.errors import EnvironmentFailure

__all__ = ["SHARED", "Checkout", "Instance", "Unavailable", "cache", "checkout", "commit", "environment", "instances"]

SHARED = Path(__file__).resolve().parents[2] / "shared" / "realset" / "instances.jsonl"
Instance = dict[str, Any]
Unavailable = EnvironmentFailure
"""The instance cannot be had on this machine (no data, no interpreter, no package index); the text says why."""


@dataclass(frozen=True)
class Checkout:
    """A real bug, ready: `repo` has one commit and a clean work tree, `python` holds the pins, nothing else."""

    repo: Path
    python: Path
    source_roots: tuple[str, ...]


def cache() -> Path:
    """Where downloads, checkouts and environments are kept: below `EXECCRITIC_CACHE`, else the program's own cache."""
    return Path(os.environ.get("EXECCRITIC_CACHE") or places.cache()).resolve() / "realset"


@functools.cache
def instances() -> dict[str, Instance]:
    """Every instance by id, in file order. Raises Unavailable where the data is not on this machine."""
    if not SHARED.is_file():
        raise Unavailable("../shared/realset is not here")
    with SHARED.open(encoding="utf-8") as lines:
        return {one["instance_id"]: one for one in map(json.loads, lines)}


def checkout(instance: Instance) -> Checkout:
    """Fetch and build what the instance needs, once. Raises Unavailable with the last words of what failed."""
    source = Sdist(instance["sdist"], tuple(instance["python_pins"]), (instance["python_path"],))
    repo = sdists.checkout(source, places.store(), cache())
    return Checkout(repo, environment(source.pins), source.source_roots)


def environment(packages: Sequence[str]) -> Path:
    """The interpreter of a virtual environment that holds these packages, made once per set."""
    return sdists.environment(packages, cache())


def main(names: Sequence[str]) -> int:
    """Fill the cache; exit status 1 when an instance could not be had."""
    failed = 0
    for name in names or instances():
        try:
            ready = checkout(instances()[name])
            print(name, ready.repo, ready.python, *ready.source_roots, flush=True)
        except Unavailable as reason:
            failed += 1
            print(name, "FAILED", reason, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
