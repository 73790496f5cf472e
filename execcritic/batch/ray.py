"""Calls on the machines of a Ray cluster, as a `concurrent.futures.Executor`: one Ray task each.

Ray starts a call again when its node or its worker process is lost, so a call may *start* more than once, and a node
that is only cut off may still be at the first attempt: what is called must be able to take up what an earlier attempt
left (a run directory is resumed). Its future ends once, on the machine that submitted it, which alone writes the
journal. Every node needs this program, of the same version, and its own environment variables: no key travels.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from execcritic import __version__
from execcritic_scaffold.errors import InfrastructureError, UsageError

P = ParamSpec("P")
T = TypeVar("T")
CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Resources:
    """What one call takes of a node. `memory` in bytes; `custom` are resources that nodes were started with
    (`ray start --resources '{"engine": 8}'`), for instance a share of a Docker engine."""

    cpus: float = 1.0
    memory: int | None = None
    custom: Mapping[str, float] = field(default_factory=dict)


class RayExecutor(Executor):
    """Submits to the cluster at `address` (`auto`: the one of this machine; None: one made here, for `workers` calls of
    one CPU at a time). How many are at work in a cluster, its resources say.

    `retries`: how often a call whose node was lost is started again. An exception of the call itself is never a
    reason to. Raises UsageError without Ray, InfrastructureError where the cluster cannot be reached.
    """

    def __init__(
        self,
        workers: int,
        address: str | None = None,
        resources: Resources | None = None,
        retries: int = 3,
    ) -> None:
        ray = _ray()
        self._ray, self._retries = ray, retries
        self._pending: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._own = not ray.is_initialized()
        if self._own:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            try:
                _reach(address)
                # Workers import from the driver's current directory, which may be a stranger's checkout.
                with contextlib.chdir("/"), _own_signals():
                    here: dict[str, Any] = {} if address else {"num_cpus": workers, "include_dashboard": False}
                    ray.init(address=address, log_to_driver=False, **here)
            except (OSError, RuntimeError, ValueError) as error:
                raise InfrastructureError(
                    f"No Ray cluster answers at {address or 'this machine'} ({_line(error)}); start one with "
                    "`ray start --head`, or correct --ray-address."
                ) from None
        wanted = resources or Resources()
        self._task = ray.remote(
            num_cpus=wanted.cpus,
            memory=wanted.memory,
            resources=dict(wanted.custom) or None,
            max_retries=retries,
            retry_exceptions=False,
            max_calls=1,  # a fresh process each: nothing of one call is seen by the next, nor its memory kept
        )(_call)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """A future that ends once: with what `fn` returned or raised, or with InfrastructureError when its node was
        lost too often. Cancelling it cancels the task, at work or not."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the executor has been shut down")
            self._pending.add(future)
        reference = self._task.remote(__version__, fn, args, kwargs)
        future.add_done_callback(lambda done: self._ended(done, reference))
        reference.future().add_done_callback(lambda done: self._deliver(done, future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; `wait` for those submitted, after cancelling them where asked to. Idempotent."""
        with self._lock:
            self._closed = True
            pending = set(self._pending)
        if cancel_futures:
            for future in pending:
                future.cancel()
        if wait:
            _wait(pending)
        if self._own:
            self._own = False
            self._ray.shutdown()

    def _ended(self, future: Future[Any], reference: Any) -> None:
        with self._lock:
            self._pending.discard(future)
        if future.cancelled():
            self._ray.cancel(reference, force=True)

    def _deliver(self, done: Future[Any], future: Future[Any]) -> None:
        """In Ray's thread: hand on what a task ended with."""
        error = done.exception()
        if not future.set_running_or_notify_cancel():
            return
        if error is None:
            future.set_result(done.result())
        else:
            future.set_exception(self._translated(error))

    def _translated(self, error: BaseException) -> BaseException:
        exceptions = self._ray.exceptions
        if isinstance(error, exceptions.RayTaskError):
            cause: BaseException | None = getattr(error, "cause", None)
            return cause if cause is not None else InfrastructureError(f"{_line(error)}; see the worker's log.")
        return InfrastructureError(
            f"The node or the process of a call was lost, and {self._retries} more attempts with it ({_line(error)}); "
            "check the cluster with `ray status` and resume."
        )


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError("Ray is not installed; install it with `pip install 'execcritic[ray]'`.") from None
    return ray


def _reach(address: str | None) -> None:
    """Raises OSError where nothing listens: Ray itself would take minutes to say so."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep this program's own handling of SIGTERM, which Ray replaces by an exit in the middle of whatever goes on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, kept)


def _call(version: str, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    """On a node."""
    if version != __version__:
        raise UsageError(f"This node has execcritic {__version__}, the driver {version}; install the same on both.")
    return function(*args, **kwargs)


def _wait(futures: set[Future[Any]]) -> None:
    wait(futures)


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300].rstrip(".")
