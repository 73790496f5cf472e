"""End every descendant of this process, however it tried to get away (double fork, setsid, SIGTERM ignored).

Runs inside sandboxes: standard library only, Python 3.6 and later. Also a program, used by the `local` sandbox:
`reaper.py FD PARENT ARGV...` runs one command, ends what it left behind, writes "exit-code left-behind" to FD.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
NAME = 60
"""Characters of a command line that name a process."""


def prctl(option, value):
    """Call prctl(2); does nothing where the C library has none (not Linux)."""
    call = getattr(ctypes.CDLL(None), "prctl", None)
    if call is not None:
        call(option, value if isinstance(value, bytes) else ctypes.c_ulong(value), 0, 0, 0)


def become_subreaper():
    """Make orphaned descendants children of this process, so that none is out of reach."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def parents():
    """Parent of every process that /proc shows, zombies left out: {pid: parent pid}."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/" + name + "/stat", "rb") as stat:
                    fields = stat.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if len(fields) > 1 and fields[0] not in (b"Z", b"X"):
                found[int(name)] = int(fields[1])
    return found


def children():
    """Pids of the direct children of this process, which must have one thread."""
    pid = os.getpid()
    try:
        with open("/proc/self/task/%d/children" % pid) as listed:
            return [int(word) for word in listed.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [child for child, parent in parents().items() if parent == pid]


def descendants(root, spare=()):
    """Pids below `root`, without the subtrees of the direct children named in `spare`."""
    children = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found, queue = [], [pid for pid in children.get(root, []) if pid not in spare]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue.extend(children.get(pid, []))
    return found


def reap():
    """Collect ended children without waiting: {pid: wait status}."""
    ended = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def kill_descendants(spare=(), patience=5.0):
    """SIGKILL everything below this process until nothing is left; returns {pid: status} of those reaped.

    One pass is not enough: what forks between the listing and the signal appears in the next one.
    """
    ended = {}
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        alive = descendants(os.getpid(), spare)
        if not alive:
            break
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.002)
        ended.update(reap())
    ended.update(reap())
    return ended


def names(pids):
    """What processes are called: command line, bounded, and pid; those that ended meanwhile are left out."""
    found = []
    for pid in pids:
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as line:
                words = line.read(4096).decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        # A fork of an action's own shell shows that shell's command line, which is ours and says nothing.
        ours = words[:4] == ["bash", "--norc", "--noprofile", "-c"]
        name = "a subshell" if ours else " ".join(" ".join(words).split())[:NAME] or "a process"
        found.append("%s (pid %d)" % (name, pid))
    return found


def exit_code(status):
    """A wait status as subprocess gives it: negative for a signal."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def end(number, frame):
    # Once: a dying parent sends its signal again as each of its threads ends, and the next would cut the killing short.
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main(argv):
    """Run one command in a session of its own, then end what it left behind; SIGTERM ends it all at once."""
    report = int(argv[0])
    os.set_inheritable(report, False)
    become_subreaper()
    signal.signal(signal.SIGTERM, end)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(argv[1]):  # the parent died before it could be asked for
        return
    try:
        try:
            code = subprocess.Popen(argv[2:], start_new_session=True).wait()
        except OSError as error:
            sys.stderr.write("%s: %s\n" % (argv[2], error.strerror))
            code = 127
        left = len(descendants(os.getpid()))
        os.write(report, ("%d %d" % (code, left)).encode())
    finally:
        kill_descendants()


if __name__ == "__main__":
    main(sys.argv[1:])
