"""A sandbox that is killed in the middle of an episode: the fix made before is kept, checked and handed in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.openai_server import assistant, serve

from .conftest import SCRIPT, Cli
from .test_resolve import FAST, RIGHT, wait_for


def below(pid: int) -> list[int]:
    """All processes that descend from this one."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended while we looked
    found, queue = [], [pid]
    while queue:
        above = queue.pop()
        children = [child for child, parent in parents.items() if parent == above]
        found += children
        queue += children
    return found


def test_a_sandbox_killed_from_outside_loses_no_fix(
    cli: Cli, repo: Path, issue: Path, bundle: Path, engine: str, tmp_path: Path
) -> None:
    def kill(handler: Any) -> None:
        runners = [p for p in below(os.getpid()) if Path(f"/proc/{p}/comm").read_text() == "agent-runner\n"]
        assert runners
        for runner in runners:
            os.kill(runner, signal.SIGKILL)
        message = assistant(("bash", {"command": "true"}), turn=1)
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        handler.send(200, json.dumps({"model": "m", "choices": [choice]}).encode(), {})

    with serve() as server:
        server.call(("bash", {"command": RIGHT}))
        server._script.append(kill)
        options = ["--repo", repo, "--issue", issue, "--sandbox", engine, *FAST, "--bundle", bundle]
        model = ["--model", "openai:m", "--base-url", server.url]
        ran = cli("repair", *options, *model, "--out", tmp_path / "run", "--json", env={"OPENAI_API_KEY": "k"})
    assert (ran.code, ran.json["verdict"]) == (0, "PASS"), ran
    assert "runner" in ran.json["error"]
    assert b"max(" in (tmp_path / "run" / "fix.patch").read_bytes()


def test_a_harness_killed_in_the_middle_leaves_the_newest_patch(
    environment: Mapping[str, str], repo: Path, issue: Path, bundle: Path, engine: str, tmp_path: Path
) -> None:
    with serve() as server:
        server.call(("bash", {"command": RIGHT})).hang()
        options = ["--repo", repo, "--issue", issue, "--sandbox", engine, *FAST, "--bundle", bundle]
        model = ["--model", "openai:m", "--base-url", server.url, "--out", tmp_path / "run"]
        process = subprocess.Popen(
            [SCRIPT, "repair", *map(str, [*options, *model])], env={**environment, "OPENAI_API_KEY": "k"}
        )
        try:
            wait_for(lambda: len(server.requests) == 2)
        finally:
            process.kill()
            process.wait()
    assert b"max(" in (tmp_path / "run" / "fix.patch").read_bytes()
