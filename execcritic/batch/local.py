"""An executor of worker processes on this machine, each of them broken by itself.

`ProcessPoolExecutor` gives up all of its processes and tasks when one is killed. Here each of several threads has one
of a single process, so that only the task in it fails, and the next one gets a new process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_HELD = {signal.SIGINT, signal.SIGHUP, signal.SIGTERM}


class LocalExecutor(ThreadPoolExecutor):
    """At most `workers` processes at a time; a task whose process dies fails with BrokenProcessPool.

    The processes are started with this one's flags (isolated) and module path. A terminal's signals leave them alone:
    who owns the batch tells them to stop. They end with the process that started them.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers, "worker", signal.pthread_sigmask, (signal.SIG_BLOCK, _HELD))
        self._mine = threading.local()
        self._all: list[ProcessPoolExecutor] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return super().submit(lambda: self._in_process(fn, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        for pool in self._all:
            pool.shutdown(wait)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if kind is not None:  # nobody will take what they do
            for child in multiprocessing.active_children():
                child.kill()
        return super().__exit__(kind, error, trace)

    def _in_process(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        pool: ProcessPoolExecutor | None = getattr(self._mine, "pool", None)
        if pool is None:
            # Signals are blocked in this thread, so they are in the new process until it can do with them.
            pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)
            self._mine.pool = pool
            self._all.append(pool)
        try:
            return pool.submit(fn, *args, **kwargs).result()
        except BrokenProcessPool:
            self._mine.pool = None
            self._all.remove(pool)
            pool.shutdown(wait=False)
            raise


def _begin() -> None:
    """The first thing a worker process does."""
    # Not SIG_IGN, which every program started here would inherit: tests that send themselves signals would fail.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # what the run wrote is on disk; its sandboxes end with it, or are removed at the next start
