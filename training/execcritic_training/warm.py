"""Judges that stay warm beside a trainer: processes of their own, without its memory, ended with all they started."""

from __future__ import annotations

import os
import pickle
import queue
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType

from execcritic_training.evidence import RepairEvidence, TestEvidence
from execcritic_training.judge_worker import LENGTH, Job, send

Evidence = TestEvidence | RepairEvidence
GRACE = 5.0
"""Seconds a judge has to close its sandboxes before it is killed."""


class WarmJudge:
    """One process, started when it is first needed and again after it was ended. Not safe for two threads."""

    def __init__(self, seconds: float = 1800.0) -> None:
        """`seconds`: how long one job may take."""
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def judge(self, job: Job) -> Evidence:
        """The evidence of a job. Whatever hinders the judge itself (time, a crash, a record that cannot be read) is in
        the evidence as operational, and nothing is raised for it."""
        process = self._process or self._start()
        try:
            assert process.stdin is not None
            send(process.stdin, job)
            answer = self._answer(process)
        except TimeoutError:
            self._end()
            return _operational(job, f"judging took longer than {self._seconds:g} s")
        except (OSError, EOFError):
            self._end()
            return _operational(job, "the judge's process died")
        except BaseException:
            self._end()
            raise
        return _operational(job, answer) if isinstance(answer, str) else answer

    def close(self) -> None:
        """End the process and everything it started. Idempotent."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)
        self._end()

    def __enter__(self) -> WarmJudge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> subprocess.Popen[bytes]:
        # Not multiprocessing: a spawned child would import the trainer's main module, and torch with it.
        argv = [sys.executable, "-E", "-P", "-m", "execcritic_training.judge_worker"]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, cwd="/"
        )
        return self._process

    def _answer(self, process: subprocess.Popen[bytes]) -> Evidence | str:
        deadline = time.monotonic() + self._seconds
        size = LENGTH.unpack(self._read(process, LENGTH.size, deadline))[0]
        answer: Evidence | str = pickle.loads(self._read(process, size, deadline))
        return answer

    def _read(self, process: subprocess.Popen[bytes], size: int, deadline: float) -> bytes:
        assert process.stdout is not None
        fd, data = process.stdout.fileno(), bytearray()
        ready = select.poll()
        ready.register(fd, select.POLLIN)
        while len(data) < size:
            if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError
            part = os.read(fd, size - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def _end(self) -> None:
        """SIGTERM to the whole group, SIGKILL after `GRACE`; sandboxes die with the process that started them."""
        process, self._process = self._process, None
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def judge_all(jobs: Iterable[Job], workers: int, seconds: float = 1800.0) -> list[Evidence]:
    """The evidence of every job, in order, by `workers` warm processes beside each other; none is left afterwards."""
    judges = [WarmJudge(seconds) for _ in range(workers)]
    free: queue.SimpleQueue[WarmJudge] = queue.SimpleQueue()
    for one in judges:
        free.put(one)

    def work(job: Job) -> Evidence:
        mine = free.get()
        try:
            return mine.judge(job)
        finally:
            free.put(mine)

    try:
        with ThreadPoolExecutor(workers, thread_name_prefix="judge") as pool:
            return list(pool.map(work, jobs))
    finally:
        _close(judges)


def _close(judges: Sequence[WarmJudge]) -> None:
    for one in judges:
        one.close()


def _operational(job: Job, reason: str) -> Evidence:
    if job.role == "test":
        return TestEvidence(submitted=False, turns=0, operational=reason)
    return RepairEvidence(patch=False, turns=0, rounds=0, operational=reason)
