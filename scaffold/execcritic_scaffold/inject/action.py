"""One action of an agent: a bash script with a time limit, its output capped while it is read.

Runs inside sandboxes: standard library only, Python 3.6 and later. Each action is a new bash in a new session;
exported variables and the directory go from one to the next through a file that bash itself writes and sources.
"""

import collections
import os
import select
import shlex
import signal
import subprocess
import tempfile
import time

import reaper
from preamble import END, program
from spool import Copy, Spool

DRAIN = 0.02
"""Seconds spent on what is still in the pipe when the shell has ended but something else holds it open, and given to
processes that are about to end before they are reported as left behind."""
NAMED = 8
"""Most names of processes left behind that are reported."""


def give_up():
    """In a child of a runner whose real user id is its own, so that no action can send it a signal: be the agent."""
    agent = os.geteuid()
    os.setresuid(agent, agent, agent)


class Output:
    """The first and the last half of `limit` bytes of a stream; what lies between is counted in `dropped`."""

    def __init__(self, limit):
        self.half = max(limit // 2, 1)
        self.head, self.tail, self.kept = bytearray(), collections.deque(), 0
        self.dropped = 0

    def add(self, data):
        room = max(self.half - len(self.head), 0)
        self.head += data[:room]
        if len(data) > room:
            self.tail.append(data[room:])
            self.kept += len(data) - room
        while self.tail and self.kept - len(self.tail[0]) >= self.half:
            self.kept -= len(self.tail[0])
            self.dropped += len(self.tail.popleft())

    def close(self):
        """The bytes kept; `dropped` is exact from now on."""
        tail = b"".join(self.tail)
        surplus = max(len(tail) - self.half, 0)
        self.dropped += surplus
        return bytes(self.head) + tail[surplus:]


class Waiting:
    """A bash that has restored the state and waits for its script; started ahead, so that its start costs nobody."""

    def __init__(self, saved):
        self.state, self.script = _file(saved), _file(b"")
        self.stream, output = os.pipe()
        go, self.go = os.pipe()
        fds = {"state": self.state.fileno(), "script": self.script.fileno(), "go": go}
        os.set_blocking(self.stream, False)
        try:
            shell = subprocess.Popen(
                ["bash", "--norc", "--noprofile", "-c", program(**fds)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": os.environ["PATH"]},
                pass_fds=list(fds.values()),
                start_new_session=True,
                preexec_fn=None if os.getuid() == os.geteuid() else give_up,
            )
        except OSError:
            self.close()
            os.close(self.stream)
            raise
        finally:
            os.close(output)
            os.close(go)
        shell.returncode = 0  # reaped by housekeeping; subprocess must not wait for it
        self.pid = shell.pid

    def start(self, script):
        """Hand over the script. Raises BrokenPipeError when the shell was killed meanwhile."""
        self.script.write(script)
        self.script.seek(0)
        os.write(self.go, b"\n")

    def close(self):
        """Close all but the output stream; returns the state that the shell wrote, if it did."""
        self.state.seek(0)
        saved = self.state.read()
        self.state.close()
        self.script.close()
        os.close(self.go)
        return saved if saved.endswith(END) else None


class Shell:
    """What one action hands to the next, and how an action is run."""

    def __init__(self, workdir, home, path):
        variables = [
            ("PATH", path), ("HOME", home), ("TMPDIR", os.environ.get("TMPDIR", "/tmp")), ("LANG", "C.UTF-8"),
            ("TERM", "dumb"), ("PAGER", "cat"), ("GIT_PAGER", "cat"), ("MANPAGER", "cat"), ("EDITOR", "true"),
            ("VISUAL", "true"), ("GIT_EDITOR", "true"), ("GIT_SEQUENCE_EDITOR", "true"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
        ]  # fmt: skip
        lines = ["export %s=%s\n" % (name, shlex.quote(value)) for name, value in variables]
        self.state = "".join(lines).encode() + b"cd -- " + shlex.quote(workdir).encode() + b"\n"
        self.spool = Spool(os.path.join(os.environ.get("TMPDIR", "/tmp"), "execcritic-outputs"))
        self.waiting = None
        self.left_open = set()
        # SIGCHLD ends every wait, so that nothing depends on the end of a pipe that a left-over child holds.
        self.wakeup, signalled = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(signalled, False)
        signal.set_wakeup_fd(signalled)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def prepare(self):
        """Start the next action's shell; where no process can be had now, the action itself will try again."""
        try:
            self.waiting = self.waiting or Waiting(self.state)
        except BlockingIOError:
            pass

    def run(self, script, seconds, limit, shown):
        """Returns what the session's host calls an ActionResult, without the seconds, and the output.

        Output of more than `shown` bytes is spooled; None: never.
        """
        output, copy, deadline = Output(limit), Copy(self.spool, shown), time.monotonic() + seconds

        def take(data):
            output.add(data)
            copy.add(data)

        shell, earlier = self._start(script)
        status, closed = None, False
        while status is None and time.monotonic() < deadline:
            streams = {self.wakeup} | self.left_open | (set() if closed else {shell.stream})
            ready = select.select(streams, (), (), max(deadline - time.monotonic(), 0))[0]
            if shell.stream in ready:
                closed = _drain(shell.stream, take)
            status = self.housekeeping(ready).get(shell.pid)
        if status is None:
            reaper.kill_descendants(spare=earlier)
        self._let_go(shell.stream, closed or _drain(shell.stream, take))
        self.state = shell.close() or self.state
        left = [] if status is None else self._left_behind(earlier)
        result = {
            "code": None if status is None else reaper.exit_code(status),
            "timed_out": status is None,
            "spool": copy.close(),
            "running": len(earlier),
            "left_behind": len(left),
            "left_names": reaper.names(left[:NAMED]),
        }
        kept = output.close()
        return dict(result, dropped=output.dropped), kept

    def _left_behind(self, earlier):
        """Pids of what the last action left running; `earlier` are the children that were there before."""
        spare = set(earlier)
        deadline = time.monotonic() + DRAIN
        while set(reaper.children()) - spare:
            left = deadline - time.monotonic()
            if left <= 0:
                return reaper.descendants(os.getpid(), spare)
            self.housekeeping(select.select({self.wakeup} | self.left_open, (), (), left)[0])
        return []

    def housekeeping(self, ready):
        """Reap what ended and swallow what background jobs print, or they would block or get SIGPIPE.

        Returns {pid: wait status} of what was reaped.
        """
        for fd in self.left_open & set(ready):
            self._let_go(fd, _drain(fd, len))
        if self.wakeup in ready:
            _drain(self.wakeup, len)
            return reaper.reap()
        return {}

    def _let_go(self, stream, closed):
        """Keep a stream that a background job still holds, close one that nobody does."""
        self.left_open.add(stream)
        if closed:
            self.left_open.discard(stream)
            os.close(stream)

    def _start(self, script):
        """A shell that runs `script`, and the pids of the jobs that earlier actions left."""
        for _ in range(3):
            try:
                shell, self.waiting = self.waiting or Waiting(self.state), None
                earlier = [pid for pid in reaper.children() if pid != shell.pid]
                shell.start(script)
                return shell, earlier
            except BrokenPipeError:
                # An earlier action's job killed the shell that waited here.
                self._let_go(shell.stream, True)
                shell.close()
            except BlockingIOError:
                # No process left to fork: an earlier action's background jobs took them all.
                reaper.kill_descendants()
        raise OSError("no shell can be started")


def _file(data):
    """An unnamed file that holds `data`, at its start; in memory where Python can, since /tmp may be full."""
    if hasattr(os, "memfd_create"):
        file = os.fdopen(os.memfd_create("state"), "w+b")
    else:
        file = tempfile.TemporaryFile()
    file.write(data)
    file.seek(0)
    return file


def _drain(fd, take):
    """Read what is there, for at most DRAIN seconds; True at the end of the stream."""
    deadline = time.monotonic() + DRAIN
    while time.monotonic() < deadline:
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            return True
        take(data)
    return False
