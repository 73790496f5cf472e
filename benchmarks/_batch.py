"""A batch of one recorded episode many times over, for the scripts that time whole batches."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from _realset import Unavailable, commit

# The program, with this folder on its path (for a sandbox of ours); what it and its workers took follows on stdout.
_PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
if __name__ == "__main__":
    import json, resource
    from execcritic.cli import run
    code = run(sys.argv[1:])
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({"code": code, "cpu": [own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime],
                      "megabytes": [own.ru_maxrss / 1024, children.ru_maxrss / 1024]}))
"""


@dataclass(frozen=True)
class Took:
    """CPU seconds and peak megabytes of the driver, and of its workers with all below them (peak: of the largest)."""

    cpu: tuple[float, float]
    megabytes: tuple[float, float]


def write(folder: Path, instances: int, steps: Sequence[str]) -> None:
    """A data set of so many instances of one small checkout, and the replies that take these steps in each."""
    base = folder / "base"
    base.mkdir(parents=True)
    (base / "README").write_text("A package will be here.\n")
    commit(base)
    diff = "--- /dev/null\n+++ b/never.txt\n@@ -0,0 +1 @@\n+never\n"
    rows = [
        {"instance_id": f"workload__{number}", "repo": "workload/workload", "path": str(base), "patch": diff,
         "problem_statement": "Addition subtracts.", "test_patch": diff, "FAIL_TO_PASS": ["never"]}
        for number in range(instances)
    ]  # fmt: skip
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    calls = [*(("bash", {"command": step}) for step in steps), ("submit", {"reason": "done"})]
    replies = [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": f"c{turn}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            ],
        }
        for turn, (name, arguments) in enumerate(calls)
    ]
    (folder / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))


def run(folder: Path, workers: int, sandbox: str, *more: str) -> Took:
    """`execcritic swebench run` over it, from start to end. Raises Unavailable where not every run finished."""
    argv = ["swebench", "run", "--dataset", f"{folder}/data.jsonl", "--mode", "no-test", "--workers", str(workers)]
    argv += ["--model", f"replay:{folder}/replies.jsonl", "--sandbox", sandbox, "--setup", "none"]
    argv += ["--out", f"{folder}/out-{workers}", "--progress", "quiet", "--set", "environment.check=false", *more]
    program = folder / "program.py"
    program.write_text(_PROGRAM)
    command = [sys.executable, "-E", "-P", program, str(Path(__file__).parent), *argv]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        answer = {"code": done.returncode}
    if answer["code"] != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-500:]
        raise Unavailable(f"the batch ended with {answer['code']}: {said}")
    return Took((answer["cpu"][0], answer["cpu"][1]), (answer["megabytes"][0], answer["megabytes"][1]))
