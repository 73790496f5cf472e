"""The task `x = (d, R_B)` of METHOD 2: an issue text and Base, with what the user said about the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SETUP_SECONDS = 1200.0
"""Time for the set-up commands: METHOD 4 allows 600 s for a set-up and 1,200 s where something is installed."""


@dataclass(frozen=True)
class EnvironmentSpec:
    """What the user asked for. None means "find it" (python) or "not used" (image)."""

    python: str | None = None
    image: str | None = None
    setup: tuple[str, ...] = ()
    setup_seconds: float = SETUP_SECONDS
    """For all set-up commands together."""
    setup_env: Mapping[str, str] = field(default_factory=dict)
    source_roots: tuple[str, ...] | None = None
    """Directories of the repository that go to the front of the import path; None: detected."""
    runner: str | None = None
