"""SWE-bench and what is written like it: images by name or by the publisher's rule, gold in the usual columns."""

from __future__ import annotations

from execcritic.batch.datasets.row import Row
from execcritic.batch.images import ImageSettings, from_registry, is_name, published
from execcritic.batch.instance import Gold, Image

COLUMNS = ("image", "image_name", "docker_image")
"""Columns that may name the image, in the order in which they are asked."""
SWEBENCH, LIVE = "swebench", "starryzhang"
"""Namespaces on Docker Hub."""


def named(row: Row, settings: ImageSettings) -> Image:
    """The image that the row names. Raises UsageError where it names none."""
    found = _named(row)
    if found is None:
        raise row.fault("image", "it names no image, and for such rows there is no rule")
    return Image(from_registry(found, settings.registry))


def of_swebench(row: Row, settings: ImageSettings) -> Image:
    """The image that the row names, else the one that SWE-bench publishes for it."""
    return _image(row, SWEBENCH, settings)


def of_live(row: Row, settings: ImageSettings) -> Image:
    """The image that the row names, else the one that SWE-bench-Live publishes for it."""
    return _image(row, LIVE, settings)


def gold(row: Row) -> Gold:
    """What only oracle mode, the audit and rewards may read. Raises UsageError with the row and the column."""
    return Gold(
        instance=row.text("instance_id"),
        patch=row.diff("patch"),
        test_patch=row.diff("test_patch"),
        fail_to_pass=row.texts("FAIL_TO_PASS"),
        pass_to_pass=row.texts("PASS_TO_PASS"),
    )


def _image(row: Row, namespace: str, settings: ImageSettings) -> Image:
    name = _named(row) or published(row.text("instance_id"), namespace, settings)
    return Image(from_registry(name, settings.registry))


def _named(row: Row) -> str | None:
    """A row's own name of its image. Its form is checked: it goes to an engine, and into messages."""
    for column in COLUMNS:
        if name := row.option(column):
            if not is_name(name):
                raise row.fault(column, f"{name[:60]!r} is no name of an image")
            return name
    return None
