"""A session that ends in one thread while another finds its runner dead."""

from __future__ import annotations

import os
import threading

import pytest

from execcritic_scaffold.errors import SandboxError
from execcritic_scaffold.sandbox.session import PipeChannel, RunnerSession


def test_it_is_released_once() -> None:
    (theirs, ours), (read, write) = os.pipe(), os.pipe()
    os.close(write)  # the runner is dead
    entered, go_on, releases = threading.Event(), threading.Event(), []

    def release() -> str:
        releases.append(threading.current_thread())
        entered.set()
        go_on.wait(10)
        return "it died"

    session = RunnerSession(PipeChannel(ours, read, lambda: None), "/", release)
    told: list[str] = []

    def find() -> None:
        with pytest.raises(SandboxError) as found:
            session.ping()
        told.append(str(found.value))

    finder, closer = threading.Thread(target=find), threading.Thread(target=session.close)
    finder.start()
    assert entered.wait(10)
    closer.start()
    closer.join(0.2)
    assert closer.is_alive(), "the session is not closed before what it ends has ended"
    go_on.set()
    for thread in (finder, closer):
        thread.join(10)
    os.close(theirs)
    assert len(releases) == 1
    assert "it died" in told[0]
