"""SymPy's own runner, what its `bin/test` runs. Named with --runner. Node ids are `path::function`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from execcritic_scaffold.paths import Discovery, discover
from execcritic_scaffold.runners.ids import match_pytest


@dataclass(frozen=True)
class SympyRunner:
    """See `Runner`."""

    discovery: Discovery
    arguments: tuple[str, ...] = ()
    import_roots: tuple[str, ...] = ()
    name: str = "sympy"
    program: str = "run_sympy.py"

    def options(self) -> dict[str, Any]:
        return {}

    def file_of(self, node: str) -> str | None:
        return node.split("::")[0] if "::" in node else None

    def match(self, node: str, collected: Iterable[str]) -> str | None:
        return match_pytest(node, collected)

    def without(self, arguments: Iterable[str]) -> None:
        return None


def create(files: Mapping[str, bytes | None], options: Mapping[str, Any] | None = None) -> SympyRunner:
    """The runner for Base."""
    return SympyRunner(discover(files, ("test_*.py",)))


def detect(files: Mapping[str, bytes | None]) -> bool:
    """Never by itself: SymPy's tests run under pytest too, and their published ids are pytest's."""
    return False
