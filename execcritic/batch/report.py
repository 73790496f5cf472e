"""The report on one or several batches: rates and means with intervals, paired tests, by repository and by round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from execcritic.batch import conditions_table, statistics
from execcritic.batch.assignment import Mode
from execcritic.batch.counts import Counts, count
from execcritic.batch.results import Grade, Results, Row
from execcritic.batch.tables import Cell, Rate, Table
from execcritic_scaffold.errors import InfrastructureError

RATES: dict[str, Callable[[Row], bool]] = {
    "resolved": lambda row: row.grade is Grade.RESOLVED,
    "Base-to-Gold": lambda row: row.base_to_gold is True,
    "qualified": lambda row: row.qualified is True,
    "frozen test passes": lambda row: row.decision == "PASS",
    "wrong-test damage": lambda row: row.damaged is True,
    "inconclusive": lambda row: row.decision == "INCONCLUSIVE",
    "forbidden": lambda row: row.decision in ("FORBIDDEN", "TAMPERED"),
    "empty patch": lambda row: row.empty is True,
}
"""Each over all runs that were asked for."""
MEANS: dict[str, Callable[[Row], float | None]] = {
    "turns": lambda row: row.turns,
    "tokens": lambda row: row.tokens,
    "cost ($)": lambda row: row.cost,
    "seconds": lambda row: row.seconds,
    "balanced accuracy": lambda row: row.balanced_accuracy,
}
"""Each over the runs of which it is known."""
_OF_PATCHES = ("resolved", "frozen test passes", "wrong-test damage", "inconclusive", "forbidden", "empty patch")
_OF_TESTS = ("Base-to-Gold", "qualified", "frozen test passes", "wrong-test damage", "inconclusive", "forbidden")
NAMED = 50
"""Runs that a list names; the JSON form has all."""


@dataclass(frozen=True)
class Report:
    """`exit_code` is not 0 where there is nothing to report on, or runs have no end."""

    results: tuple[Results, ...]
    counts: tuple[Counts, ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        broken = any(counts.requested == 0 or counts.incomplete for counts in self.counts)
        return InfrastructureError.exit_code if broken or not self.counts else 0

    @property
    def body(self) -> dict[str, Any]:
        """Everything, as JSON values: counts and rows of each condition, tables, notes."""
        return {
            "conditions": [
                {
                    "name": one.name,
                    "mode": one.mode,
                    "dataset": one.manifest.get("dataset"),
                    "models": one.manifest.get("models"),
                    "counts": asdict(counts),
                    "rows": [{**asdict(row), "damaged": row.damaged} for row in one.rows],
                }
                for one, counts in zip(self.results, self.counts, strict=True)
            ],
            "tables": [table.body for table in self.tables],
            "notes": list(self.notes),
            "exit_code": self.exit_code,
        }


def build(results: Sequence[Results], by: Iterable[str] = ()) -> Report:
    """The report; `by` names groupings, "repo" or "round"."""
    counts = tuple(count(one.rows) for one in results)
    counted = tuple((one.name, *_counted(found)) for one, found in zip(results, counts, strict=True))
    rates = tuple((one.name, *_rates(one.rows, one.mode)) for one in results)
    means = tuple((one.name, *_means(one.rows)) for one in results)
    tables = [
        Table("Runs", ("condition", *_COUNTED), counted),
        Table("Rates in % [95 % interval]", ("condition", *RATES), rates),
        Table("Means for a run [95 % interval]", ("condition", *MEANS), means),
    ]
    if len(results) > 1:
        tables += [_paired(results), conditions_table.method(results, rate)]
    tables += [_grouped(one, grouping) for grouping in dict.fromkeys(by) for one in results]
    tables += [table for one in results for table in _named(one) if table.rows]
    notes = [
        f"{one.name}: {text}" for one, c in zip(results, counts, strict=True) for text in (*c.warnings, *one.notes)
    ]
    return Report(tuple(results), counts, tuple(tables), tuple(notes))


_COUNTED = (
    "asked for", "instances", "resolved", "unresolved", "not graded", "infrastructure", "empty patch",
    "qualified", "Base gate failed", "no test asked or known", "PASS", "FAIL", "INCONCLUSIVE", "FORBIDDEN", "cost ($)",
)  # fmt: skip


def _counted(counts: Counts) -> tuple[Cell, ...]:
    said = counts.decisions
    return (
        counts.requested, counts.instances, counts.resolved, counts.unresolved, counts.not_graded, counts.infra,
        counts.empty, counts.qualified, counts.unqualified, counts.gate_unknown, said.get("PASS", 0),
        said.get("FAIL", 0), said.get("INCONCLUSIVE", 0), said.get("FORBIDDEN", 0) + said.get("TAMPERED", 0),
        counts.cost,
    )  # fmt: skip


def _rates(rows: Sequence[Row], mode: str) -> tuple[Cell, ...]:
    return tuple(rate(rows, test) if _judged(name, rows, mode) else None for name, test in RATES.items())


def _judged(name: str, rows: Sequence[Row], mode: str) -> bool:
    """Whether a rate says something: the condition has it, and somebody was asked. Else it would be a zero that nobody
    found."""
    if (mode == Mode.NO_TEST and name in _OF_TESTS) or (mode == Mode.TEST and name in _OF_PATCHES):
        return False
    if name == "resolved":
        return not rows or any(row.grade is not Grade.NOT_GRADED for row in rows)
    if name == "Base-to-Gold":
        return not rows or any(row.base_to_gold is not None for row in rows)
    return name != "wrong-test damage" or not rows or any(row.damaged is not None for row in rows)


def rate(rows: Sequence[Row], test: Callable[[Row], bool] = RATES["resolved"]) -> Rate:
    values: dict[str, list[bool]] = {}
    for row in rows:
        values.setdefault(row.instance, []).append(test(row))
    return Rate(sum(map(sum, values.values())), len(rows), statistics.proportion(values))


def _means(rows: Sequence[Row]) -> tuple[Cell, ...]:
    return tuple(statistics.mean(values(rows, value)) for value in MEANS.values())


def values(rows: Sequence[Row], value: Callable[[Row], float | None]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in rows:
        if (number := value(row)) is not None:
            found.setdefault(row.instance, []).append(float(number))
    return found


def _paired(results: Sequence[Results]) -> Table:
    """Every pair of conditions on the instances that both were asked for; what is not graded counts as not resolved."""
    rows: list[tuple[Cell, ...]] = []
    for one, other in combinations(results, 2):
        both = [
            name for name in ("resolved", "Base-to-Gold") if all(_judged(name, o.rows, o.mode) for o in (one, other))
        ]
        for name, value in (*((name, RATES[name]) for name in both), *MEANS.items()):
            found = statistics.paired(values(one.rows, value), values(other.rows, value))
            pair = f"{one.name} - {other.name}"
            rows.append((pair, name, found.pairs, found.first, found.second, found.difference, found.p))
    head = ("pair", "of", "instances", "first higher", "second higher", "difference", "p (McNemar, exact; sign test)")
    return Table("Paired on the same instances", head, tuple(rows))


def _grouped(one: Results, grouping: str) -> Table:
    groups: dict[str, list[Row]] = {}
    for row in one.rows:
        name = row.repo if grouping == "repo" else "-" if row.rounds is None else str(row.rounds)
        groups.setdefault(name, []).append(row)
    rows = tuple((name, *_rates(group, one.mode), *_means(group)) for name, group in sorted(groups.items()))
    title = "repository" if grouping == "repo" else "revision rounds begun"
    return Table(f"{one.name}, by {title}", (title, *RATES, *MEANS), rows)


def _named(one: Results) -> tuple[Table, ...]:
    """Runs that a reader has to know by name."""
    head = ("run", "why")
    ended = [(r, f"{r.ending}: {r.reason or ''}") for r in one.rows if r.ending != "finished"]
    infra = [(r, r.infra) for r in one.rows if r.infra]
    empty = [(r, "no patch; counts as not resolved") for r in one.rows if r.empty]
    marked = [(r, "the reference patch does not pass in this environment") for r in one.rows if r.control is False]
    lists = {"not finished": ended, "infrastructure": infra, "empty patches": empty, "marked": marked}
    return tuple(Table(f"{one.name}, {title}", head, _listed(rows)) for title, rows in lists.items())


def _listed(rows: Sequence[tuple[Row, str | None]]) -> tuple[tuple[Cell, ...], ...]:
    found: list[tuple[Cell, ...]] = [(f"{row.instance} ({row.repeat})", why) for row, why in rows[:NAMED]]
    return (*found, *([(f"and {len(rows) - NAMED} more", "")] if len(rows) > NAMED else []))
