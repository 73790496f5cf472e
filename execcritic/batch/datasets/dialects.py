"""The dialects that rows are written in: how each is recognised, and which columns it needs.

==============  =====================================  ========================================================
dialect         recognised by                          of its own
==============  =====================================  ========================================================
realset         `sdist`                                a source distribution, pins, `candidate_patches`: local.py
checkout        `path`                                 a folder or URL, at `base_commit` if there is one: local.py
swebench 5      `eval_script`                          `image` has to be there: official.py
swesmith        `image_name`, and no `test_patch`      `patch` makes the bug: smith.py
rebench         `docker_image` or `install_config`     the row names the image: official.py
live            `test_cmds`                            images of another publisher: official.py
swebench        none of these                          full, Lite, Verified, Multilingual: official.py
==============  =====================================  ========================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from execcritic.batch.datasets import local, official, smith
from execcritic.batch.datasets.row import Row
from execcritic.batch.images import ImageSettings
from execcritic.batch.instance import Gold, Instance, Source
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.runners import registry as runners

COMMON = ("instance_id", "repo", "problem_statement", "FAIL_TO_PASS")
OFFICIAL = (*COMMON, "base_commit", "patch", "test_patch", "PASS_TO_PASS")


@dataclass(frozen=True)
class Dialect:
    """One way to write rows. `required`: the columns that every row has, whatever they hold."""

    name: str
    required: tuple[str, ...]
    is_spoken: Callable[[Row], bool]
    source: Callable[[Row, ImageSettings], Source]
    gold: Callable[[Row], Gold]

    def check(self, row: Row) -> None:
        """Raises UsageError for the columns that the row lacks, all of them."""
        missing = [column for column in self.required if column not in row]
        if missing:
            raise UsageError(
                f"{row.where} was read as {self.name} and has no column {', '.join(missing)}; "
                "docs/datasets.md says what a row needs."
            )

    def instance(self, row: Row, settings: ImageSettings) -> Instance:
        """What an agent may know of the row. Raises UsageError with the row and the column."""
        return Instance(
            id=row.text("instance_id"),
            repo=row.text("repo"),
            problem=row.text("problem_statement"),
            source=self.source(row, settings),
            base_commit=row.option("base_commit"),
            version=row.option("version"),
            runner=_runner(row),
        )


DIALECTS = (
    Dialect(
        "realset", (*COMMON, "test_patch", "PASS_TO_PASS", "sdist", "python_pins"),
        lambda row: "sdist" in row, local.distribution, local.labelled_gold,
    ),
    Dialect(
        "checkout", (*COMMON, "path", "patch", "test_patch"),
        lambda row: "path" in row, local.checkout, local.labelled_gold,
    ),
    Dialect(
        "swebench 5", (*OFFICIAL, "image"),
        lambda row: "eval_script" in row, official.named, official.gold,
    ),
    Dialect(
        "swesmith", (*COMMON, "patch", "PASS_TO_PASS", "image_name"),
        lambda row: "image_name" in row and "test_patch" not in row, smith.source, smith.gold,
    ),
    Dialect(
        "rebench", OFFICIAL,
        lambda row: "docker_image" in row or "install_config" in row, official.named, official.gold,
    ),
    Dialect("live", OFFICIAL, lambda row: "test_cmds" in row, official.of_live, official.gold),
    Dialect("swebench", OFFICIAL, lambda row: True, official.of_swebench, official.gold),
)  # fmt: skip
"""In the order in which they are asked; the first that says yes is the row's."""


def of(row: Row) -> Dialect:
    """The dialect of a row, which has been checked for it. Raises UsageError where columns are missing."""
    found = next(dialect for dialect in DIALECTS if dialect.is_spoken(row))
    found.check(row)
    return found


def _runner(row: Row) -> str | None:
    """A data set must not choose what is imported, so only runners of ours."""
    name = row.option("runner")
    if name is not None and name not in runners.NAMES:
        raise row.fault("runner", f"{name!r} is none of {', '.join(runners.NAMES)}")
    return name
