"""Start programs so that they die with this process, from whichever thread they were asked for.

PR_SET_PDEATHSIG, which bubblewrap's --die-with-parent uses, fires when the *thread* that started the child ends. So
every start goes through one thread that lives as long as the process.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO

_lock = threading.Lock()
_starter: tuple[int, ThreadPoolExecutor] | None = None


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    pass_fds: Sequence[int] = (),
    stderr: int | IO[bytes] = subprocess.PIPE,
    cwd: str = "/",
) -> subprocess.Popen[bytes]:
    """Popen with pipes, a session of its own and nothing inherited but `pass_fds`. Raises OSError."""
    return (
        _executor()
        .submit(
            lambda: subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=dict(env),
                cwd=cwd,
                pass_fds=tuple(pass_fds),
                start_new_session=True,
            )
        )
        .result()
    )


def _executor() -> ThreadPoolExecutor:
    global _starter
    with _lock:
        # A forked child has the object but not its thread.
        if _starter is None or _starter[0] != os.getpid():
            _starter = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="start")
        return _starter[1]
