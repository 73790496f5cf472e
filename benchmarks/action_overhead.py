"""What an agent's action costs beyond the command itself: our sessions and mini-swe-agent against a bare shell.

The twenty commands of ../shared/peers_bench/workload.json run in fresh workspaces, round after round, in a bare
persistent bash, in a session of ours (`Session.act`) and in mini-swe-agent's default agent with a replay model, each
in the same kind of sandbox. The cost of an action is its time minus the bare shell's median for the same command; the
table shows medians over the commands. Docker is measured where an engine answers and EXECCRITIC_TEST_IMAGE names an
image with bash, git and pytest.

Before each action of ours and of the bare shell 20 ms pass: a model takes longer than that to answer, and a session
uses the pause to start its next shell. Back to back, without a pause, an action of ours costs about 1 ms more.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _realset import Unavailable, environment
from _report import Target, arguments, finish, table

from execcritic_scaffold.sandbox import registry
from execcritic_scaffold.sandbox.protocol import Limits, Sandbox, Workspace
from execcritic_scaffold.store import EMPTY_TREE

WORKLOAD = Path(__file__).resolve().parents[2] / "shared" / "peers_bench" / "workload.json"
MINI = "mini-swe-agent==2.4.6"
IMAGE = os.environ.get("EXECCRITIC_TEST_IMAGE", "")
PATH = f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"
MOUNTS = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
END = "end-of-action"

Steps = Sequence[str]
Player = Callable[[str, Steps, Path], list[float]]
"""Given set-up, commands and an empty folder: seconds of each command."""


def bare(kind: str) -> Player:
    """One bash behind two pipes, told one command after the other."""

    def play(setup: str, steps: Steps, folder: Path) -> list[float]:
        work = "/testbed" if kind == "docker" else str(folder)
        inside = ["--unshare-all", "--die-with-parent", *MOUNTS, "--bind", work, work, "--chdir", work, "bash"]
        argv = {
            "local": ["bash"],
            "bubblewrap": ["bwrap", *inside],
            "docker": ["docker", "run", "--rm", "-i", "--network", "none", IMAGE, "bash"],
        }[kind]
        env = dict(os.environ) if kind == "docker" else {"PATH": PATH, "HOME": str(folder), "LANG": "C.UTF-8"}
        shell = subprocess.Popen(argv, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert shell.stdin and shell.stdout

        def act(command: str) -> None:
            shell.stdin.write(f"{{ {command}\n}} </dev/null 2>&1\necho; echo {END} $?\n".encode())
            shell.stdin.flush()
            while not (line := shell.stdout.readline()).startswith(END.encode()):
                if not line:
                    raise Unavailable(f"the bare {kind} shell ended early")

        with shell:
            act(setup.replace("/testbed", work))
            seconds = [timed(act, step) for step in steps]
            shell.stdin.close()
        return seconds

    return play


def ours(sandbox: Sandbox) -> Player:
    """`Session.act` of a sandbox."""
    image = IMAGE if sandbox.name == "docker" else None
    interpreter = sandbox.inspect(None if image else sys.executable, image)
    with tempfile.TemporaryDirectory() as empty:
        prepared = sandbox.prepare(EMPTY_TREE, Path(empty), interpreter)

    def play(setup: str, steps: Steps, folder: Path) -> list[float]:
        with sandbox.open(Workspace(prepared), Limits()) as session:
            if session.act(setup.replace("/testbed", session.workdir), 60).exit_code != 0:
                raise Unavailable(f"set-up failed in our {sandbox.name} session")
            return [timed(lambda command: session.act(command, 60), step) for step in steps]

    return play


def mini(kind: str) -> Player:
    """mini-swe-agent's default agent, in its own virtual environment and its own sandbox of that kind."""
    python = environment([MINI])

    def play(setup: str, steps: Steps, folder: Path) -> list[float]:
        prefixes = [word for prefix in (sys.prefix, sys.base_prefix) for word in ("--ro-bind", prefix, prefix)]
        binds = [w for name in ("usr", "bin", "lib", "lib64", "etc") for w in ("--ro-bind", f"/{name}", f"/{name}")]
        wrapper = ["--unshare-user-try", *binds, "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev", *prefixes]
        settings: dict[str, dict[str, Any]] = {
            "local": {"cwd": str(folder), "env": {"PATH": PATH}},
            "bubblewrap": {"cwd": str(folder), "env": {"PATH": PATH}, "wrapper_args": [*wrapper, "--new-session"]},
            "docker": {"cwd": "/testbed", "image": IMAGE, "run_args": ["--rm", "--network", "none"]},
        }
        work = "/testbed" if kind == "docker" else str(folder)
        request = folder.with_suffix(".json")
        request.write_text(
            json.dumps(
                {
                    "kind": kind,
                    "environment": settings[kind],
                    "setup": setup.replace("/testbed", work),
                    "steps": list(steps),
                    "trajectory": str(folder.with_suffix(".traj.json")),
                }
            )
        )
        script = Path(__file__).with_name("_mini_replay.py")
        env = {**os.environ, "MSWEA_SILENT_STARTUP": "1", "HOME": str(folder)}
        done = subprocess.run(
            [python, script, request], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode:
            raise Unavailable(f"mini-swe-agent failed in {kind}: {done.stderr.strip().splitlines()[-1:]}")
        seconds: list[float] = json.loads(done.stdout.splitlines()[-1])["seconds"]
        return seconds

    return play


PAUSE = 0.02


def timed(act: Callable[[str], object], command: str) -> float:
    time.sleep(PAUSE)
    start = time.perf_counter()
    act(command)
    return time.perf_counter() - start


def measure(kind: str, sandbox: Sandbox, rounds: int) -> dict[str, float | None]:
    """Median milliseconds of an action in the bare shell, and of what ours and mini-swe-agent add to it."""
    workload = json.loads(WORKLOAD.read_text())
    players: dict[str, Player] = {"bare": bare(kind), "ours": ours(sandbox)}
    try:
        players["mini"] = mini(kind)
    except Unavailable as reason:
        print(f"{kind}: no mini-swe-agent: {reason}", file=sys.stderr)
    seconds: dict[str, list[list[float]]] = {name: [] for name in players}
    for _ in range(rounds):
        for name, play in players.items():
            folder = Path(tempfile.mkdtemp(prefix="action-"))
            try:
                seconds[name].append(play(workload["setup"], workload["steps"], folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                for rest in (folder.with_suffix(".json"), folder.with_suffix(".traj.json")):
                    rest.unlink(missing_ok=True)
    # Submitting ends mini-swe-agent's episode by an exception, so that its last step may be missing.
    steps = min(len(run) for runs in seconds.values() for run in runs)
    typical = {
        name: [1000 * statistics.median(run[step] for run in runs) for step in range(steps)]
        for name, runs in seconds.items()
    }
    added = {
        name: statistics.median(mine - floor for mine, floor in zip(times, typical["bare"], strict=True))
        for name, times in typical.items()
    }
    return {"bare": statistics.median(typical["bare"]), "ours": added["ours"], "mini": added.get("mini")}


def main() -> int:
    options = arguments(__doc__).parse_args()
    figures: dict[str, dict[str, float | None]] = {}
    targets = []
    for kind in ("local", "bubblewrap", "docker"):
        sandbox = registry.get(kind)
        problem = "EXECCRITIC_TEST_IMAGE is not set" if kind == "docker" and not IMAGE else sandbox.probe()
        if problem:
            print(f"{kind}: not measured: {problem}", file=sys.stderr)
            continue
        try:
            figures[kind] = measure(kind, sandbox, rounds=2 if options.quick else 7)
        finally:
            sandbox.close()
    for kind in ("bubblewrap", "docker"):
        targets.append(Target(f"{kind}: ms an action over the bare shell", figures.get(kind, {}).get("ours"), 2.0))
    measured = figures.get("docker", {})
    theirs, own = measured.get("mini"), measured.get("ours")
    # Below a tenth of a millisecond the difference of two medians is noise.
    ratio = theirs / max(own, 0.1) if theirs is not None and own is not None else None
    targets.append(Target("docker: mini-swe-agent's cost over ours", ratio, 10.0, at_least=True))
    head = ("sandbox", "bare shell, ms", "ours adds, ms", "mini-swe-agent adds, ms")
    table(head, [(kind, f["bare"], f["ours"], f["mini"]) for kind, f in figures.items()])
    return finish(options.json, {"milliseconds": figures}, targets)


if __name__ == "__main__":
    sys.exit(main())
