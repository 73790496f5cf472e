"""Where a package's source lies and which interpreter runs its tests: the one door to source distributions."""

from __future__ import annotations

from pathlib import Path

from execcritic import places
from execcritic.batch import sdists
from execcritic.batch.instance import Sdist
from execcritic_training.factory.packages import Package


def ready(package: Package) -> tuple[Path, str | None]:
    """The folder with the package's source and the interpreter with its pins, None for a checkout without pins: found
    as `execcritic` does. Raises EnvironmentFailure with the last words of what failed."""
    python = str(sdists.environment(package.pins)) if package.pins else None
    if package.checkout is not None:
        return package.checkout, python
    return sdists.checkout(Sdist(package.sdist or "", tuple(package.pins)), places.store()), python
