"""The warm judge: real jobs in a process of its own, which has no torch and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from execcritic_training.evidence import Outcome, TestEvidence
from execcritic_training.judge_worker import Job
from execcritic_training.warm import WarmJudge, judge_all
from tests.attacks.arena import Files, Layout
from tests.attacks.conftest import MakeArena
from tests.training.arena import CORRECT, WRONG_FIX, gold
from tests.training.recorded import reply, stop, write_run

pytestmark = pytest.mark.bubblewrap
PLAIN = Layout()


@pytest.fixture
def job(make_arena: MakeArena, tmp_path: Path) -> Job:
    arena = make_arena(PLAIN)
    run = write_run(tmp_path / "run", reply("a"), stop("submit_test"), gate={"status": "RESOLVED"}, result={})
    arena.bundle.save(run / "test" / "bundle")
    return Job(str(run), "test", gold(arena, (CORRECT, True), (WRONG_FIX, False)), str(arena.repo))


def children(pid: int) -> list[int]:
    """Processes whose parent, or parent's parent and so on, is `pid`; zombies too."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it ended while we looked
    found, new = [], [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += new
    return found


def test_importing_the_judge_imports_no_torch() -> None:
    code = "import sys, execcritic_training.judge_worker, execcritic_training.warm; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"torch", "transformers", "trl", "numpy"} & set(loaded)


@pytest.mark.slow
def test_jobs_one_after_the_other(job: Job) -> None:
    with WarmJudge() as judge:
        first = judge.judge(job)
        assert isinstance(first, TestEvidence)
        assert (first.base, first.gold, first.turns) == (Outcome.FAIL, Outcome.PASS, 1)
        assert sorted(c.outcome for c in first.candidates) == [Outcome.FAIL, Outcome.PASS]
        assert judge.judge(replace(job, run="/nowhere")).operational is not None
        assert judge.judge(job) == first


def test_a_record_that_cannot_be_read_is_operational(job: Job, tmp_path: Path) -> None:
    """A damaged bundle, a checkout without the Base, no official test: none of it is a reward of 0."""
    before = set(children(os.getpid()))
    nowhere = replace(job, repo=str(tmp_path))
    unofficial = replace(job, role="repair")
    (Path(job.run) / "test" / "bundle" / "test.patch").chmod(0o644)
    (Path(job.run) / "test" / "bundle" / "test.patch").write_bytes(b"x")
    found = judge_all([job, nowhere, unofficial], workers=1)
    assert all(evidence.operational for evidence in found)
    assert set(children(os.getpid())) <= before


@pytest.mark.parametrize(("seconds", "times"), [(1, 3), pytest.param(20, 2, marks=pytest.mark.slow)])
def test_a_judge_that_takes_too_long_is_ended_with_all_it_started(
    seconds: int, times: int, job: Job, make_arena: MakeArena
) -> None:
    """R-F12: at the start of the process, and with a sandbox at work."""
    before = set(children(os.getpid()))
    hangs: Files = {"pkg/__init__.py": "from . import slow\n", "pkg/slow.py": "import time\n\ntime.sleep(600)\n"}
    judge = WarmJudge(seconds)
    most: list[int] = [0]
    with ThreadPoolExecutor(1) as pool:
        for _ in range(times):
            future = pool.submit(judge.judge, replace(job, gold=gold(make_arena(PLAIN), fix=hangs)))
            while not future.done():
                most.append(len(set(children(os.getpid())) - before))
                time.sleep(0.2)
            assert future.result().operational == f"judging took longer than {seconds} s"
            assert set(children(os.getpid())) <= before
    assert seconds < 5 or max(most) > 2, "no sandbox was at work"
    judge.close()
    judge.close()


def test_a_judge_that_dies_is_started_again(job: Job) -> None:
    judge = WarmJudge(seconds=60)
    process = judge._start()
    process.kill()
    process.wait()
    assert judge.judge(replace(job, role="repair")).operational == "the judge's process died"
    assert "official" in str(judge.judge(replace(job, role="repair")).operational)
    judge.close()
