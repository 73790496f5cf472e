"""How many tasks the factory makes of the listed packages, in what time, and what becomes of the mutants by family.

The times are of this machine as it is; the counts are not.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from _report import Target, arguments, finish, table

from execcritic_training.factory.issue import template
from execcritic_training.factory.make import Request, make
from execcritic_training.factory.packages import LISTED, find
from execcritic_training.factory.screen import Fate

QUICK = ("cachetools==6.1.0", "toolz==1.0.0")
TASKS, PACKAGES, HOUR = 500, 10, 3600.0


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("packages", nargs="*", metavar="NAME==VERSION", help="packages (default: all that are listed)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="sandboxes at the same time (default 2)")
    parser.add_argument("--limit", type=int, default=60, metavar="N", help="tasks of each package (default 60)")
    parser.add_argument("--per-function", type=int, default=3, metavar="N", help="tasks of each function (default 3)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the data set there, and go on with what is there")
    options = parser.parse_args()
    asked = options.packages or (QUICK if options.quick else [LISTED])
    with tempfile.TemporaryDirectory() as scratch:
        request = Request(
            find(asked),
            options.out or Path(scratch) / "tasks",
            template,
            per_function=options.per_function,
            limit=4 if options.quick else options.limit,
            jobs=options.jobs,
        )
        body = make(request, lambda text: print(text, file=sys.stderr, flush=True))
    show(body)
    whole = not options.packages and not options.quick
    targets = [
        Target("tasks", body["tasks"], TASKS, at_least=True),
        Target("packages with tasks", sum(map(bool, body["packages"].values())), PACKAGES, at_least=True),
        Target("seconds", body["seconds"], HOUR),
    ]
    return finish(options.json, body, targets if whole else [])


def show(body: dict[str, Any]) -> None:
    """The tables."""
    table(("package", "tasks"), [*body["packages"].items(), ("all", body["tasks"])])
    fates = [str(fate) for fate in Fate]
    rows = [(name, *(counts.get(key, 0) for key in ("tasks", "mutants", *fates)))
            for name, counts in body["families"].items()]  # fmt: skip
    table(("family", "tasks", "mutants", *fates), rows)
    table(("broken mutants that made no task", "count"), body["dropped"].items())
    print(f"{body['seconds']} seconds, splits: {body['splits']}, left out: {body['skipped'] or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
