"""A worker killed, the program killed, an interruption: every run ends once, none is lost, nothing is paid twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.openai_server import serve

from ..conftest import SCRIPT, recording
from ..test_resolve import leftovers, wait_for
from .conftest import DONE, RIGHT, Studies, Study, bash

pytestmark = pytest.mark.slow

NAMES = ("a-1", "b-2", "c-3", "d-4")


def slow(batch: Study, seconds: int) -> None:
    """A command that takes long the first time that it runs in an instance, and is done at once the second time."""
    for name in NAMES:
        recording(batch.folder / "replies" / f"{name}.jsonl", bash(RIGHT), bash(f"sleep {seconds}"), DONE)


@pytest.fixture
def begun(study: Studies, environment: Mapping[str, str]) -> Callable[..., tuple[Study, subprocess.Popen[str]]]:
    def begin(seconds: int, *more: object) -> tuple[Study, subprocess.Popen[str]]:
        batch = study({name: [DONE] for name in NAMES})
        slow(batch, seconds)
        process = subprocess.Popen(
            [SCRIPT, *map(str, (*batch.arguments, "--mode", "no-test", "--out", batch.out, "--workers", 2, *more))],
            cwd=batch.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: len(at_work(batch)) == 2)
        return batch, process

    return begin


def at_work(batch: Study) -> list[str]:
    """Instances whose patch is there, and whose long command therefore runs."""
    found = batch.out.glob("runs/*/0/fix.patch")
    return [path.parts[-3] for path in found if not (path.parent / "verdict.json").exists()]


def workers(pid: int) -> list[int]:
    children = Path("/proc", str(pid), "task").glob("*/children")
    found = [int(child) for path in children for child in path.read_text().split()]
    return [pid for pid in found if b"spawn_main" in Path("/proc", str(pid), "cmdline").read_bytes()]


def finished_once(batch: Study) -> None:
    endings = Counter(name for name, ending in batch.ends() if ending == "finished")
    assert endings == dict.fromkeys(NAMES, 1), batch.ends()
    assert all("max(" in patch for patch in batch.predictions().values())
    attempts = Counter((line["event"], line["instance"], line["attempt"]) for line in batch.lines())
    assert set(attempts.values()) == {1}  # each attempt starts once and ends once


def test_a_killed_worker_is_one_infrastructure_failure(begun) -> None:
    batch, process = begun(3)
    os.kill(workers(process.pid)[0], signal.SIGKILL)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    finished_once(batch)
    failed = [line for line in batch.lines() if line.get("ending") == "infra-failed"]
    assert ["process of the run died" in line["reason"] for line in failed] == [True]
    assert "Traceback" not in err


def test_a_killed_program_is_gone_on_with(begun) -> None:
    batch, process = begun(600)
    mine = workers(process.pid)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(Path("/proc", str(pid)).exists() for pid in mine))
    slow(batch, 0)
    ran = batch.run("--mode", "no-test", "--workers", 2)
    assert ran.code == 0, ran
    finished_once(batch)
    assert Counter(ending for _, ending in batch.ends()) == {"finished": 4, "interrupted": 2}
    assert [left for pid in mine for left in leftovers(pid)] == []


def test_an_interruption_finishes_the_turn_and_nothing_else_is_started(begun) -> None:
    batch, process = begun(4)
    for pid in (process.pid, *workers(process.pid)):  # as a terminal does
        os.kill(pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "interrupt again to stop at once" in err
    assert "the same command again goes on" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert [ending for _, ending in batch.ends()] == ["interrupted"] * 2
    record = b"".join(path.read_bytes() for path in batch.out.glob("runs/*/0/repair/trajectory.jsonl"))
    assert record.count(b'"exit_code":0') == 4  # of both: the command that was running came to its end
    slow(batch, 0)
    assert batch.run("--mode", "no-test").code == 0
    finished_once(batch)


def test_two_interruptions_end_it_at_once(begun) -> None:
    batch, process = begun(600)
    mine = workers(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "interrupt again" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    wait_for(lambda: not any(Path("/proc", str(pid)).exists() for pid in mine))
    slow(batch, 0)
    assert batch.run("--mode", "no-test", "--workers", 4).code == 0
    finished_once(batch)


def test_no_reply_is_paid_twice(study: Studies, environment: Mapping[str, str]) -> None:
    """A live endpoint that hangs after one reply; the program is killed; the next start asks only what is left."""
    batch = study({"a-1": [DONE]})
    with serve() as server:
        server.call(("bash", {"command": RIGHT})).hang()
        live = ("--model", "openai:m", "--base-url", server.url, "--mode", "no-test")
        live += ("--set", "model.prices={m: {input: 1000, output: 1000}}", "--set", "batch.cost=100")
        env = {**environment, "OPENAI_API_KEY": "secret-key-value"}
        process = subprocess.Popen(
            [SCRIPT, *map(str, (*batch.arguments, "--out", batch.out, *live))],
            cwd=batch.folder,
            env=env,
            stderr=subprocess.DEVNULL,
        )
        wait_for(lambda: len(server.requests) == 2)
        process.kill()
        process.wait()
        server.call(("submit", {"reason": "done"}))
        ran = batch.run(*live, env={"OPENAI_API_KEY": "secret-key-value"})
        assert ran.code == 0, ran
        assert len(server.requests) == 3
    assert ran.json["cost"] == pytest.approx(2 * 0.12)
    lost, ended = [line["cost"] for line in batch.lines() if line["event"] == "ended"]
    assert (lost, ended) == (pytest.approx(0.12), pytest.approx(0.24))
    record = b"".join(path.read_bytes() for path in batch.out.rglob("*") if path.is_file())
    assert b"secret-key-value" not in record
    assert json.loads((batch.out / "batch.json").read_bytes())["config"]["model"]["prices"]
