"""Every count of a report, from one function: denominators are the runs that were asked for, sums are checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from execcritic.batch.results import DONE, NOT_STARTED, Grade, Row

EMPTY_SHARE = 0.1
"""Share of empty patches above which a report warns: a sign of a broken set-up, seldom of hard tasks."""


@dataclass(frozen=True)
class Counts:
    """Counts of runs; `requested` is the denominator of all of them.

    resolved + unresolved + not_graded, qualified + unqualified + gate_unknown, the sum of `decisions` and the sum of
    `endings` are each `requested`.
    """

    requested: int
    instances: int
    endings: Mapping[str, int]
    resolved: int
    unresolved: int
    not_graded: int
    infra: int
    """Runs that the evaluator, or we, hold to have failed for the machine's sake, or maybe."""
    empty: int
    qualified: int
    unqualified: int
    gate_unknown: int
    """Runs without a test by design, and runs that broke off before there was an answer."""
    decisions: Mapping[str, int]
    """Of the frozen test; "none" where there is none."""
    base_to_gold: int
    not_audited: int
    damaged: int
    damage_unknown: int
    gold_fails: int
    """Runs of instances whose reference patch does not pass here."""
    cost: float | None
    """US dollars of all runs together; None where that of one is unknown."""

    @property
    def incomplete(self) -> int:
        """Runs that have no end, or one that is the machine's fault."""
        return self.requested - sum(number for ending, number in self.endings.items() if ending in DONE)

    @property
    def warnings(self) -> list[str]:
        """What a reader has to know before comparing numbers."""
        found = []
        if self.requested == 0:
            found.append("EMPTY: no run was asked for.")
        if self.incomplete:
            ends = ", ".join(f"{name} {number}" for name, number in self.endings.items() if name not in DONE)
            found.append(f"INCOMPLETE: {self.incomplete} of {self.requested} runs did not end ({ends}).")
        if self.empty > EMPTY_SHARE * self.requested:
            found.append(f"{self.empty} of {self.requested} patches are empty; they count as not resolved.")
        if self.not_graded == self.requested and self.requested:
            found.append("Nothing is graded yet; `execcritic swebench evaluate` asks the official evaluator.")
        elif self.not_graded:
            found.append(f"{self.not_graded} of {self.requested} runs are not graded; they count as not resolved.")
        if self.not_audited:
            found.append(f"{self.not_audited} frozen tests are not audited; they count as not Base-to-Gold.")
        if self.gold_fails:
            found.append(f"The reference patch itself fails in {self.gold_fails} runs' environment; they are marked.")
        return found


def count(rows: Iterable[Row]) -> Counts:
    """The counts of these rows."""
    rows = list(rows)
    costs = [row.cost for row in rows if row.ending != NOT_STARTED]
    known = [cost for cost in costs if cost is not None]
    grades = Counter(row.grade for row in rows)
    gate = Counter(row.qualified for row in rows)
    found = Counts(
        requested=len(rows),
        instances=len({row.instance for row in rows}),
        endings=dict(sorted(Counter(row.ending for row in rows).items())),
        resolved=grades[Grade.RESOLVED],
        unresolved=grades[Grade.UNRESOLVED],
        not_graded=grades[Grade.NOT_GRADED],
        infra=sum(row.infra is not None for row in rows),
        empty=sum(row.empty is True for row in rows),
        qualified=gate[True],
        unqualified=gate[False],
        gate_unknown=gate[None],
        decisions=dict(sorted(Counter(row.decision or "none" for row in rows).items())),
        base_to_gold=sum(row.base_to_gold is True for row in rows),
        not_audited=sum(row.qualified is True and row.base_to_gold is None for row in rows),
        damaged=sum(row.damaged is True for row in rows),
        damage_unknown=sum(row.qualified is True and row.damaged is None for row in rows),
        gold_fails=sum(row.control is False for row in rows),
        cost=sum(known) if len(known) == len(costs) else None,
    )
    assert len({(row.instance, row.repeat) for row in rows}) == found.requested, "a run counts twice"
    assert found.resolved + found.unresolved + found.not_graded == found.requested
    assert found.qualified + found.unqualified + found.gate_unknown == found.requested
    assert sum(found.endings.values()) == sum(found.decisions.values()) == found.requested
    return found
