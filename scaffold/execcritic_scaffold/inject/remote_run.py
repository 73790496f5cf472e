"""One command as the agent, in a sandbox whose supervisor is root: dropped privileges, limits, streams, its end.

Runs inside sandboxes: standard library only, Python 3.6 and later.
"""

import ctypes
import fcntl
import os
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import time

import reaper
import remote_files
from action import Output

PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
CAPABILITIES = 64
OPEN_FILES = 4096
GRACE = 0.1
"""Seconds in which processes that are just ending are not yet called left behind."""
DRAIN = 2.0
"""Seconds for what is still in the pipes when everything that could write to them has been killed."""
UNLIMITED = 1 << 60


class Runs:
    """What every command of this sandbox has in common: the agent's user id, and how its end is noticed."""

    def __init__(self, uid):
        self.uid = uid
        self.wakeup, signalled = os.pipe()
        for fd in (self.wakeup, signalled):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(signalled)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def environment(self, request):
        """The image's own variables without those that the harness does not want, and over them the command's."""
        unwanted = re.compile(request["unwanted"])
        own = {name: value for name, value in os.environ.items() if not unwanted.match(name)}
        folder, path = request["folder"], own.get("PATH") or request["path"]
        if path.split(":")[0] != folder:
            path = folder + ":" + path
        return dict({"LANG": "C.UTF-8"}, **dict(own, PATH=path, **request["env"]))

    def agent(self, request, runner=False):
        """What turns a forked child into the agent (or its session's runner), and which limits cannot be imposed."""
        alone = not request["network"] and works(own_network)
        bounds = [
            (resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, OPEN_FILES),
            (resource.RLIMIT_NPROC, request["processes"]), (resource.RLIMIT_FSIZE, request["disk"]),
        ]  # fmt: skip

        def become():
            # Before anything of ours: the kernel, short of memory, is to take what the agent runs.
            with open("/proc/self/oom_score_adj", "w") as score:
                score.write("1000")
            if alone:
                own_network()
            for which, limit in bounds:
                hard = resource.getrlimit(which)[1]
                limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
                resource.setrlimit(which, (limit, limit))
            for capability in range(CAPABILITIES):
                reaper.prctl(PR_CAPBSET_DROP, capability)
            os.setgroups([])
            os.setgid(self.uid)
            if runner:  # out of reach of the agent's signals, as process 1 of a container is
                os.setresuid(self.uid + 1, self.uid, self.uid + 1)
            else:
                os.setuid(self.uid)
            reaper.prctl(PR_SET_NO_NEW_PRIVS, 1)

        unenforced = (
            ["disk"]
            + ([] if memory_is_limited() else ["memory"])
            + ([] if alone or request["network"] else ["loopback"])
        )
        return become, unenforced

    def run(self, request, stdin):
        """Returns the fields of the host's Completed, and stdout and stderr one after the other."""
        become, unenforced = self.agent(request)
        places = [remote_files.ROOT, os.fsencode(request["env"]["HOME"])] if request["audit"] else []
        before, killed = [(remote_files.stamps(place), place) for place in places], oom_kills()
        outputs = [Output(request["output"]), Output(request["output"])]
        started = time.monotonic()
        try:
            process = subprocess.Popen(
                [os.fsencode(word) for word in request["argv"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, cwd=os.fsencode(request["cwd"]), env=self.environment(request),
                preexec_fn=become, start_new_session=True, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            outputs[1].add(os.fsencode("%s: %s\n" % (request["argv"][0], error.strerror)))
            status, left = 126 << 8 if isinstance(error, PermissionError) else 127 << 8, 0
        else:
            process.returncode = 0  # reaped below; subprocess must not wait for it
            status, left = self.attend(process, stdin, outputs, started + request["seconds"])
        seconds = time.monotonic() - started
        kept = [output.close() for output in outputs]
        answer = {
            "code": None if status is None else reaper.exit_code(status),
            "seconds": seconds,
            "timed_out": status is None,
            "out_of_memory": oom_kills() > killed,
            "dropped": [output.dropped for output in outputs],
            "stdout": len(kept[0]),
            "left_behind": left,
            "unenforced": unenforced,
            "writes": [
                [os.fsdecode(path) for path in sorted(remote_files.written(was, remote_files.stamps(place)))]
                for was, place in before
            ],
        }
        return answer, b"".join(kept)

    def attend(self, process, stdin, outputs, deadline):
        """Feed and read a command until it or its time has ended, then end all it left; its wait status, how many."""
        streams = {process.stdout.fileno(): outputs[0], process.stderr.fileno(): outputs[1]}
        feeding, pending = process.stdin.fileno(), memoryview(stdin)
        for fd in (feeding, *streams):
            os.set_blocking(fd, False)
        status, left, end = None, 0, deadline
        while status is None or streams:
            if feeding is not None and not pending:
                process.stdin.close()
                feeding = None
            wait = end - time.monotonic()
            if wait <= 0:
                break
            readers = [self.wakeup] + list(streams)
            ready, writable, _ = select.select(readers, [] if feeding is None else [feeding], (), wait)
            for fd in set(ready) & set(streams):
                if not take(fd, streams[fd]):
                    del streams[fd]
            if writable:
                pending = feed(feeding, pending)
            if self.wakeup in ready:
                os.read(self.wakeup, 4096)
                status = reaper.reap().get(process.pid, status)
                if status is not None and end == deadline:
                    left = self.left_behind()
                    self.kill()
                    end = time.monotonic() + DRAIN
        self.kill()
        for fd in list(streams):  # what is there already; nobody is left who could write more
            while take(fd, streams[fd], at_end=True):
                pass
        for file in (process.stdin, process.stdout, process.stderr):
            file.close()
        return status, left

    def left_behind(self):
        end = time.monotonic() + GRACE
        while True:
            reaper.reap()
            count = len(reaper.descendants(os.getpid()))
            if not count or time.monotonic() > end:
                return count
            time.sleep(0.005)

    def kill(self):
        """One signal to all of the agent's processes at once: nothing can fork away from it."""
        while reaper.descendants(os.getpid()):
            child = os.fork()
            if child == 0:
                try:
                    os.setuid(self.uid)
                    os.kill(-1, signal.SIGKILL)
                except OSError:
                    pass
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            reaper.reap()
            time.sleep(0.001)


def take(fd, output, at_end=False):
    """Read once; False at the end of the stream, and with `at_end` when nothing is there."""
    try:
        data = os.read(fd, 1 << 16)
    except BlockingIOError:
        return not at_end
    output.add(data)
    return bool(data)


def feed(fd, pending):
    try:
        return pending[os.write(fd, pending[: 1 << 16]) :]
    except BlockingIOError:
        return pending
    except BrokenPipeError:  # the command does not read its stdin
        return pending[:0]


def own_network():
    """Leave the container's network, on whose loopback the service's own agent may listen, for an empty one."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNET) != 0:
        raise OSError("no network of its own can be made")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def works(what):
    """Whether a function succeeds in a child."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            what()
            code = 0
        except OSError:
            pass
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _first(*names):
    for name in names:
        try:
            with open("/sys/fs/cgroup/" + name) as file:
                return file.read()
        except OSError:
            continue
    return ""


def memory_is_limited():
    limit = _first("memory.max", "memory/memory.limit_in_bytes").strip()
    return limit.isdigit() and int(limit) < UNLIMITED


def oom_kills():
    """How often the kernel has killed something in this container because its memory was used up."""
    found = re.search(r"^oom_kill (\d+)$", _first("memory.events", "memory/memory.oom_control"), re.MULTILINE)
    return int(found.group(1)) if found else 0
