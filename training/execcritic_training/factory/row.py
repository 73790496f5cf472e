"""A row of the data set, in the dialect of the real bugs: what is known of one task.

`base_patch` goes from the source distribution to Base (the mutation, without the hidden tests), `gold_patch` undoes the
mutation, `test_patch` brings the tests back; both apply to Base, in either order, and together give the original.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from execcritic_scaffold.files import Changes, File
from execcritic_scaffold.store import Store
from execcritic_training.factory.mutate import Mutant
from execcritic_training.factory.packages import Package
from execcritic_training.factory.suite import Suite, Target


@dataclass(frozen=True)
class Candidate:
    """A labelled patch: the source as it leaves it. `label`: whether the hidden tests and the others pass with it."""

    source: str
    data: bytes
    label: bool


@dataclass(frozen=True)
class Task:
    """One bug with what is hidden for it. `hidden` are the test files as Base has them, None where one goes."""

    target: Target
    split: str
    seed: int
    bug: Mutant
    hidden: Changes
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    issue: str
    candidates: tuple[Candidate, ...]


def identity(package: Package, target: Target, bug: Mutant) -> str:
    """The id of an instance: the same for the same change of the same source."""
    change = repr((package.key, target.key, [(e.start, e.end, e.text) for e in bug.edits]))
    name = re.sub(r"[^A-Za-z0-9_.+-]", "-", package.name)
    return f"{name}__{bug.family}-{hashlib.sha256(change.encode()).hexdigest()[:10]}"


def row(package: Package, suite: Suite, task: Task) -> dict[str, Any]:
    """The row as it is written."""
    store, original = suite.site.base.store, suite.site.base.tree
    mode = suite.site.entries[task.target.path].mode
    path = task.target.path
    base = store.edit(original, {path: File(task.bug.data, mode), **task.hidden})

    def leaves(data: bytes) -> str:
        return store.edit(original, {path: File(data, mode), **task.hidden})

    with_tests = store.edit(original, {path: File(task.bug.data, mode)})
    return {
        "instance_id": identity(package, task.target, task.bug),
        "repo": f"synth/{package.name}",
        "base_commit": suite.site.base.commit if package.checkout else None,
        "sdist": package.sdist,
        **({"checkout": str(package.checkout)} if package.checkout else {}),
        "problem_statement": task.issue,
        "base_patch": _text(store.diff(original, base)),
        "gold_patch": _text(store.diff(base, leaves(suite.texts[path]))),
        "test_patch": _text(store.diff(base, with_tests)),
        "FAIL_TO_PASS": list(task.fail_to_pass),
        "PASS_TO_PASS": list(task.pass_to_pass),
        "runner": "pytest",
        "python_path": package.python_path,
        "python_pins": list(package.pins),
        "candidate_patches": _candidates(store, base, [(c, leaves(c.data)) for c in task.candidates]),
        "family": task.bug.family,
        "function": f"{package.name}/{task.target.key}",
        "seed": task.seed,
        "split": task.split,
    }


def _candidates(store: Store, base: str, trees: Sequence[tuple[Candidate, str]]) -> list[Mapping[str, Any]]:
    return [
        {"source": one.source, "patch": _text(store.diff(base, tree)), "local_resolved": one.label}
        for one, tree in trees
    ]


def _text(patch: bytes) -> str:
    """Rows are JSON: the mutated file and the test files are UTF-8 (see `mutate.find` and `hide.hidden`)."""
    return patch.decode()
