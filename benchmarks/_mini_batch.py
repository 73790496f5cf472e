"""Runs in mini-swe-agent's own environment: many replayed episodes, so many at a time in threads, as its own batch
runner has them; seconds of all of them on stdout.

    python _mini_batch.py REQUEST.json     {"workers", "instances", "folder", "environment": {…}, "setup", "steps": […]}
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _mini_replay import Replay
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir, get_config_from_spec
from minisweagent.environments import get_environment


def episode(request, number):
    folder = Path(request["folder"], str(number))
    folder.mkdir(parents=True)
    environment = get_environment({"environment_class": "bubblewrap", "cwd": str(folder), **request["environment"]})
    ready = environment.execute({"command": request["setup"].replace("/testbed", str(folder))})
    if ready["returncode"] != 0:
        sys.exit(f"set-up failed: {ready}")
    script = [
        {"role": "assistant", "content": f"step {n}", "extra": {"actions": [{"command": step}], "cost": 0.01}}
        for n, step in enumerate(request["steps"])
    ]
    settings = get_config_from_spec(str(builtin_config_dir / "benchmarks" / "swebench.yaml"))["agent"]
    trajectory = folder.with_suffix(".traj.json")
    DefaultAgent(Replay(script), environment, **{**settings, "output_path": trajectory}).run("Addition subtracts.")


def main():
    request = json.loads(Path(sys.argv[1]).read_text())
    begin = time.perf_counter()
    with ThreadPoolExecutor(request["workers"]) as pool:
        list(pool.map(lambda number: episode(request, number), range(request["instances"])))
    print("\n" + json.dumps({"seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()
