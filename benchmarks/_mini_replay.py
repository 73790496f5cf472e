"""Runs in mini-swe-agent's own environment: its default agent replays a workload; seconds of each step, CPU
seconds and peak memory (MB) on stdout.

    python _mini_replay.py REQUEST.json     {"kind", "environment": {…}, "setup", "steps": […], "trajectory"}

With "unlimited" its limits on steps and cost do not hold.

Its classes are used as they are. The script is kept out of the model's configuration, which the stock deterministic
model would write into the trajectory at every step.
"""

import json
import resource
import sys
import time
from pathlib import Path

from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir, get_config_from_spec
from minisweagent.environments import get_environment
from minisweagent.models.test_models import DeterministicModel


class Replay(DeterministicModel):
    """The deterministic model with its script outside the configuration."""

    def __init__(self, script):
        super().__init__(outputs=[], cost_per_call=0.01)
        self.script = iter(script)

    def query(self, messages, **kwargs):
        return next(self.script)


class Timed(DefaultAgent):
    """The default agent; notes when each step ended, its trajectory written."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.ends = []

    def save(self, *args, **kwargs):
        saved = super().save(*args, **kwargs)
        self.ends.append(time.perf_counter())
        return saved


def main():
    request = json.loads(Path(sys.argv[1]).read_text())
    environment = get_environment({"environment_class": request["kind"], **request["environment"]})
    try:
        ready = environment.execute({"command": request["setup"]})
        if ready["returncode"] != 0:
            sys.exit(f"set-up failed: {ready}")
        script = [
            {"role": "assistant", "content": f"step {n}", "extra": {"actions": [{"command": step}], "cost": 0.01}}
            for n, step in enumerate(request["steps"])
        ]
        settings = get_config_from_spec(str(builtin_config_dir / "benchmarks" / "swebench.yaml"))["agent"]
        if request.get("unlimited"):
            settings = {**settings, "step_limit": 0, "cost_limit": 0}
        agent = Timed(Replay(script), environment, **{**settings, "output_path": Path(request["trajectory"])})
        start = time.perf_counter()
        agent.run("Addition subtracts.")
        spans = zip([start, *agent.ends], agent.ends, strict=False)
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = [end - begin for begin, end in spans]
        answer = {"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "megabytes": used.ru_maxrss / 1024}
        print("\n" + json.dumps(answer))  # its log lines stand before
    finally:
        if hasattr(environment, "cleanup"):
            environment.cleanup()


if __name__ == "__main__":
    main()
