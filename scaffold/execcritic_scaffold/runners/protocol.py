"""The seam between the harness and a test runner: which program reports, how node ids and files relate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from execcritic_scaffold.paths import Discovery


class Runner(Protocol):
    """A test runner as the harness sees it. Immutable; made from Base alone."""

    name: str
    program: str
    """File name of the reporting program in `inject/`."""
    discovery: Discovery
    arguments: tuple[str, ...]
    """What stays of the repository's own command-line options."""

    import_roots: tuple[str, ...]
    """Directories of the repository that the runner itself puts on the import path, beside source roots."""

    def options(self) -> dict[str, Any]:
        """What the program needs beside nodes and files."""

    def file_of(self, node: str) -> str | None:
        """The repository file a node id lies in; None where the id does not say."""

    def match(self, node: str, collected: Iterable[str]) -> str | None:
        """The collected id meant by a node id in the runner's own form or in SWE-bench's (`name (module.Class)`,
        a bare function name, an id cut at its first blank); None where there is none or more than one."""

    def without(self, arguments: Iterable[str]) -> Runner | None:
        """The same runner with command-line arguments left out that the environment does not know (an absent
        plugin's); None where there is nothing to leave out."""


class RunnerFactory(Protocol):
    """How a runner is made."""

    def detect(self, files: Mapping[str, bytes | None]) -> bool:
        """Whether the repository is this runner's, from Base's paths (bytes for configuration files only)."""

    def create(self, files: Mapping[str, bytes | None], options: Mapping[str, Any] | None = None) -> Runner:
        """The runner for Base; `options` are those a bundle recorded."""
