"""Agreement between independent tests and patches: what one of them alone cannot show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import sqrt

from execcritic_scaffold.selection.matrix import Matrix
from execcritic_scaffold.selection.score import Signal


def dual(matrix: Matrix) -> dict[str, Signal]:
    """Dual agreement (CodeT): patches that pass exactly the same tests form a set, and a set counts
    sqrt(patches) x tests.

    A test's value is its best set's share of the best set's count; 0 where no patch passes it though one passes
    another. Observations: the patches with a verdict under the test but one, because a single patch agrees with nobody.
    Without any set nothing is known of any test.
    """
    counts = {
        tests: sqrt(sum(map(matrix.weight, patches))) * sum(map(matrix.weight, tests))
        for tests, patches in matrix.classes().items()
    }
    best = max(counts.values(), default=0.0)
    if not best:
        return {}
    return {
        test: Signal(max((count for tests, count in counts.items() if test in tests), default=0.0) / best, seen - 1)
        for test in matrix.tests
        if (seen := sum(matrix.weight(p) for p in matrix.patches if (test, p) in matrix.passes))
    }


def accepts(matrix: Matrix) -> dict[str, Signal]:
    """Of the patches that another test passes: how many this one passes as well. Low: it may demand too much."""
    return _agreeing(matrix, True)


def rejects(matrix: Matrix) -> dict[str, Signal]:
    """Of the patches that another test fails: how many this one fails as well. Low: it may demand too little.

    A test that no patch passes, while one passes another, is not asked: it may be one that nothing can satisfy.
    """
    return _agreeing(matrix, False)


def _agreeing(matrix: Matrix, result: bool) -> dict[str, Signal]:
    """Pairs of another test and a patch with this result: the share in which the test says the same."""
    asked = [test for test in matrix.tests if matrix.passed_by(test)]
    found = {}
    for test in matrix.tests:
        same = _pairs(matrix, test, asked, result)
        if same:
            total = sum(weight for weight, _ in same)
            found[test] = Signal(sum(weight for weight, agrees in same if agrees) / total, total)
    return found


def _pairs(matrix: Matrix, test: str, asked: Iterable[str], result: bool) -> list[tuple[int, bool]]:
    return [
        (matrix.weight(patch) * matrix.weight(other), matrix.passes[test, patch] is result)
        for other in asked
        if other != test
        for patch in matrix.patches
        if matrix.passes.get((other, patch)) is result and (test, patch) in matrix.passes
    ]


def notices(passes: Mapping[tuple[str, int], bool]) -> dict[str, Signal]:
    """How many mutants of a patch that it passes a test notices, from the results of (test, number of the mutant).

    A mutant that no test notices may behave like the patch itself, so it counts half. Observations: the mutants.
    """
    noticed = {mutant for (_, mutant), passed in passes.items() if not passed}
    found = {}
    for test in dict.fromkeys(test for test, _ in passes):
        results = {mutant: passed for (name, mutant), passed in passes.items() if name == test}
        total = sum(1.0 if mutant in noticed else 0.5 for mutant in results)
        found[test] = Signal(sum(not passed for passed in results.values()) / total, len(results))
    return found
