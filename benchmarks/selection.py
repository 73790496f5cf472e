"""When do N tests and M patches beat one of each? The real selection on simulated matrices with known truths.

Tests are valid, demand too much (strict) or demand too little (weak), patches are right or wrong, at known rates. What
a test says of a patch, and every signal, is drawn from `World`; gate, scores and choice are those of the program
(`execcritic_scaffold.selection`) with the program's own numbers. One by one is today's loop: the one test is the gate,
and a patch that passes it counts as resolved.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from _report import Target, arguments, finish, table

from execcritic import config
from execcritic_scaffold.selection.agreement import accepts, dual, notices, rejects
from execcritic_scaffold.selection.choose import choose, gate
from execcritic_scaffold.selection.matrix import Matrix
from execcritic_scaffold.selection.score import Score, Signal, score

Kind = Literal["valid", "strict", "weak"]
SHAPES = ((1, 1), (1, 3), (2, 2), (3, 1), (3, 3), (5, 5))
BAD = (0.0, 0.2, 0.4, 0.6)
SETTINGS = config.load(environ={}).selection


@dataclass(frozen=True)
class World:
    """The rates. Half of the bad tests are strict, half weak, unless `strict_share` says otherwise."""

    bad_tests: float = 0.4
    strict_share: float = 0.5
    right_patches: float = 0.6
    spread: float = 3.0
    """Pseudo-counts of the Beta distribution of an issue's share of right patches: low, and its patches are alike."""
    passes_right: tuple[tuple[Kind, float], ...] = (("valid", 1.0), ("strict", 0.1), ("weak", 1.0))
    passes_wrong: tuple[tuple[Kind, float], ...] = (("valid", 0.1), ("strict", 0.05), ("weak", 0.7))
    same_wrong: float = 0.4
    """Of the wrong patches, those that are wrong in the same way."""
    notices: tuple[tuple[Kind, float], ...] = (("valid", 0.7), ("strict", 0.7), ("weak", 0.25))
    known_literals: tuple[tuple[Kind, float], ...] = (("valid", 0.95), ("strict", 0.7), ("weak", 0.95))
    issue_quotes: tuple[tuple[Kind, float], ...] = (("valid", 0.9), ("strict", 0.75), ("weak", 0.85))
    learns: float = 0.35
    """A wrong patch that fails its gate is right after the revisions, if the gate is valid."""
    spoils: float = 0.3
    """A right patch that fails its gate is wrong after the revisions."""


@dataclass
class Patch:
    right: bool
    way: int
    """Patches that are right, or wrong in the same way, behave alike under every test."""


@dataclass(frozen=True)
class Ended:
    right: bool
    resolved: bool


class Issue:
    """One simulated issue; draws are repeatable by its seed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.draw = world, random.Random(seed)
        share, spread = world.right_patches, world.spread
        self.share = self.draw.betavariate(share * spread, (1 - share) * spread) if 0 < share < 1 else share
        self.results: dict[tuple[int, int], bool] = {}
        self.made = 0

    def test(self) -> Kind:
        if self.draw.random() >= self.world.bad_tests:
            return "valid"
        return "strict" if self.draw.random() < self.world.strict_share else "weak"

    def patch(self, right: bool | None = None) -> Patch:
        right = self.draw.random() < self.share if right is None else right
        self.made += 1
        way = 0 if right else 1 if self.draw.random() < self.world.same_wrong else self.made + 1
        return Patch(right, way)

    def passes(self, number: int, kind: Kind, patch: Patch) -> bool:
        rates = dict(self.world.passes_right if patch.right else self.world.passes_wrong)
        return self.results.setdefault((number, patch.way), self.draw.random() < rates[kind])

    def share_of(self, rates: Sequence[tuple[Kind, float]], kind: Kind, count: int) -> Signal:
        return Signal(sum(self.draw.random() < dict(rates)[kind] for _ in range(count)) / count, count)

    def revised(self, number: int, kind: Kind, patch: Patch) -> Patch:
        """The patch after the revisions against a gate that it fails."""
        if patch.right:
            return self.patch(False) if self.draw.random() < self.world.spoils else patch
        if kind == "valid" and self.draw.random() < self.world.learns:
            return self.patch(True)
        return self.patch(False)


def one_by_one(issue: Issue) -> Ended:
    """Today's loop."""
    kind, patch = issue.test(), issue.patch()
    if not issue.passes(0, kind, patch):
        patch = issue.revised(0, kind, patch)
    return Ended(patch.right, issue.passes(0, kind, patch))


def several(issue: Issue, tests: int, repairs: int, threshold: float) -> Ended:
    """The selection, as `selection.several` does it."""
    kinds = [issue.test() for _ in range(tests)]
    patches = [issue.patch() for _ in range(repairs)]
    fixed = [
        {
            "pinning": issue.share_of(issue.world.known_literals, kind, 2),
            "evidence": issue.share_of(issue.world.issue_quotes, kind, 2),
        }
        for kind in kinds
    ]
    matrix, scores = appraised(issue, kinds, patches, fixed)
    chosen = gate(matrix, scores, threshold)
    if chosen is not None:
        number = int(chosen)
        kind = kinds[number]
        patches = [p if issue.passes(number, kind, p) else issue.revised(number, kind, p) for p in patches]
        matrix, scores = appraised(issue, kinds, patches, fixed)
    choice = choose(matrix, scores, threshold, matrix.passes)
    assert choice.patch is not None
    patch = patches[int(choice.patch.removeprefix("p"))]
    resolved = choice.test is not None and matrix.passes[choice.test, choice.patch]
    return Ended(patch.right, resolved)


def appraised(
    issue: Issue, kinds: Sequence[Kind], patches: Sequence[Patch], fixed: Sequence[dict[str, Signal]]
) -> tuple[Matrix, dict[str, Score]]:
    names, made = [str(n) for n in range(len(kinds))], [f"p{n}" for n in range(len(patches))]
    passes = {
        (names[t], made[p]): issue.passes(t, kind, patch)
        for t, kind in enumerate(kinds)
        for p, patch in enumerate(patches)
    }
    matrix = Matrix(tuple(names), tuple(made), passes)
    classes = matrix.classes()
    asked = max(classes, key=lambda tests: (len(classes[tests]), len(tests)), default=frozenset())
    rates = dict(issue.world.notices)
    mutants = notices(
        {
            (name, mutant): issue.draw.random() >= rates[kinds[int(name)]]
            for mutant in range(SETTINGS.mutants)
            for name in sorted(asked)
        }
    )
    found = {"dual": dual(matrix), "accepts": accepts(matrix), "rejects": rejects(matrix), "mutants": mutants}
    return matrix, {
        name: score({**fixed[n], **{s: one[name] for s, one in found.items() if name in one}}, SETTINGS)
        for n, name in enumerate(names)
    }


def rates(world: World, tests: int, repairs: int, issues: int, threshold: float) -> dict[str, float]:
    """Shares of the issues: right patch handed out, called resolved, called resolved though wrong."""
    ended = [
        one_by_one(Issue(world, seed))
        if tests == repairs == 1
        else several(Issue(world, seed), tests, repairs, threshold)
        for seed in range(issues)
    ]
    return {
        "right": sum(e.right for e in ended) / issues,
        "resolved": sum(e.resolved for e in ended) / issues,
        "wrong_pass": sum(e.resolved and not e.right for e in ended) / issues,
    }


def main() -> int:
    options = arguments(__doc__).parse_args()
    issues = 2000 if options.quick else 10000
    world = World()
    shapes = {f"{n} x {m}": rates(world, n, m, issues, SETTINGS.threshold) for n, m in SHAPES}
    print(f"{issues} issues; {world.right_patches:.0%} of the patches right, {world.bad_tests:.0%} of the tests bad.\n")
    table(
        ("tests x patches", "right patch, %", "called resolved, %", "wrong among these, %"),
        [(name, *_percent(r)) for name, r in shapes.items()],
    )
    alone = world.right_patches
    hurt = {}
    for bad in BAD:
        other = replace(world, bad_tests=bad)
        hurt[f"{bad:.0%}"] = {
            "1 x 1": rates(other, 1, 1, issues, SETTINGS.threshold),
            "3 x 3": rates(other, 3, 3, issues, SETTINGS.threshold),
            "3 x 3, no abstention": rates(other, 3, 3, issues, 0.0),
        }
    print("Right patch handed out, in %, by the share of bad tests.\n")
    table(
        ("bad tests", "no test", *hurt["0%"]),
        [(bad, 100 * alone, *(100 * r["right"] for r in row.values())) for bad, row in hurt.items()],
    )
    print("Wrong among those called resolved, in %.\n")
    table(
        ("bad tests", *hurt["0%"]),
        [(bad, *(_percent(r)[2] for r in row.values())) for bad, row in hurt.items()],
    )
    worst = hurt[f"{BAD[-1]:.0%}"]
    targets = [
        Target("3 x 3 over 1 x 1: right patches", shapes["3 x 3"]["right"] / shapes["1 x 1"]["right"], 1.1, True),
        Target("3 x 3 over 1 x 1: wrong PASS", shapes["3 x 3"]["wrong_pass"] / shapes["1 x 1"]["wrong_pass"], 0.6),
        Target("60 % bad tests, 3 x 3 over no test: right patches", worst["3 x 3"]["right"] / alone, 1.0, True),
    ]
    return finish(options.json, {"shapes": shapes, "bad_tests": hurt}, targets)


def _percent(found: dict[str, float]) -> tuple[float, float, float]:
    wrong = found["wrong_pass"] / found["resolved"] if found["resolved"] else 0.0
    return 100 * found["right"], 100 * found["resolved"], 100 * wrong


if __name__ == "__main__":
    sys.exit(main())
