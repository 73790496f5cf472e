"""Rows that need no image: source distributions with their pins, and checkouts of this machine."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from execcritic.batch.datasets.row import Row
from execcritic.batch.images import ImageSettings
from execcritic.batch.instance import Candidate, Checkout, Gold, Sdist


def distribution(row: Row, settings: ImageSettings) -> Sdist:
    """A release and the packages of its environment. Raises UsageError with the row and the column.

    Only `name==version` is taken: an option, a path or an address would let a data set choose where code comes from.
    """
    return Sdist(
        _pinned(row, "sdist", row.text("sdist")),
        tuple(_pinned(row, "python_pins", pin) for pin in row.texts("python_pins")),
        (_folder(row, "python_path"),),
        row.diff("base_patch", needed=False),
    )


def checkout(row: Row, settings: ImageSettings) -> Checkout:
    """A folder or URL, at `base_commit` where the row has one."""
    return Checkout(row.text("path"), row.option("base_commit"))


def labelled_gold(row: Row) -> Gold:
    """The gold, with the candidate patches where there are any; `gold_patch` may stand for `patch`."""
    return Gold(
        instance=row.text("instance_id"),
        patch=row.diff("gold_patch" if "gold_patch" in row else "patch"),
        test_patch=row.diff("test_patch"),
        fail_to_pass=row.texts("FAIL_TO_PASS"),
        pass_to_pass=row.texts("PASS_TO_PASS") if "PASS_TO_PASS" in row else (),
        candidates=_candidates(row),
    )


def _candidates(row: Row) -> tuple[Candidate, ...]:
    """Numbered where one source gave several; the label found by running here goes before the published one."""
    listed = row.get("candidate_patches") or []
    if not isinstance(listed, list):
        raise row.fault("candidate_patches", "a list of objects is wanted")
    found: list[Candidate] = []
    for number, cells in enumerate(listed, start=1):
        if not isinstance(cells, dict):
            raise row.fault("candidate_patches", f"entry {number} is no object")
        one = Row(f"{row.where}, column candidate_patches, entry {number}", cells)
        found.append(Candidate(f"{one.text('source')}-{number}", one.diff("patch"), _label(one)))
    return tuple(found)


def _label(candidate: Row) -> bool | None:
    for column in ("local_resolved", "official_resolved"):
        label: Any = candidate.get(column)
        if label is not None:
            if not isinstance(label, bool):
                raise candidate.fault(column, "true, false or nothing is wanted")
            return label
    return None


def _pinned(row: Row, column: str, text: str) -> str:
    try:
        one = Requirement(text)
    except InvalidRequirement:
        raise row.fault(column, f"{text[:60]!r} is not name==version") from None
    versions = list(one.specifier)
    exact = len(versions) == 1 and versions[0].operator == "==" and not versions[0].version.endswith("*")
    if not exact or one.url or one.marker or one.extras:
        raise row.fault(column, f"{text[:60]!r} is not name==version")
    return f"{one.name}=={versions[0].version}"


def _folder(row: Row, column: str) -> str:
    path = PurePosixPath(row.option(column) or ".")
    if path.is_absolute() or ".." in path.parts:
        raise row.fault(column, f"{str(path)[:60]!r} is not inside the repository")
    return str(path)
