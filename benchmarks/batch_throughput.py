"""Seconds an instance of a whole batch beside mini-swe-agent, at 1, 2 and 4 workers: the same replayed work for both.

Every instance does the set-up and the twenty commands of ../shared/peers_bench/workload.json in bubblewrap. Ours is
`execcritic swebench run --mode no-test`, from its start to its end, with everything that it writes; mini-swe-agent's
default agent works in threads, as in its own batch runner, and its start is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _batch
from _realset import Unavailable, environment
from _report import Target, arguments, finish, table
from action_overhead import MINI, PATH, WORKLOAD

WORKERS = (1, 2, 4)


def ours(workload: dict[str, Any], instances: int, workers: int) -> float:
    """Seconds of the batch."""
    with tempfile.TemporaryDirectory(prefix="execcritic-bench-") as folder:
        place = Path(folder)
        _batch.write(place, instances, [workload["setup"], *workload["steps"]])
        begin = time.perf_counter()
        _batch.run(place, workers, "bubblewrap", "--python", sys.executable)
        return time.perf_counter() - begin


def mini(workload: dict[str, Any], instances: int, workers: int) -> float:
    """Seconds of the same work."""
    prefixes = [word for prefix in (sys.prefix, sys.base_prefix) for word in ("--ro-bind", prefix, prefix)]
    binds = [w for name in ("usr", "bin", "lib", "lib64", "etc") for w in ("--ro-bind", f"/{name}", f"/{name}")]
    wrapper = ["--unshare-user-try", *binds, "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev", *prefixes]
    with tempfile.TemporaryDirectory(prefix="execcritic-bench-") as folder:
        request = Path(folder, "request.json")
        settings = {"env": {"PATH": PATH}, "wrapper_args": [*wrapper, "--new-session"]}
        asked = {**workload, "workers": workers, "instances": instances, "folder": f"{folder}/work"}
        request.write_text(json.dumps({**asked, "environment": settings}))
        done = subprocess.run(
            [environment([MINI]), Path(__file__).with_name("_mini_batch.py"), request],
            env={**os.environ, "MSWEA_SILENT_STARTUP": "1", "HOME": folder},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise Unavailable(f"mini-swe-agent failed: {done.stderr.strip().splitlines()[-1:]}")
    seconds: float = json.loads(done.stdout.splitlines()[-1])["seconds"]
    return seconds


def main() -> int:
    options = arguments(__doc__).parse_args()
    workload = json.loads(WORKLOAD.read_text())
    instances = 4 if options.quick else 16
    environment([MINI])
    rows, targets = [], []
    for workers in WORKERS:
        own, theirs = ours(workload, instances, workers), mini(workload, instances, workers)
        rows.append((workers, own / instances, theirs / instances, theirs / own))
        targets.append(Target(f"throughput over mini-swe-agent, {workers} workers", theirs / own, 2.0, at_least=True))
    table(("workers", "ours, s an instance", "mini-swe-agent, s an instance", "ratio"), rows)
    return finish(options.json, {"instances": instances, "rows": rows}, targets)


if __name__ == "__main__":
    sys.exit(main())
