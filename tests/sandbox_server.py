"""A real HTTP server on loopback with Orchard Env's contract, whose sandboxes are containers of a local engine.

`with serve() as server:` gives a `Server`: `server.url`, `server.requests` (method, path, body), `server.fail(…)` for
every fault a service can have, `server.restart()`. Its key is KEY. Containers are removed at the end.
"""

from __future__ import annotations

import base64
import io
import json
import shlex
import tarfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qs, urlsplit

import docker

KEY = "key-of-the-sandbox-service-4711"
Reply = tuple[int, dict[str, Any]]


@dataclass
class Fault:
    """`kind`: "503"; "reset" (before the work), "lost" (after it), "half" a reply, "hang", "running" (the wait of an
    exec ends too early), "echo" (400 with the request's headers), or a function that changes the reply."""

    method: str
    end: str
    kind: str | Callable[[dict[str, Any]], dict[str, Any]]
    times: int


@dataclass
class Sandbox:
    container: Any
    lock: threading.Lock = field(default_factory=threading.Lock)
    beats: int = 0


class Server:
    def __init__(self) -> None:
        self.engine = docker.from_env()
        self.mark = uuid.uuid4().hex
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self.deleted: list[str] = []
        self.sandboxes: dict[str, Sandbox] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.faults: list[Fault] = []
        self.released = threading.Event()
        self.lock = threading.Lock()
        self.url = ""

    def fail(
        self, method: str, end: str, kind: str | Callable[[dict[str, Any]], dict[str, Any]], times: int = 1
    ) -> None:
        """The next `times` requests of this method whose path ends with `end` go wrong."""
        self.faults.append(Fault(method, end, kind, times))

    def restart(self, *, sandboxes: bool = True) -> None:
        """Forget every job; without `sandboxes` they are gone too."""
        self.jobs.clear()
        if not sandboxes:
            for name in list(self.sandboxes):
                self.delete(name)

    def fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and fault.method == method and path.endswith(fault.end):
                    fault.times -= 1
                    return fault
        return None

    def create(self, body: dict[str, Any]) -> Reply:
        name = body["sandbox_id"]
        if name in self.sandboxes:
            return 500, {"detail": f"{name} is there already"}
        memory = int(body["memory"].removesuffix("Mi")) << 20
        try:
            container = self.engine.containers.create(
                body["image"], ["sleep", "3600"], entrypoint=[], user="0:0",
                labels={"sandbox-server": self.mark}, network_mode="none", mem_limit=memory, memswap_limit=memory,
                hostname="sandbox", init=True,
            )  # fmt: skip
            container.start()
        except docker.errors.ImageNotFound:
            container = None
        self.sandboxes[name] = Sandbox(container)
        return 200, {"sandbox_id": name, "status": "pending"}

    def wait(self, name: str) -> Reply:
        if self.sandboxes[name].container is None:
            return 200, {"ready": False, "status": "failed", "status_message": "ErrImagePull"}
        return 200, {"ready": True, "status": "ready"}

    def delete(self, name: str) -> Reply:
        sandbox = self.sandboxes.pop(name)
        self.deleted.append(name)
        if sandbox.container is not None:
            sandbox.container.remove(force=True)
        return 200, {"status": "deleted"}

    def execute(self, name: str, body: dict[str, Any]) -> Reply:
        """Run a command in a thread of its own; with `wait` its job when it has ended."""
        job = {"job_id": uuid.uuid4().hex, "sandbox_id": name, "status": "queued", "stdout": "", "stderr": "",
               "exit_code": None, "error": None}  # fmt: skip
        self.jobs[str(job["job_id"])] = job
        thread = threading.Thread(target=self._execute, args=(self.sandboxes[name], body, job), daemon=True)
        thread.start()
        if not body.get("wait"):
            return 200, {"job_id": job["job_id"], "status": "queued"}
        thread.join(body["timeout_seconds"] + 30)
        return 200, dict(job)

    def _execute(self, sandbox: Sandbox, body: dict[str, Any], job: dict[str, Any]) -> None:
        with sandbox.lock:
            job["status"] = "running"
            try:
                limit = ["timeout", "-s", "KILL", str(body["timeout_seconds"])]
                code, (out, err) = sandbox.container.exec_run(
                    [*limit, "bash", "-c", body["command"]],
                    workdir=body["cwd"],
                    environment=body.get("env"),
                    demux=True,
                )
            except docker.errors.APIError as error:
                job.update(status="failed", error=str(error))
                return
            job.update(
                stdout=(out or b"").decode(errors="replace"), stderr=(err or b"").decode(errors="replace"),
                exit_code=code, status="succeeded" if code == 0 else "failed",
            )  # fmt: skip

    def upload(self, name: str, body: dict[str, Any]) -> Reply:
        data, path = base64.b64decode(body["content"]), PurePosixPath(body["path"])
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            info = tarfile.TarInfo(path.name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        container = self.sandboxes[name].container
        container.exec_run(["mkdir", "-p", str(path.parent)])
        container.put_archive(str(path.parent), buffer.getvalue())
        return 200, {"success": True, "path": str(path), "size": len(data)}

    def download(self, name: str, path: str) -> Reply:
        code, data = self.sandboxes[name].container.exec_run(["bash", "-c", f"base64 -w0 {shlex.quote(path)}"])
        if code != 0:
            return 404, {"detail": f"File not found: {path}"}
        return 200, {"path": path, "content": data.decode(), "size": len(base64.b64decode(data))}

    def answer(self, method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> Reply:
        parts = path.strip("/").split("/")
        if path == "/sandboxes":
            return self.create(body)
        if parts[0] == "jobs":
            job = self.jobs.get(parts[1])
            end = time.monotonic() + float(query.get("timeout", "0"))
            while job and job["status"] in ("queued", "running") and time.monotonic() < end:
                time.sleep(0.01)
            return (200, dict(job)) if job else (404, {"detail": "no such job"})
        name, what = parts[1], parts[2] if len(parts) > 2 else ""
        if name not in self.sandboxes:
            return 404, {"detail": f"Sandbox {name} not found"}
        if (method, what) == ("POST", "heartbeat"):
            self.sandboxes[name].beats += 1
            return 200, {"status": "ok"}
        match method, what:
            case "GET", "":
                return 200, {"sandbox_id": name, "status": "ready"}
            case "GET", "wait":
                return self.wait(name)
            case "DELETE", "":
                return self.delete(name)
            case "POST", "exec":
                return self.execute(name, body)
            case "POST", "files":
                return self.upload(name, body)
            case "GET", "files":
                return self.download(name, query["path"])
        return 405, {"detail": "no such endpoint"}

    def close(self) -> None:
        self.released.set()
        for container in self.engine.containers.list(all=True, filters={"label": f"sandbox-server={self.mark}"}):
            container.remove(force=True)
        self.engine.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: Server

    def log_message(self, *arguments: Any) -> None:
        """Nothing: the tests read `Server.requests`."""

    def _handle(self) -> None:
        state, method = self.server_state, self.command
        url = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else {}
        state.requests.append((method, url.path, body))
        fault = state.fault(method, url.path)
        kind = fault.kind if fault else None
        if kind == "reset":
            return self._hang_up()
        if kind == "503":
            return self._reply(503, {"detail": "overloaded"})
        if kind == "echo":
            return self._reply(400, {"detail": f"bad request: {dict(self.headers)}"})
        if kind == "hang":
            state.released.wait(60)
            return self._hang_up()
        if self.headers.get("X-API-Key") != KEY:
            return self._reply(401, {"detail": "Missing API key"})
        if kind == "running":
            body["wait"] = False
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        try:
            status, found = state.answer(method, url.path, query, body)
        except docker.errors.DockerException as error:
            status, found = 500, {"detail": str(error)}
        if kind == "lost":
            return self._hang_up()
        if callable(kind):
            found = kind(found)
        return self._reply(status, found, half=kind == "half")

    do_GET = do_POST = do_DELETE = _handle

    def _reply(self, status: int, body: dict[str, Any], half: bool = False) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if half else data)
        if half:
            self._hang_up()

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.close_connection = True


@contextmanager
def serve() -> Iterator[Server]:
    """A server on a free port of loopback."""
    state = Server()
    handler = type("Handler", (_Handler,), {"server_state": state})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    httpd.daemon_threads = True
    state.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        state.close()
        httpd.shutdown()
        httpd.server_close()
