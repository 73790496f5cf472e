"""Django's own suite, run by its `tests/runtests.py`. Node ids are unittest's, relative to `tests/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from execcritic_scaffold.paths import Discovery
from execcritic_scaffold.runners.ids import dotted_form, match_unittest

_PATTERNS = ("test*.py", "*_test.py", "*_tests.py", "tests.py")


@dataclass(frozen=True)
class DjangoRunner:
    """See `Runner`. `known` are Base's files below `tests/`; `settings` the settings module (in-memory SQLite)."""

    discovery: Discovery
    known: frozenset[str]
    settings: str = "test_sqlite"
    arguments: tuple[str, ...] = ()
    import_roots: tuple[str, ...] = ("tests",)
    name: str = "django"
    program: str = "run_django.py"

    def options(self) -> dict[str, Any]:
        return {"settings": self.settings}

    def file_of(self, node: str) -> str | None:
        """The file of a dotted id: the longest prefix that is a file of Base, else all but class and method."""
        dotted = dotted_form(node)
        if dotted is None:
            return None
        parts = dotted.split(".")
        for size in range(len(parts) - 1, 0, -1):
            path = "tests/" + "/".join(parts[:size])
            if path + ".py" in self.known:
                return path + ".py"
        return "tests/" + "/".join(parts[:-2]) + ".py" if len(parts) > 2 else None

    def match(self, node: str, collected: Iterable[str]) -> str | None:
        return match_unittest(node, collected)

    def without(self, arguments: Iterable[str]) -> None:
        return None


def create(files: Mapping[str, bytes | None], options: Mapping[str, Any] | None = None) -> DjangoRunner:
    """The runner for Base."""
    below = frozenset(p for p in files if p.startswith("tests/"))
    folders = {"/".join(p.split("/")[:n]) for p in below for n in range(1, p.count("/") + 1)}
    discovery = Discovery(
        _PATTERNS,
        frozenset(("tests",)),
        only_directories=True,
        source_directories=frozenset(("django",)),
        config_directories=frozenset(("", *folders)),
    )
    return DjangoRunner(discovery, below)


def detect(files: Mapping[str, bytes | None]) -> bool:
    """Django's own repository, not one of its users'."""
    return "tests/runtests.py" in files and "django/__init__.py" in files
