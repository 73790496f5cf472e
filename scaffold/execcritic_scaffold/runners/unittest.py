"""unittest: taken where a repository names it. Node ids are `package.module.Class.method`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from execcritic_scaffold.paths import Discovery, discover
from execcritic_scaffold.runners.ids import dotted_form, match_unittest


@dataclass(frozen=True)
class UnittestRunner:
    """See `Runner`."""

    discovery: Discovery
    arguments: tuple[str, ...] = ()
    import_roots: tuple[str, ...] = ()
    name: str = "unittest"
    program: str = "run_unittest.py"

    def options(self) -> dict[str, Any]:
        return {}

    def file_of(self, node: str) -> str | None:
        dotted = dotted_form(node)
        parts = dotted.split(".") if dotted else []
        return "/".join(parts[:-2]) + ".py" if len(parts) > 2 else None

    def match(self, node: str, collected: Iterable[str]) -> str | None:
        return match_unittest(node, collected)

    def without(self, arguments: Iterable[str]) -> None:
        return None


def create(files: Mapping[str, bytes | None], options: Mapping[str, Any] | None = None) -> UnittestRunner:
    """The runner for Base."""
    return UnittestRunner(discover(files, ("test*.py", "*_test.py", "tests.py")))


def detect(files: Mapping[str, bytes | None]) -> bool:
    """Never by itself: pytest runs unittest suites too. Named with --runner."""
    return False
