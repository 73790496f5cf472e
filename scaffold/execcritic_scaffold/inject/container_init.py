"""Process 1 of a container: remove what the patch deletes, run one command, end all it left behind.

    python -I -S container_init.py NONCE SECONDS DELETED ARGV...

DELETED is a file of NUL-separated workspace paths ("-": none), for which a tar archive has no word. With "-" for
NONCE the command takes this process's place (a session's runner looks after its own children). Else, when the
command ends, everything else in the container is killed first; only then is the trailer written to stderr, so that
nothing can write after it: NONCE, then how many processes outlived the command, then its exit code (negative: the
signal that ended it, which the engine's own 128 + n cannot tell from an exit code). The command can read NONCE; that
this process's own exit status fits the trailer is what the engine says.

Plain standard library, Python 3.6 and later: it runs on whatever Python an image has.
"""

import os
import shutil
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import reaper  # noqa: E402

ROOT = b"/testbed"
GRACE = 0.1
"""Seconds in which processes that are just ending are not yet called left behind."""


def delete(paths):
    """Remove files of the workspace, the byte code of removed modules, and directories that this empties."""
    for path in filter(None, paths):
        full = os.path.join(ROOT, path)
        try:
            if os.path.isdir(full) and not os.path.islink(full):
                shutil.rmtree(full)
            else:
                os.unlink(full)
        except (FileNotFoundError, NotADirectoryError):
            pass
        folder, name = os.path.split(full)
        if name.endswith(b".py"):
            delete_byte_code(os.path.join(folder, b"__pycache__"), name[:-3])
        while folder != ROOT:
            try:
                os.rmdir(folder)
            except OSError:  # not empty, or gone already
                break
            folder = os.path.dirname(folder)


def delete_byte_code(cache, module):
    try:
        names = os.listdir(cache)
    except OSError:
        return
    try:
        for name in names:
            if name.startswith(module + b"."):
                os.unlink(os.path.join(cache, name))
        if not os.listdir(cache):
            os.rmdir(cache)
    except PermissionError:  # read-only beside a frozen file; without its source nobody loads it
        return


def spawn(argv):
    """Start the command in a session of its own, with the signal handling a program expects."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, ("%s: %s\n" % (argv[0], error.strerror)).encode("utf-8", "surrogateescape"))
        os._exit(126 if isinstance(error, PermissionError) else 127)
    finally:
        os._exit(127)


def wait_for(child, deadline):
    """Exit code of the child, negative for a signal. As process 1 it also reaps every orphan.

    After the deadline the harness must be gone, or it would have stopped this container before. No handler and no
    alarm: to process 1 the kernel delivers only what it has a handler for, and so nothing that is sent from inside.
    """
    while True:
        ended = reaper.reap()
        if child in ended:
            return reaper.exit_code(ended[child])
        left = deadline - time.monotonic()
        if left <= 0:
            os._exit(137)
        signal.sigtimedwait([signal.SIGCHLD], left)


def left_behind():
    end = time.monotonic() + GRACE
    while True:
        reaper.reap()
        count = len(reaper.descendants(os.getpid()))
        if not count or time.monotonic() > end:
            return count
        time.sleep(0.005)


def kill_all():
    """One signal to everything in the namespace at once: nothing can fork away from it, as from one pid at a time."""
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return
        reaper.reap()
        time.sleep(0.001)


def main():
    nonce, seconds, deleted, argv = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    if deleted != "-":
        with open(deleted, "rb") as listing:
            delete(listing.read().split(b"\0"))
    if nonce == "-":
        os.execvp(argv[0], argv)
    # The command has the same user id: it must not get at this process's memory and descriptors.
    reaper.prctl(reaper.PR_SET_DUMPABLE, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    code = wait_for(spawn(argv), time.monotonic() + seconds)
    left = left_behind()
    kill_all()
    os.write(2, nonce.encode() + struct.pack(">Ii", left, code))
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
