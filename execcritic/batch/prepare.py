"""STAND-IN, replaced when the data sets are merged: folders of this machine only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from execcritic.batch.instance import Checkout, Gold, Source
from execcritic.places import Place
from execcritic_scaffold.errors import EnvironmentFailure


@dataclass(frozen=True)
class Prepared:
    """Where the repository lies, and what is known of where its code runs."""

    repo: str
    place: Place
    ref: str | None = None


def with_tests(gold: Gold, source: Source) -> Gold:
    return gold


def prepared(source: Source, runner: str | None = None) -> Prepared:
    """Make a source ready. Raises EnvironmentFailure."""
    if not isinstance(source, Checkout):
        raise EnvironmentFailure("Only folders are known here; name a data set of checkouts.")
    if not Path(source.repo).is_dir():
        raise EnvironmentFailure(f"There is no folder {source.repo}; correct the data set, or make it.")
    return Prepared(source.repo, Place(runner=runner), source.ref)
