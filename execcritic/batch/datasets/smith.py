"""SWE-smith: the image holds the repository without the bug; `patch` makes it, its reverse is the gold patch.

The agents' repository lacks the files of the fail-to-pass tests, as in the branches that SWE-smith publishes. They are
in the image, so the test patch is known only there: see `execcritic.batch.prepare.with_tests`.
"""

from __future__ import annotations

from execcritic.batch.datasets import official
from execcritic.batch.datasets.row import Row
from execcritic.batch.images import ImageSettings
from execcritic.batch.instance import Gold, Image
from execcritic.batch.reverse import reverse
from execcritic_scaffold.errors import PatchError


def source(row: Row, settings: ImageSettings) -> Image:
    """The image, with the bug to be made and the tests to be taken out."""
    image = official.named(row, settings)
    tests = [node.partition("::")[0].removeprefix("../dev/") for node in row.texts("FAIL_TO_PASS")]
    for path in tests:
        if not path.endswith(".py") or path.startswith("/") or ".." in path.split("/"):
            raise row.fault("FAIL_TO_PASS", f"{path!r} is no Python file of the repository, so it cannot be taken out")
    return Image(image.name, base_patch=row.diff("patch"), hidden=tuple(sorted(set(tests))))


def gold(row: Row) -> Gold:
    """The reverse of the bug; the test patch is empty here. Raises UsageError with the row and the column."""
    try:
        fix = reverse(row.diff("patch"))
    except PatchError as error:
        raise row.fault("patch", f"it cannot be turned round ({error})") from None
    return Gold(row.text("instance_id"), fix, b"", row.texts("FAIL_TO_PASS"), row.texts("PASS_TO_PASS"))
