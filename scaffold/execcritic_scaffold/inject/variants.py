"""Run pytest once for each of many variants of the workspace, each in a forked child of one warm process.

Started as a script by the supervisor. The request is that of `run_pytest.py`, with `variants` for what differs: each
has `nonce`, `files`, `nodes`, `seconds`, `changes` (path to base64, null: the file goes), `cover`, `keep`. A child has
pytest imported and nothing of the repository, which is what makes it cheap and still a process of its own. The changes
are laid before it starts and taken back after it. Then a line {"variant": STATUS, ...} goes to the report channel.

All share one workspace: good for looking through many variants of code that nobody wrote to deceive, not for verdicts.
"""

import base64
import gc
import json
import os
import signal
import sys
import tempfile

sys.path[0] = os.path.dirname(os.path.abspath(__file__))
import covering  # noqa: E402
import report  # noqa: E402
import run_pytest  # noqa: E402

report.forget("covering", "run_pytest")

EPOCH = 1000000000
"""Files of each variant get a time of their own, so that no byte code made for another one fits."""


def main():
    request = report.read_request()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    if not request["runner_in_tree"] and _foreign(request["tops"]):
        _import_pytest()
    if hasattr(gc, "freeze"):
        gc.freeze()  # what children need not look through: pytest collects garbage five times at its end
    for number, variant in enumerate(request.pop("variants")):
        before = lay(variant["changes"], number)
        folder = tempfile.mkdtemp()
        record = os.path.join(folder, "covered.json")
        pid = os.fork()
        if pid == 0:
            _child(dict(request, **variant), record)
        status, late = wait(pid, variant["seconds"])
        take_back(before)
        told = {"variant": status, "late": late}
        if variant["cover"] and os.path.exists(record):
            with open(record) as lines:
                told["covered"] = json.load(lines)
        data = ("\n%s\n" % json.dumps(told)).encode("ascii")
        while data:
            data = data[os.write(1, data) :]


def _child(request, record):
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    channel = report.Channel()
    # Tests are rewritten by pytest each time, unless one child leaves the result for those after it.
    sys.dont_write_bytecode = not request["keep"]
    try:
        run_pytest.start(channel, request, covering.plugin(record) if request["cover"] else None)
    finally:
        os._exit(70)


def wait(pid, seconds):
    """(exit status, negative for a signal; whether it was stopped). Its whole session is ended."""
    late = signal.sigtimedwait([signal.SIGCHLD], seconds) is None
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    status = os.waitpid(pid, 0)[1]
    signal.sigtimedwait([signal.SIGCHLD], 0)
    return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)), late


def lay(changes, number):
    """Write the changed files; what they were, for `take_back`."""
    before = {}
    for path, text in changes.items():
        before[path] = _read(path)
        if text is None:
            os.unlink(path)
            continue
        if os.path.dirname(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(text))
        os.utime(path, (EPOCH + number, EPOCH + number))
    return before


def take_back(before):
    for path, (data, times) in before.items():
        if data is not None:
            with open(path, "wb") as file:
                file.write(data)
            os.utime(path, ns=times)
        elif os.path.lexists(path):
            os.unlink(path)


def _read(path):
    """(bytes, times) of a file; (None, None) where there is none."""
    if not os.path.isfile(path):
        return None, None
    found = os.stat(path)
    with open(path, "rb") as file:
        return file.read(), (found.st_atime_ns, found.st_mtime_ns)


def _foreign(tops):
    """Whether pytest comes without any module of the checkout's own names; asked in a child."""
    pid = os.fork()
    if pid == 0:
        try:
            _import_pytest()
            os._exit(1 if set(sys.modules) & set(tops) else 0)
        finally:
            os._exit(2)
    return wait(pid, 60)[0] == 0


def _import_pytest():
    import _pytest.config
    import pytest  # noqa: F401

    for name in getattr(_pytest.config, "default_plugins", ()):
        try:
            __import__("_pytest." + name)
        except Exception:
            continue  # an optional one, which pytest leaves out as well


if __name__ == "__main__":
    main()
