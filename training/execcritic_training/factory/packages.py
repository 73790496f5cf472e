"""What the factory is given: a checkout, a source distribution by `name==version`, or the list in `packages.yaml`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from execcritic_scaffold.errors import UsageError

LISTED = "listed"
"""Stands for every package of `packages.yaml`."""
PYTEST = "pytest==8.4.2"
"""What runs the tests of a source distribution that is given without pins."""
_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)==([\w.+!-]+)")


@dataclass(frozen=True)
class Package:
    """One package: `sdist` (`name==version`) or `checkout`. `pins` are what its environment holds, `python_path` the
    folder of the source it is imported from."""

    name: str
    sdist: str | None = None
    checkout: Path | None = None
    pins: tuple[str, ...] = ()
    python_path: str = "."

    @property
    def key(self) -> str:
        """What distinguishes it from others in one data set."""
        return self.sdist or self.name


def listed() -> dict[str, Package]:
    """The packages of `packages.yaml` by `name==version`."""
    text = resources.files("execcritic_training.factory").joinpath("packages.yaml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = yaml.safe_load(text)["packages"]
    return {
        row["sdist"]: Package(
            row["sdist"].partition("==")[0], row["sdist"], None, tuple(row["pins"]), row.get("python_path", ".")
        )
        for row in rows
    }


def find(asked: Sequence[str], pins: Sequence[str] = (), python_path: str | None = None) -> list[Package]:
    """The packages asked for, each once. `pins` and `python_path` are for those that are not in the list.

    Raises UsageError for what is neither a folder nor `name==version`.
    """
    known = listed()
    found: dict[str, Package] = {}
    for one in asked:
        match = _REQUIREMENT.fullmatch(one)
        if one == LISTED:
            found |= known
        elif one in known and not pins:
            found[one] = known[one]
        elif match:
            found[one] = Package(match[1], one, None, tuple(pins) or (PYTEST,), python_path or ".")
        elif Path(one).is_dir():
            folder = Path(one).resolve()
            found[folder.name] = Package(folder.name, None, folder, tuple(pins), python_path or ".")
        else:
            raise UsageError(f"{one} is neither a folder nor name==version; give one of them, or {LISTED!r}.")
    return list(found.values())
