"""The N x M matrix: which test passes with which patch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from execcritic_scaffold.outcome import Decision, Verdict

NOT_THE_TEST = ("GUARD", "EMPTY_PATCH", "NO_EFFECT")
"""Reasons of a FAIL that the frozen nodes have no part in."""


@dataclass(frozen=True)
class Matrix:
    """Distinct tests and patches by name. `passes` has True or False for each pair with a verdict.

    `weights` says how many episodes, independent of each other, came to the same test or patch (1 where it is silent).
    """

    tests: tuple[str, ...]
    patches: tuple[str, ...]
    passes: Mapping[tuple[str, str], bool]
    weights: Mapping[str, int] = field(default_factory=dict)

    def weight(self, name: str) -> int:
        return self.weights.get(name, 1)

    def passed_by(self, test: str) -> tuple[str, ...]:
        """The patches that pass this test."""
        return tuple(patch for patch in self.patches if self.passes.get((test, patch)))

    def passed(self, patch: str) -> frozenset[str]:
        """The tests that this patch passes."""
        return frozenset(test for test in self.tests if self.passes.get((test, patch)))

    def classes(self) -> dict[frozenset[str], tuple[str, ...]]:
        """Patches by the set of tests they pass (CodeT's consensus sets); those that pass none are left out."""
        found: dict[frozenset[str], tuple[str, ...]] = {}
        for patch in self.patches:
            if tests := self.passed(patch):
                found[tests] = (*found.get(tests, ()), patch)
        return found


def said_by_the_test(verdict: Verdict) -> bool | None:
    """What the frozen nodes alone say of a patch; None where they give no verdict, or none was asked of them."""
    if verdict.decision is Decision.PASS or (verdict.decision is Decision.FAIL and verdict.reason == "GUARD"):
        return True
    if verdict.decision is Decision.FAIL and verdict.reason not in NOT_THE_TEST:
        return False
    return None
