"""HTTP as the recording proxy and the model server share it: JSON, threads, errors in the form of Chat Completions."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from execcritic_scaffold.errors import UsageError

MOST_BYTES = 256 << 20
"""Of one request's body."""


class HttpError(Exception):
    """An answer other than 200: status, message, and the `code` clients look at."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


class JsonServer(ThreadingHTTPServer):
    """A thread a connection; none of them keeps the process alive."""

    daemon_threads = True
    request_queue_size = 256  # the default of 5 would refuse rollouts that start together

    def server_bind(self) -> None:
        """Raises UsageError for an address that cannot be had."""
        try:
            super().server_bind()
        except (OSError, OverflowError) as error:
            host, port = self.server_address[:2]
            raise UsageError(f"Nothing can listen at {host!s}:{port} ({error}); choose another port.") from None

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}"

    @contextmanager
    def running(self) -> Iterator[str]:
        """Answers in a thread for the time of a `with` block, which gets its URL."""
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self.url
        finally:
            self.shutdown()
            self.server_close()
            thread.join()


class JsonHandler(BaseHTTPRequestHandler):
    """Subclasses define `answer`; what it raises as HttpError becomes an error body."""

    protocol_version = "HTTP/1.1"
    timeout = 600  # seconds of silence after which a connection is given up

    def answer(self, method: str, body: bytes) -> None:
        """Send one answer. Raises HttpError."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self._handle("GET")

    def do_POST(self) -> None:
        self._handle("POST")

    def send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Header names in lower case. Raises OSError where the client is gone."""
        self.send_response(status)
        sent = {"content-type": "application/json", **(headers or {}), "content-length": str(len(body))}
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_json(self, body: Mapping[str, Any], status: int = 200) -> None:
        self.send(status, json.dumps(body).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: URLs hold the names of sessions, and nobody reads a line a request."""

    def _handle(self, method: str) -> None:
        try:
            try:
                self.answer(method, self._body() if method == "POST" else b"")
            except HttpError as error:
                kind = "invalid_request_error" if error.status < 500 else "server_error"
                told = {"message": error.message, "type": kind, "param": None, "code": error.code}
                self.send_json({"error": told}, error.status)
        except OSError:
            self.close_connection = True  # the client is gone

    def _body(self) -> bytes:
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            size = -1
        if size < 0 or size > MOST_BYTES:
            self.close_connection = True  # what follows is not the next request
            raise HttpError(411 if size < 0 else 413, f"The body needs a Content-Length of up to {MOST_BYTES} bytes.")
        body = self.rfile.read(size)
        if len(body) < size:
            raise ConnectionResetError
        return body


def parse_object(body: bytes) -> dict[str, Any]:
    """A JSON object. Raises HttpError 400."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"The body is not JSON ({error}).") from None
    if not isinstance(value, dict):
        raise HttpError(400, "The body is not a JSON object.")
    return value
