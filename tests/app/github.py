"""A real HTTP server on loopback that gives the answers of GitHub's API that a test lays down."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))
        self.answer(*self.server.answers.get(self.path, (404, {}, {"message": "Not Found"})))

    def answer(self, status: int, headers: dict[str, str], body: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test output quiet."""


class Server(ThreadingHTTPServer):
    """`answers` maps a path (with query) to (status, headers, JSON body); `seen` are the requests that came."""

    def __init__(self, handler: type[BaseHTTPRequestHandler] = Handler) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.answers: dict[str, tuple[int, dict[str, str], Any]] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


AnyServer = TypeVar("AnyServer", bound=ThreadingHTTPServer)


def threaded(server: AnyServer) -> Iterator[AnyServer]:
    """Run a server in a thread of its own, once."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        yield from threaded(server)
