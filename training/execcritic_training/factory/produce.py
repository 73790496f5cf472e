"""The tasks of a few functions of one package: mutants screened in one warm process, then pairs of them, then tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from execcritic_scaffold.settings import HarnessSettings
from execcritic_training.factory import split
from execcritic_training.factory.issue import Writer
from execcritic_training.factory.mutate import mutants, rewrites, together
from execcritic_training.factory.operators import FAMILIES
from execcritic_training.factory.packages import Package
from execcritic_training.factory.row import Task, row
from execcritic_training.factory.screen import Fate, Screened, screen
from execcritic_training.factory.suite import Suite, Target
from execcritic_training.factory.task import Dropped, build

SCREENED = 4
"""Mutants looked at for each task that is wanted of a function: some are not noticed, the others are candidates."""
REWRITES = 4


@dataclass(frozen=True)
class Order:
    """What is wanted: at most `per_function` tasks of a function, all chance from `seed`."""

    seed: int
    per_function: int
    writer: Writer
    settings: HarnessSettings


@dataclass
class Made:
    """What came of one function: `tried` mutants by family and fate, `dropped` tasks by reason."""

    target: Target
    split: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    def counts(self) -> Mapping[str, Any]:
        tried: dict[str, dict[str, int]] = {}
        for (family, fate), count in sorted(self.tried.items()):
            tried.setdefault(family, {})[fate] = count
        return {"tried": tried, "dropped": dict(sorted(self.dropped.items()))}


def produce(package: Package, suite: Suite, targets: Sequence[Target], order: Order) -> list[Made]:
    """What came of each function, in order. Raises SandboxError."""
    made = [Made(t, split.of_function(f"{package.key}/{t.key}", order.seed)) for t in targets]
    singles = _singles(suite, made, order)
    doubles = _doubles(suite, made, singles, order)
    for one, screened, double in zip(made, singles, doubles, strict=True):
        broken = [s for s in screened if s.fate is Fate.BROKEN and s.mutant.family in FAMILIES]
        bugs: list[tuple[Screened, list[Screened]]] = [(bug, []) for bug in broken]
        if double is not None and double.fate is Fate.BROKEN:
            # One of several, or the only one where there is room for one: those have partial fixes.
            bugs.insert(order.per_function - 1, (double, broken[:2]))
        for bug, partial in bugs:
            if len(one.rows) == order.per_function:
                break
            others = [s for s in screened if s is not bug and s not in partial]
            task = build(suite, one.target, one.split, order.seed, bug, partial, others, order.writer, order.settings)
            if isinstance(task, Task):
                one.rows.append(row(package, suite, task))
            else:
                one.dropped[str(task)] += 1
                if task is Dropped.TWIN:
                    break
    return made


def _singles(suite: Suite, made: Sequence[Made], order: Order) -> list[list[Screened]]:
    """Mutants and rewrites of each function, screened."""
    work = []
    for one in made:
        data = suite.texts[one.target.path]
        families = split.families(FAMILIES, one.split, order.seed)
        found = mutants(data, one.target, families, SCREENED * order.per_function, order.seed)
        work.append([*found, *rewrites(data, one.target, REWRITES, order.seed)] if found else [])
    flat = screen(
        suite, [(m.target, one) for m, found in zip(made, work, strict=True) for one in found], order.settings
    )
    answers = iter(flat)
    result = [[next(answers) for _ in found] for found in work]
    for one, screened in zip(made, result, strict=True):
        one.tried.update((s.mutant.family, str(s.fate)) for s in screened)
    return result


def _doubles(
    suite: Suite, made: Sequence[Made], singles: Sequence[Sequence[Screened]], order: Order
) -> list[Screened | None]:
    """For each function its first two broken mutants at once, where they can be."""
    pairs = []
    for one, screened in zip(made, singles, strict=True):
        broken = [s.mutant for s in screened if s.fate is Fate.BROKEN and s.mutant.family in FAMILIES][:2]
        apart = len(broken) == 2 and not broken[0].overlaps(broken[1])
        both = together(suite.texts[one.target.path], *broken) if apart else None
        pairs.append((one.target, both))
    work = [(target, both) for target, both in pairs if both is not None]
    answers = iter(screen(suite, work, order.settings) if work else [])
    return [next(answers) if both is not None else None for _, both in pairs]
