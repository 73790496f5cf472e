"""One row of a data set: its columns read with their types checked, and faults that name the row and the column."""

from __future__ import annotations

import ast
import io
import json
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from execcritic_scaffold.errors import UsageError

EXCERPT = 60
"""Characters of a wrong value that a message shows."""


@dataclass(frozen=True)
class Row:
    """`where` says file and row; `cells` are its columns. A column may be written in lower case."""

    where: str
    cells: Mapping[str, Any]

    def __contains__(self, column: str) -> bool:
        return column in self.cells or column.lower() in self.cells

    def get(self, column: str) -> Any:
        """The column's value as it came; None where there is none."""
        return self.cells.get(column, self.cells.get(column.lower()))

    def fault(self, column: str, reason: str) -> UsageError:
        """The error for a column that cannot be used."""
        return UsageError(f"{self.where}, column {column}: {reason}; correct the data set.")

    def text(self, column: str, *, empty: bool = False) -> str:
        """A text. Raises UsageError for anything else, for a missing one and, unless `empty`, for an empty one."""
        value = self.get(column)
        if not isinstance(value, str):
            raise self.fault(column, f"a text is wanted, not {_shown(value)}")
        if not (empty or value.strip()):
            raise self.fault(column, "it is empty")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.fault(column, "it holds half of a surrogate pair, which is no text") from None
        return value

    def option(self, column: str) -> str | None:
        """A text; None where the column is missing or holds nothing."""
        return None if self.get(column) in (None, "") else self.text(column)

    def diff(self, column: str, *, needed: bool = True) -> bytes:
        """A unified diff, which may be empty, and missing where it is not `needed`."""
        if not needed and self.get(column) is None:
            return b""
        return self.text(column, empty=True).encode()

    def texts(self, column: str) -> tuple[str, ...]:
        """A list of texts: as it is, as JSON text, or as Python writes it."""
        value = self.get(column)
        found = _written(value) if isinstance(value, str) else value
        if not isinstance(found, Sequence) or isinstance(found, str):
            raise self.fault(column, f"a list of texts is wanted (or one as JSON or Python text), not {_shown(value)}")
        for item in found:
            if not isinstance(item, str) or not item:
                raise self.fault(column, f"the list holds {_shown(item)}, which is no text")
        return tuple(found)


def _written(text: str) -> Any:
    """The list that a text writes down; None where it writes none, or its commas are missing (as NumPy prints)."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        found = ast.literal_eval(text.strip())
        strings = [
            one for one in tokenize.generate_tokens(io.StringIO(text.strip()).readline) if one.type == tokenize.STRING
        ]
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    # Python joins texts that stand side by side.
    return found if isinstance(found, list | tuple) and len(strings) == len(found) else None


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    shown = repr(value)
    return shown if len(shown) <= EXCERPT else f"{shown[:EXCERPT]}…"
