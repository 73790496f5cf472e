"""The pool of processes: a killed one costs its task and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from execcritic.batch import executors
from execcritic.batch.local import LocalExecutor
from execcritic_scaffold.errors import UsageError

OWNER = """
import os, sys, time
from execcritic.batch.local import LocalExecutor

if __name__ == "__main__":
    with LocalExecutor(1) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600).result()
"""


def test_a_killed_process_fails_its_task_alone() -> None:
    with LocalExecutor(2) as pool:
        dying = [pool.submit(signal.raise_signal, signal.SIGKILL) for _ in range(3)]
        others = [pool.submit(abs, -n) for n in range(20)]
        for task in dying:
            with pytest.raises(BrokenProcessPool):
                task.result(timeout=60)
        assert [task.result(timeout=60) for task in others] == [*range(20)]


def test_an_exception_comes_back_and_the_process_stays() -> None:
    with LocalExecutor(1) as pool:
        before = pool.submit(os.getpid).result()
        with pytest.raises(ValueError, match="invalid literal"):
            pool.submit(int, "x").result()
        assert pool.submit(os.getpid).result() == before


def test_a_terminal_s_interrupt_leaves_the_processes_alone() -> None:
    """They get the same signal as who owns the batch; what they start is not to ignore it either."""
    with LocalExecutor(1) as pool:
        pid = pool.submit(os.getpid).result()
        waiting = pool.submit(time.sleep, 0.5)
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGHUP)
        assert waiting.result(timeout=60) is None
        code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
        said = pool.submit(subprocess.check_output, [sys.executable, "-c", code])
        assert said.result(timeout=60) == b"True\n"


def test_they_end_with_their_owner_however_that_ends(tmp_path: Path) -> None:
    (tmp_path / "owner.py").write_text(OWNER)
    owner = subprocess.Popen([sys.executable, tmp_path / "owner.py"], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    owner.kill()
    owner.wait()
    for _ in range(600):
        if not Path("/proc", str(pid)).exists() or "Z" in Path("/proc", str(pid), "stat").read_text().split():
            return
        time.sleep(0.05)
    raise AssertionError("the worker outlived its owner")


def test_executors_by_name() -> None:
    with executors.create("concurrent.futures.ThreadPoolExecutor", 1, {}) as pool:
        assert isinstance(pool, Executor)
    for spec, words in (("remote", "neither a name nor a path"), ("no.such.thing", "No module named 'no'")):
        with pytest.raises(UsageError, match=words):
            executors.create(spec, 1, {})
