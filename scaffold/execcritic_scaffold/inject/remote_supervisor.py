"""Process of ours, as root, in a sandbox of a service: lays the workspace and runs everything else as the agent.

    python -I -S remote_supervisor.py CONTROL

Requests come by number through a socket in CONTROL, which only root may enter. Each is done once, however often it is
asked for; its answer is a file, so that nothing is lost with a connection. Requests and answers are the frames of
`agent_runner.py`: what is not for this process goes to the session's runner.

Plain standard library, Python 3.6 and later: it runs on whatever Python an image has.
"""

import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import reaper  # noqa: E402
import remote_files  # noqa: E402
import remote_run  # noqa: E402

HOME = "/home/agent"
UIDS = (20000, 59999)
"""User ids of which the agent gets one: limits are counted for each user of a machine, not of a container."""


class Supervisor:
    def __init__(self, control):
        self.control = control
        self.agent = random.SystemRandom().randint(*UIDS)
        self.runner = None
        self.runs = remote_run.Runs(self.agent)

    def serve(self, listener):
        while True:
            connection = listener.accept()[0]
            try:
                number = connection.makefile("rb").readline(32)
                self.answer(int(number))
                connection.sendall(b".")
            except (OSError, ValueError):
                pass  # whoever asked is gone; the answer stays
            finally:
                connection.close()

    def answer(self, number):
        """Do request `number` unless it has been done. The answer before it is not needed any more."""
        path = os.path.join(self.control, "%d" % number)
        if os.path.exists(path + ".answer"):
            return
        with open(path + ".request", "rb") as file:
            frame = file.read()
        os.unlink(path + ".request")
        data = self.do(frame)
        with open(path + ".partial", "wb") as file:
            file.write(data)
        os.rename(path + ".partial", path + ".answer")
        earlier = os.path.join(self.control, "%d.answer" % (number - 1))
        if os.path.exists(earlier):
            os.unlink(earlier)

    def do(self, frame):
        try:
            length = struct.unpack(">I", frame[:4])[0]
            request = json.loads(frame[4 : 4 + length].decode())
            payload = frame[4 + length :]
            if len(payload) != request["size"]:
                raise ValueError("%d bytes instead of %d" % (len(payload), request["size"]))
            method = getattr(self, "do_" + request["op"], None)
            if method is None:
                return self.forward(frame)
            answer, data = method(request, payload)
        except Exception as error:  # becomes an infrastructure failure on the host's side
            answer, data = {"error": "%s: %s" % (type(error).__name__, error)}, b""
        head = json.dumps(dict(answer, size=len(data))).encode()
        return struct.pack(">I", len(head)) + head + data

    def do_lay(self, request, payload):
        return remote_files.lay(request, payload, self.agent), b""

    def do_base(self, request, payload):
        return remote_files.base(payload)

    def do_pack(self, request, payload):
        paths = request["paths"] and [os.fsencode(path) for path in request["paths"]]
        return {}, remote_files.pack(os.fsencode(request["root"]), paths)

    def do_run(self, request, payload):
        return self.runs.run(request, payload)

    def do_open(self, request, payload):
        become, _ = self.runs.agent(request, runner=True)
        env = self.runs.environment(request)
        self.runner = subprocess.Popen(
            request["argv"] + [env["PATH"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            cwd=remote_files.ROOT, env=env, preexec_fn=become, start_new_session=True,
            stderr=open(os.path.join(self.control, "runner.log"), "wb"),
        )  # fmt: skip
        return {}, b""

    def forward(self, frame):
        """What the session's runner answers to a frame."""
        if self.runner is None:
            raise ValueError("no session is open")
        view = memoryview(frame)
        while view:
            view = view[self.runner.stdin.write(view) :]
        head = self.exactly(4)
        head += self.exactly(struct.unpack(">I", head)[0])
        return head + self.exactly(json.loads(head[4:].decode())["size"])

    def exactly(self, count):
        parts = bytearray()
        while len(parts) < count:
            part = self.runner.stdout.read(min(count - len(parts), 1 << 20))
            if not part:
                with open(os.path.join(self.control, "runner.log"), "rb") as log:
                    raise OSError("the session's runner ended %s" % log.read()[-500:].decode("utf-8", "replace"))
            parts += part
        return bytes(parts)


def prepare(agent):
    """The agent's home, and a name for its user id where that can be written down."""
    os.makedirs(HOME, exist_ok=True)
    os.chown(HOME, agent, agent)
    os.makedirs(os.fsdecode(remote_files.ROOT), exist_ok=True)
    for path, line in (
        ("/etc/passwd", "agent:x:%d:%d::%s:/bin/sh\n" % (agent, agent, HOME)),
        ("/etc/group", "agent:x:%d:\n" % agent),
    ):
        try:
            with open(path, "a") as file:
                file.write(line)
        except OSError:
            pass


def main(control):
    if os.geteuid() != 0:
        sys.exit("the container runs as user %d, not as root" % os.geteuid())
    path = os.path.join(control, "socket")
    try:
        os.mkdir(control, 0o700)
    except FileExistsError:  # asked for again: the first one is there, or is about to be
        deadline = time.monotonic() + 10
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.01)
        return
    supervisor = Supervisor(control)
    prepare(supervisor.agent)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(8)
    if os.fork():
        os.rename(path + ".new", path)
        return
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(os.path.join(control, "log"), os.O_WRONLY | os.O_CREAT, 0o600)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    reaper.prctl(reaper.PR_SET_NAME, b"supervisor")
    reaper.become_subreaper()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    supervisor.serve(listener)


if __name__ == "__main__":
    main(*sys.argv[1:])
