"""Tables of a report as data, and their three forms: Markdown, CSV (one cell a line), JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from execcritic.batch.statistics import Interval


@dataclass(frozen=True)
class Rate:
    """`count` of `of`, with the interval of the share."""

    count: int
    of: int
    interval: Interval | None


Cell = str | int | float | None | Interval | Rate


@dataclass(frozen=True)
class Table:
    """The first cell of a row names it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def body(self) -> dict[str, Any]:
        """As JSON values."""
        rows = [dict(zip(self.head, map(_plain, row), strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows}


def markdown(tables: Iterable[Table]) -> str:
    """All tables one after the other; rates in percent, 95 % intervals in brackets."""
    parts = []
    for table in tables:
        parts += [f"## {table.title}", ""]
        for row in (table.head, tuple("---" for _ in table.head), *table.rows):
            parts.append("| " + " | ".join(_escaped(shown(cell)) for cell in row) + " |")
        parts.append("")
    return "\n".join(parts)


def comma_separated(tables: Iterable[Table]) -> str:
    """One line for each cell: table, row, column, value, low, high, count, of."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(("table", "row", "column", "value", "low", "high", "count", "of"))
    for table in tables:
        for number, row in enumerate(table.rows, 1):
            for column, cell in zip(table.head[1:], row[1:], strict=True):
                name = row[0] if len({r[0] for r in table.rows}) == len(table.rows) else f"{row[0]} ({number})"
                lines.writerow((table.title, name, column, *_parts(cell)))
    return out.getvalue()


def shown(cell: Cell) -> str:
    """A cell for people."""
    match cell:
        case None:
            return "-"
        case Rate():
            if cell.interval is None:
                return f"{cell.count}/{cell.of}"
            low, high = 100 * cell.interval.low, 100 * cell.interval.high
            return f"{100 * cell.interval.value:.1f} [{low:.1f}, {high:.1f}] ({cell.count}/{cell.of})"
        case Interval():
            return f"{_short(cell.value)} [{_short(cell.low)}, {_short(cell.high)}]"
        case float():
            return _short(cell)
    return str(cell)


def _short(number: float) -> str:
    return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def _escaped(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _parts(cell: Cell) -> tuple[object, ...]:
    match cell:
        case Rate(interval=None):
            return (None, None, None, cell.count, cell.of)
        case Rate(interval=Interval() as ends):
            return (ends.value, ends.low, ends.high, cell.count, cell.of)
        case Interval():
            return (cell.value, cell.low, cell.high, None, None)
    return (cell, None, None, None, None)


def _plain(cell: Cell) -> object:
    if isinstance(cell, Rate | Interval):
        return dict(zip(("value", "low", "high", "count", "of"), _parts(cell), strict=True))
    return cell
