"""STAND-IN, replaced when the data sets are merged: folders of this machine only."""

from __future__ import annotations

from dataclasses import dataclass

from execcritic.batch.instance import Checkout, Source
from execcritic.places import Place
from execcritic_scaffold.errors import EnvironmentFailure


@dataclass(frozen=True)
class Prepared:
    """Where the repository lies, and what is known of where its code runs."""

    repo: str
    place: Place
    ref: str | None = None


def prepared(source: Source) -> Prepared:
    """Make a source ready. Raises EnvironmentFailure."""
    if not isinstance(source, Checkout):
        raise EnvironmentFailure("Only folders are known here; name a data set of checkouts.")
    return Prepared(source.repo, Place(), source.ref)
