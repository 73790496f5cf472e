"""The supervisor of the local sandbox ends everything below it, however often it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from execcritic_scaffold.inject import reaper
from tests.scaffold.conformance.boxes import appeared, gone, marker, pids


def test_a_second_signal_does_not_stop_the_clean_up() -> None:
    """A dying parent sends one for each of its threads: the first ends the command, the next came amid the killing."""
    mark = marker()
    script = f"for i in $(seq 40); do (setsid sleep {mark} &); done; exec sleep {mark}"
    report, status = os.pipe()
    argv = [sys.executable, "-I", "-S", reaper.__file__, str(status), str(os.getpid()), "bash", "-c", script]
    with subprocess.Popen(argv, pass_fds=(status,)) as supervisor:
        os.close(status)
        try:
            assert appeared(mark, 41)
            while supervisor.poll() is None:
                supervisor.send_signal(signal.SIGTERM)
                time.sleep(0.0005)
            assert gone(mark)
        finally:
            os.close(report)
            for pid in pids(mark):
                os.kill(pid, signal.SIGKILL)
