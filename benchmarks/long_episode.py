"""A long episode with huge outputs: time, memory and trajectory of ours and of mini-swe-agent's default agent.

250 turns, each a command that prints 1.3 MB; every tenth also changes a file. Ours runs as in a real run (the loop that
keeps the patch, the agent, the OpenAI client over HTTP against a scripted server in a process of its own, a `local`
sandbox), once without a limit on the context and once with a window of 128 000 tokens. mini-swe-agent runs its default
agent in its `local` environment with a replay model in the same process, so without any HTTP. Time is from the first
request to the end; the commands' own time is subtracted from it: that is what a bare shell takes for all of them. CPU
seconds are those of the agent's process alone, and the figure to go by on a busy machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _realset import Unavailable, commit, environment
from _report import Target, arguments, finish, table
from action_overhead import MINI

TURNS, QUICK = 250, 40
WINDOW = 128_000
LINES = 28_260  # of 46 bytes

Figures = dict[str, float]


def commands(turns: int) -> list[str]:
    """What each turn runs: outputs differ, or the agent would rightly be stopped for going round in circles."""
    flood = f"seq -f 'tests/test_module.py::test_case[%06.0f] PASSED' {LINES}"
    return [f"echo turn {n}; {flood}" + (f"; echo {n} >> calc.py" if n % 10 == 0 else "") for n in range(turns)]


def repository(folder: Path) -> Path:
    """A small checkout."""
    tree = folder / "repository"
    (tree / "tests").mkdir(parents=True)
    (tree / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (tree / "tests" / "test_calc.py").write_text(
        "from calc import add\n\n\ndef test_zero():\n    assert add(1, 0) == 1\n"
    )
    commit(tree)
    return tree


def bare(turns: int, folder: Path) -> float:
    """Seconds that one shell takes for all commands, their output read and thrown away."""
    tree, script = repository(folder), folder / "all.sh"
    script.write_text("\n".join(commands(turns)))
    start = time.perf_counter()
    with subprocess.Popen(["bash", script], cwd=tree, stdout=subprocess.PIPE) as shell:
        assert shell.stdout
        while shell.stdout.read(1 << 16):
            pass
    return time.perf_counter() - start


@contextmanager
def server(turns: int, folder: Path) -> Iterator[str]:
    """The base URL of a scripted endpoint."""
    script = folder / "commands.json"
    script.write_text(json.dumps(commands(turns)))
    argv = [sys.executable, Path(__file__).with_name("_scripted_server.py"), script]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        yield process.stdout.readline().strip()
        process.stdin.close()


def ours(turns: int, folder: Path, window: int | None) -> Figures:
    """Our episode."""
    with server(turns, folder) as url:
        request = {"url": url, "turns": turns, "folder": str(folder), "context_tokens": window}
        answer = run(
            [sys.executable, script("_long_replay.py")], folder, request | {"repository": str(repository(folder))}
        )
    if answer["turns"] != turns + 1 or not answer["patch"]:
        raise RuntimeError(f"our episode ended early: {answer}")
    return figures(answer["seconds"], answer, folder / "trajectory.jsonl")


def mini(turns: int, folder: Path) -> Figures:
    """mini-swe-agent's, in its own virtual environment."""
    request = {
        "kind": "local",
        "environment": {"cwd": str(repository(folder)), "env": {}},
        "setup": "true",
        "steps": [*commands(turns), "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"],
        "trajectory": str(folder / "trajectory.json"),
        "unlimited": True,
    }
    answer = run([environment([MINI]), script("_mini_replay.py")], folder, request)
    if len(answer["seconds"]) < turns:
        raise Unavailable(f"mini-swe-agent ended after {len(answer['seconds'])} steps")
    return figures(sum(answer["seconds"]), answer, folder / "trajectory.json")


def script(name: str) -> Path:
    return Path(__file__).with_name(name)


def run(argv: Sequence[str | Path], folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """A script's answer to a request. Raises Unavailable with its last words."""
    path = folder / "request.json"
    path.write_text(json.dumps(request))
    env = {**os.environ, "MSWEA_SILENT_STARTUP": "1", "HOME": str(folder), "EXECCRITIC_CACHE": str(folder / "cache")}
    done = subprocess.run([*argv, path], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"{argv[1]} failed: {done.stderr.strip().splitlines()[-1:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def figures(seconds: float, answer: dict[str, Any], trajectory: Path) -> Figures:
    size = trajectory.stat().st_size / 1e6
    return {"seconds": seconds, "cpu": answer["cpu"], "memory_mb": answer["megabytes"], "trajectory_mb": size}


def main() -> int:
    options = arguments(__doc__).parse_args()
    compared = QUICK if options.quick else TURNS
    rows: dict[str, Figures] = {}
    runs: dict[tuple[str, int], Any] = {
        ("ours, no limit", TURNS): lambda folder: ours(TURNS, folder, None),
        (f"ours, window of {WINDOW} tokens", TURNS): lambda folder: ours(TURNS, folder, WINDOW),
        ("ours, no limit", compared): lambda folder: ours(compared, folder, None),
        ("mini-swe-agent", compared): lambda folder: mini(compared, folder),
    }
    if options.quick:
        del runs[f"ours, window of {WINDOW} tokens", TURNS]
    floors: dict[int, float] = {}
    for (name, turns), play in runs.items():
        with tempfile.TemporaryDirectory(prefix="episode-") as scratch:
            if turns not in floors:
                floors[turns] = bare(turns, Path(scratch, "bare"))
            folder = Path(scratch, "run")
            folder.mkdir()
            try:
                found = play(folder)
            except Unavailable as reason:
                print(f"{name}: not measured: {reason}", file=sys.stderr)
                continue
            rows[f"{name}, {turns} turns"] = {"own": found["seconds"] - floors[turns], **found}
    first = rows[f"ours, no limit, {TURNS} turns"]
    targets = [
        Target("seconds of our own for 250 turns", first["own"], 20.0),
        Target("peak memory, MB", first["memory_mb"], 100.0),
        Target("trajectory, MB", first["trajectory_mb"], 30.0),
    ]
    theirs, same = rows.get(f"mini-swe-agent, {compared} turns"), rows[f"ours, no limit, {compared} turns"]
    head = ("episode", "seconds", "beyond the commands", "CPU seconds", "peak memory, MB", "trajectory, MB")
    shown = ("seconds", "own", "cpu", "memory_mb", "trajectory_mb")
    table(head, [(name, *(found[key] for key in shown)) for name, found in rows.items()])
    ratios = {key: theirs[key] / same[key] for key in same} if theirs else {}
    if ratios:
        table(
            (f"mini-swe-agent over ours, {compared} turns", "ratio"), zip(head[1:], map(ratios.get, shown), strict=True)
        )
    return finish(options.json, {"episodes": rows, "commands_s": floors, "ratios": ratios}, targets)


if __name__ == "__main__":
    sys.exit(main())
