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

DRAIN = 0.02
"""Seconds spent on what is still in the pipe when the shell has ended but something else holds it open."""
END = b"#end\n"
SAVE = '{{ export -p; printf "cd -- %q; OLDPWD=%q #end\\n" "$PWD" "${{OLDPWD-}}"; }} >/dev/fd/{state}'
# The script is read whole before it runs and is no argument: `pkill -f` in it must not match its own shell. Saving
# both in a trap and at the end serves scripts that call `exit` and scripts that set a trap of their own. When
# memory runs out, what the agent started is a better victim than the runner.
SHELL = (
    "{{ echo 500 >/proc/self/oom_score_adj; }} 2>/dev/null; . /dev/fd/{state};"
    " IFS= read -r -d '' SCRIPT <&{script}; exec {script}<&-; trap '" + SAVE + "' EXIT;"
    ' eval "unset SCRIPT; $SCRIPT"; set -- $?; ' + SAVE + "; exit $1"
)


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


class Shell:
    """What one action hands to the next, and how an action is run."""

    def __init__(self, workdir, home, path):
        variables = [
            ("PATH", path), ("HOME", home), ("TMPDIR", os.environ.get("TMPDIR", "/tmp")), ("LANG", "C.UTF-8"),
            ("TERM", "dumb"), ("PAGER", "cat"), ("GIT_PAGER", "cat"), ("MANPAGER", "cat"), ("EDITOR", "true"),
            ("VISUAL", "true"), ("GIT_EDITOR", "true"), ("PYTHONDONTWRITEBYTECODE", "1"),
        ]  # fmt: skip
        lines = ["export %s=%s\n" % (name, shlex.quote(value)) for name, value in variables]
        self.state = "".join(lines).encode() + b"cd -- " + shlex.quote(workdir).encode() + b"\n"
        self.left_open = set()
        # SIGCHLD ends every wait, so that nothing depends on the end of a pipe that a left-over child holds.
        self.wakeup, signalled = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(signalled, False)
        signal.set_wakeup_fd(signalled)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def run(self, script, seconds, limit):
        """Returns (exit code or None after a time-out, output, bytes dropped, timed out)."""
        earlier = reaper.children_of(os.getpid()) if reaper.has_children() else ()
        output, deadline = Output(limit), time.monotonic() + seconds
        with _file(self.state) as state, _file(script) as text:
            pid, stream = self._spawn(state.fileno(), text.fileno(), earlier)
            status, closed = None, False
            while status is None and time.monotonic() < deadline:
                waiting = {self.wakeup} | self.left_open | (set() if closed else {stream})
                ready = select.select(waiting, (), (), max(deadline - time.monotonic(), 0))[0]
                if stream in ready:
                    closed = _drain(stream, output.add)
                status = self.housekeeping(ready).get(pid)
            if status is None:
                reaper.kill_descendants(spare=earlier)
            if closed or _drain(stream, output.add):
                os.close(stream)
            else:
                self.left_open.add(stream)
            state.seek(0)
            saved = state.read()
        if saved.endswith(END):
            self.state = saved
        code = None if status is None else reaper.exit_code(status)
        return code, output.close(), output.dropped, status is None

    def housekeeping(self, ready):
        """Reap what ended and swallow what background jobs print, or they would block or get SIGPIPE.

        Returns {pid: wait status} of what was reaped.
        """
        for fd in self.left_open & set(ready):
            if _drain(fd, len):
                self.left_open.discard(fd)
                os.close(fd)
        if self.wakeup in ready:
            _drain(self.wakeup, len)
            return reaper.reap()
        return {}

    def _spawn(self, state, script, earlier):
        stream, output = os.pipe()
        os.set_blocking(stream, False)
        argv = ["bash", "--norc", "--noprofile", "-c", SHELL.format(state=state, script=script)]
        options = dict(
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={"PATH": os.environ["PATH"]}, close_fds=True,
            pass_fds=(state, script), start_new_session=True,
        )  # fmt: skip
        try:
            try:
                shell = subprocess.Popen(argv, **options)
            except BlockingIOError:
                # No process left to fork: an earlier action's background jobs took them all.
                reaper.kill_descendants()
                shell = subprocess.Popen(argv, **options)
        finally:
            os.close(output)
        shell.returncode = 0  # reaped by housekeeping; subprocess must not wait for it
        return shell.pid, stream


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
