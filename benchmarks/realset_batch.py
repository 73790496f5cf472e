"""Whole batches on real bugs: `no-test` and `oracle` over ../shared/realset, replayed real model patches, two workers.

Every instance is run once in each mode: a recording plays the Repair agent that hands in a labelled model patch (a
wrong one and a right one in turn, where there are both; the reference patch where there is none). Each batch is killed
(SIGKILL) once a third of it has ended, and gone on with. Then: every instance ended once, no prediction is empty, and
in `oracle` the frozen official test with its guard says what the label says.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _console import SCRIPT, execcritic
from _realset import SHARED, Instance, instances
from _report import Target, arguments, finish, table

QUICK = ("pallets__flask-5063", "psf__requests-6028", "pytest-dev__pytest-10051", "pytest-dev__pytest-10356")


def candidate(instance: Instance, wrong: bool) -> tuple[str, bool]:
    """A patch and whether it resolves the issue: a model's of the kind that is asked for, where there is one."""
    labelled = [c for c in instance["candidate_patches"] if c["local_resolved"] is not None]
    for one in [*(c for c in labelled if c["local_resolved"] is not wrong), *labelled]:
        return one["patch"], one["local_resolved"]
    return instance["gold_patch"], True


def replies(patch: str) -> list[dict[str, Any]]:
    """The Repair agent's turns: apply the patch, hand it in, and stay with it whatever is said."""
    code = base64.b64encode(patch.encode()).decode()
    calls = [("bash", {"command": f"echo {code} | base64 -d | git apply -"})]
    calls += [("submit", {"reason": "done"})] * 2
    return [
        {
            "role_name": "repair",
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            ],
        }
        for name, arguments in calls
    ]


def killed_and_gone_on_with(arguments: Sequence[str], out: Path, runs: int) -> dict[str, Any]:
    """Kill the driver once a third of the runs have ended, then run the same command to its end; its summary."""
    process = subprocess.Popen(
        [str(SCRIPT), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and len(ended(out)) < max(1, runs // 3):
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = len(ended(out))
    answer = execcritic(*arguments, limit=36_000)
    return {"code": answer.code, "before": before, "stderr": answer.stderr[-2000:], **answer.body}


def ended(out: Path) -> list[dict[str, Any]]:
    """The journal's lines of runs that have ended; a torn last line is none."""
    found = []
    if (out / "journal.jsonl").exists():
        for line in (out / "journal.jsonl").read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event["event"] == "ended":
                found.append(event)
    return found


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--out", type=Path, help="where the batches are kept (default: a temporary folder)")
    parser.add_argument("names", metavar="ID", nargs="*", help="instances (default: all)")
    given = parser.parse_args()
    names = given.names or (QUICK if given.quick else list(instances()))
    chosen = {name: candidate(instances()[name], wrong=number % 2 == 0) for number, name in enumerate(names)}
    folder = (given.out or Path(tempfile.mkdtemp(prefix="realset-batch-"))).absolute()
    (folder / "replies").mkdir(parents=True, exist_ok=True)
    for name, (patch, _) in chosen.items():
        lines = [json.dumps(reply) + "\n" for reply in replies(patch)]
        (folder / "replies" / f"{name}.jsonl").write_text("".join(lines))
    pattern = "^(" + "|".join(chosen) + ")$"
    rows, figures = [], {"instances": len(chosen)}
    for mode in ("no-test", "oracle"):
        out = folder / mode
        done = killed_and_gone_on_with(
            ["swebench", "run", "--dataset", str(SHARED), "--filter", pattern, "--mode", mode, "--workers", "2",
             "--model", f"replay:{folder}/replies/{{instance}}.jsonl", "--sandbox", "bubblewrap",
             "--set", "environment.check=false", "--progress", "quiet", "--out", str(out)],
            out, len(chosen),
        )  # fmt: skip
        ends = ended(out)
        last = {event["instance"]: event for event in ends}
        finished = Counter(event["instance"] for event in ends if event["ending"] == "finished")
        predictions = json.loads((out / "preds.json").read_bytes())
        figures[mode] = {
            "ended before the kill": done["before"],
            "exit code": done["code"],
            "finished": len(finished),
            "finished twice": sum(1 for count in finished.values() if count > 1),
            "missing": len(chosen.keys() - finished.keys()),
            "empty predictions": sum(1 for row in predictions.values() if not row["model_patch"].strip()),
        }
        if done["code"] != 0:
            print(done["stderr"], file=sys.stderr)
        for name, (_, right) in chosen.items():
            body = last[name]["body"] if name in last else {}
            rows.append((mode, name, right, *(body.get(key) for key in ("status", "verdict", "reason"))))
    table(("mode", "instance", "resolves", "status", "verdict", "reason"), rows)
    table(
        ("mode", *figures["no-test"]),
        [(mode, *figures[mode].values()) for mode in ("no-test", "oracle")],
    )
    judged = [(row[2], row[4]) for row in rows if row[0] == "oracle" and row[4] in ("PASS", "FAIL")]
    wrong_pass = sum(1 for label, verdict in judged if verdict == "PASS" and not label)
    wrong_fail = sum(1 for label, verdict in judged if verdict == "FAIL" and label)
    print(f"Judged by a frozen official test: {len(judged)} of {len(chosen)}; PASS on a wrong patch: {wrong_pass}, "
          f"FAIL on a right one: {wrong_fail}.")  # fmt: skip
    targets = [
        Target("PASS on a patch labelled wrong", wrong_pass, 0),
        *(Target(f"{mode}: {name}", figures[mode][name], 0) for mode in ("no-test", "oracle")
          for name in ("finished twice", "missing", "empty predictions")),
    ]  # fmt: skip
    return finish(given.json, figures, targets)


if __name__ == "__main__":
    sys.exit(main())
