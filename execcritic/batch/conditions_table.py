"""The comparison in the shape of METHOD 7: resolved, by where the test came from and by who repaired."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from execcritic.batch.assignment import Mode
from execcritic.batch.folder import Folder
from execcritic.batch.results import Results, Row
from execcritic.batch.tables import Cell, Rate, Table

ORDER = ("none", "oracle")
"""The ends of the table: no test above all others, the official test below."""


def method(results: Sequence[Results], rate: Callable[[Sequence[Row]], Rate]) -> Table:
    """One row for each source of tests, one column for each repair agent; runs of the same cell count together."""
    cells: dict[tuple[str, str], list[Row]] = {}
    for one in results:
        if one.mode != Mode.TEST:
            rows = cells.setdefault((source(one), agent(one)), [])
            rows.extend(row for row in one.rows)
    sources = sorted({key[0] for key in cells}, key=lambda name: (name != ORDER[0], name == ORDER[1], name))
    agents = sorted({key[1] for key in cells})
    table: list[tuple[Cell, ...]] = [
        (name, *(rate(cells[name, column]) if (name, column) in cells else None for column in agents))
        for name in sources
    ]
    return Table("Resolved in % by test source and repair agent", ("test source", *agents), tuple(table))


def agent(one: Results) -> str:
    """Who repaired."""
    return _model(one.manifest.get("models"), "repair") or one.name


def source(one: Results) -> str:
    """Where the frozen tests came from: a Test agent's model, that of another batch's, none, or the official test."""
    if one.mode == Mode.NO_TEST:
        return ORDER[0]
    if one.mode == Mode.ORACLE:
        return ORDER[1]
    models = one.manifest.get("models")
    other = one.manifest.get("bundles")
    if one.mode == Mode.REPAIR and isinstance(other, str):
        try:
            models = json.loads(Folder(Path(other)).manifest.read_bytes())["models"]
        except (OSError, ValueError, KeyError, TypeError):
            return Path(other).name
        return _model(models, "test") or Path(other).name
    return _model(models, "test") or one.name


def _model(models: object, role: str) -> str | None:
    name = models.get(role) if isinstance(models, dict) else None
    return name if isinstance(name, str) else None
