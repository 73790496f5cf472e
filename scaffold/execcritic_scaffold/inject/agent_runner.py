"""The one long-lived process of a sandbox session: framed requests on stdin, framed answers on stdout.

Runs inside sandboxes: standard library only, Python 3.6 and later. Called as `agent_runner.py WORKSPACE HOME PATH`.
A frame is a 4-byte big-endian length, a JSON header, then header["size"] bytes of payload. Requests: act, manifest,
read, write, ping. The end of stdin ends the runner and everything below it.
"""

import hashlib
import json
import os
import select
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import reaper  # noqa: E402
from action import Shell  # noqa: E402
from workspace_files import Workspace  # noqa: E402


class Runner:
    def __init__(self, workdir, home, path):
        self.workspace = Workspace(workdir)
        self.shell = Shell(workdir, home, path)

    def serve(self, requests, answers):
        """Answer frames until the stream ends."""
        while True:
            self._idle(requests)
            length = _read(requests, 4)
            if len(length) < 4:
                return
            request = json.loads(_read(requests, struct.unpack(">I", length)[0]).decode())
            payload = _read(requests, request["size"])
            try:
                answer, data = getattr(self, "do_" + request["op"])(request, payload)
            except Exception as error:  # becomes an infrastructure failure on the host's side
                answer, data = {"error": "%s: %s" % (type(error).__name__, error)}, b""
            head = json.dumps(dict(answer, size=len(data))).encode()
            _write(answers, struct.pack(">I", len(head)) + head + data)
            if request["op"] in ("act", "ping"):
                self.shell.prepare()

    def _idle(self, requests):
        ready = []
        while requests not in ready:
            ready = select.select({requests, self.shell.wakeup} | self.shell.left_open, (), ())[0]
            self.shell.housekeeping(ready)

    def do_ping(self, request, payload):
        return {}, b""

    def do_act(self, request, payload):
        started = time.monotonic()
        result, output = self.shell.run(payload, request["seconds"], request["output"], request["spool"])
        return dict(result, seconds=time.monotonic() - started), output

    def do_manifest(self, request, payload):
        listed = self.workspace.manifest()
        digest = hashlib.sha1(listed).hexdigest()
        return {"digest": digest}, b"" if digest == request["known"] else listed

    def do_read(self, request, payload):
        try:
            data = self.workspace.read(os.fsencode(request["path"]), request["limit"])
        except OSError:
            return {"missing": True}, b""
        return ({"large": True}, b"") if data is None else ({}, data)

    def do_write(self, request, payload):
        files, offset = [], 0
        for path, mode, size in request["files"]:
            files.append((os.fsencode(path), mode, payload[offset : offset + size]))
            offset += size
        # Deletions first: what replaces a directory by a file, or the other way round, names both.
        files.sort(key=lambda file: file[1] is not None)
        for path, mode, data in files:
            try:
                self.workspace.write(path, mode, data)
            except OSError as error:
                return {"refused": "%r: %s" % (path, error.strerror or error)}, b""
        return {}, b""


def _read(fd, count):
    """Exactly `count` bytes, fewer at the end of the stream."""
    parts = bytearray()
    while len(parts) < count:
        part = os.read(fd, min(count - len(parts), 1 << 20))
        if not part:
            break
        parts += part
    return bytes(parts)


def _write(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def main(workdir, home, path):
    # What runs in the workspace has the same user id: without this it could write frames into our pipes.
    reaper.prctl(reaper.PR_SET_DUMPABLE, 0)
    if os.getuid() != os.geteuid():  # see action.give_up; the start of a program makes the saved id the effective one
        os.setresuid(-1, -1, os.getuid())
    reaper.prctl(reaper.PR_SET_NAME, b"agent-runner")
    reaper.become_subreaper()
    # A handler, not SIG_IGN, which children would inherit: `pkill python` in a script must not end the session.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: None)
    requests, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.environ["PATH"] = path
    try:
        Runner(workdir, home, path).serve(requests, answers)
    finally:
        reaper.kill_descendants()


if __name__ == "__main__":
    main(*sys.argv[1:])
