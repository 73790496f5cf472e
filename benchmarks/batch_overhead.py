"""What a batch takes for itself: 500 instances at 8 workers, in a sandbox in which nothing runs, with a replayed model.

Own time is the CPU time of the driver and its workers, divided by all turns of all instances; the start of the
processes is in it. Memory is compared with that of a fifth of the instances: what grows with them would show.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import _batch
from _report import Target, arguments, finish, table

WORKERS, TURNS = 8, 30


def measured(instances: int) -> tuple[float, float, float, float]:
    """Seconds; milliseconds of CPU time an instance-turn; peak megabytes of the driver, and of the largest worker."""
    with tempfile.TemporaryDirectory(prefix="execcritic-bench-") as folder:
        _batch.write(Path(folder), instances, ["true"] * TURNS)
        begin = time.perf_counter()
        took = _batch.run(Path(folder), WORKERS, "_noop_sandbox:NoSandbox")
        seconds = time.perf_counter() - begin
    return seconds, 1000 * sum(took.cpu) / (instances * (TURNS + 1)), *took.megabytes


def main() -> int:
    options = arguments(__doc__).parse_args()
    instances = 50 if options.quick else 500
    few, many = measured(instances // 5), measured(instances)
    head = ("instances", "seconds", "own ms an instance-turn", "driver, MB", "largest worker, MB")
    table(head, [(instances // 5, *few), (instances, *many)])
    targets = [
        Target("own time of an instance-turn, ms", many[1], 10.0),
        Target("driver's memory over that of a fifth of the instances", many[2] / few[2], 1.2),
        Target("a worker's memory over that of a fifth of the instances", many[3] / few[3], 1.2),
    ]
    return finish(options.json, {"few": few, "many": many}, targets)


if __name__ == "__main__":
    sys.exit(main())
