"""A real HTTP server on loopback that speaks Chat Completions: scripted replies, and every fault an endpoint can have.

`with serve() as server:` gives a `Server`; queue answers in the order they are to be given, one request each, and read
`server.requests` (parsed bodies) afterwards. A request with nothing left in the script is answered with 418, so that a
test that asks too often fails at once instead of waiting.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["_Handler"], None]

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 60}}

OVERFLOWS: Mapping[str, tuple[int, dict[str, Any]]] = {
    "openai": (
        400,
        {
            "error": {
                "message": "Your input exceeds the context window of this model.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
    ),
    "vllm": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 4096 tokens. However, your request has 5000 input "
                "tokens. Please reduce the length of the input messages.",
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            }
        },
    ),
    "vllm-now": (
        400,
        {
            "error": {
                "message": "You passed 5000 input tokens and requested 512 output tokens. However, the model's context "
                "length is only 4096 tokens, resulting in a maximum input length of 3584 tokens. Please reduce the "
                "length of the input prompt. (parameter=input_tokens, value=5000)",
                "type": "BadRequestError",
                "param": "input_tokens",
                "code": 400,
            }
        },
    ),
    "vllm-reworded": (
        400,
        {"error": {"message": "No.", "type": "BadRequestError", "param": "input_tokens, max_tokens", "code": 400}},
    ),
    "vllm-old": (
        400,
        {
            "object": "error",
            "message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 5000,
                "n_ctx": 4096,
            }
        },
    ),
    "llama.cpp-old": (
        500,
        {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}},
    ),
    "sglang": (
        400,
        {
            "object": "error",
            "message": "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "llama-cpp-python": (
        500,
        {
            "error": {
                "message": "Requested tokens (5000) exceed context window of 4096",
                "type": "internal_server_error",
                "param": None,
                "code": None,
            }
        },
    ),
    "sglang-input": (
        400,
        {
            "object": "error",
            "message": "Input length (5000 tokens) exceeds the maximum allowed length (4090 tokens). Use a shorter "
            "input or enable --allow-auto-truncate.",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "behind a gateway": (400, {"detail": '{"error":{"code":400,"type":"exceed_context_size_error","message":"…"}}'}),
    "sglang-total": (
        400,
        {
            "object": "error",
            "message": "Requested token count exceeds the model's maximum context length of 4096 tokens.",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
}
"""How each kind of server refuses a conversation that is too long: status and body."""


class Server(ThreadingHTTPServer):
    """`url` is the base URL for a client; what came: `requests` (parsed bodies), `bodies` (bytes) and `headers`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self._script: deque[Answer] = deque()
        self._ended = threading.Event()

    def next_answer(self) -> Answer:
        return self._script.popleft() if self._script else _status(418, {"error": {"message": "script used up"}}, {})

    # -- what to answer ------------------------------------------------------------------------------------------

    def message(self, message: Mapping[str, Any], finish_reason: str | None = None, **top: Any) -> Server:
        """An assistant message exactly as given; `top` are further fields of the body (`usage=None` leaves it out)."""
        reason = finish_reason or ("tool_calls" if message.get("tool_calls") else "stop")
        body: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": "served-model",
            "choices": [{"index": 0, "finish_reason": reason, "message": message}],
            "usage": USAGE,
            **top,
        }
        self._script.append(_status(200, {k: v for k, v in body.items() if v is not None}, {}))
        return self

    def say(self, text: str | None, **fields: Any) -> Server:
        """Prose without a call."""
        return self.message({"role": "assistant", "content": text, **fields})

    def call(self, *calls: tuple[str, Any], finish_reason: str | None = None, **fields: Any) -> Server:
        """Tool calls: (name, arguments), arguments as an object or as the raw string to send."""
        return self.message(assistant(*calls, turn=len(self._script), **fields), finish_reason)

    def status(self, status: int, body: Any = None, **headers: str) -> Server:
        """An HTTP error; header names with underscores for dashes."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        body = {"error": {"message": f"status {status}"}} if body is None else body
        self._script.append(_status(status, body, names))
        return self

    def overflow(self, kind: str) -> Server:
        """The refusal of a conversation that is too long, in the words of one kind of server."""
        return self.status(*OVERFLOWS[kind])

    def raw(self, body: bytes, status: int = 200, **headers: str) -> Server:
        """An answer with these bytes; header names with underscores for dashes."""
        return self.status(status, body, **headers)

    def drop(self, after: int = 0, status: int = 200) -> Server:
        """The connection is lost, `after` bytes into the body."""

        def answer(handler: _Handler) -> None:
            if after:
                handler.start(status, after)
            handler.close_connection = True

        self._script.append(answer)
        return self

    def hang(self) -> Server:
        """Silence until the client gives up or the server ends."""
        self._script.append(lambda handler: void(self._ended.wait(60)))
        return self

    def stall(self, after: int = 50) -> Server:
        """Silence after the first bytes of the body."""

        def answer(handler: _Handler) -> None:
            handler.start(200, after)
            self._ended.wait(60)
            handler.close_connection = True

        self._script.append(answer)
        return self

    def drip(self, status: int | None = 200) -> Server:
        """A blank every 20 ms for ever: no pause is long enough for a time limit between bytes. `status` None: in the
        headers."""

        def answer(handler: _Handler) -> None:
            handler.close_connection = True
            try:
                if status is None:
                    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                else:
                    handler.send_response(status)
                    handler.end_headers()
                while not self._ended.is_set():
                    handler.wfile.write(b" ")
                    time.sleep(0.02)
            except OSError:
                return  # the client is gone, as it should

        self._script.append(answer)
        return self

    def stop(self) -> None:
        self._ended.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(json.loads(body))
        self.server.bodies.append(body)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.path != "/v1/chat/completions":
            return self.send(404, b'{"error": {"message": "no such path"}}', {})
        return self.server.next_answer()(self)

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": "served-model", "object": "model"}]}
        self.send(200, json.dumps(models).encode(), {})

    def send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def start(self, status: int, size: int) -> None:
        """The beginning of an answer that says that it is longer."""
        self.send_response(status)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.wfile.write(b" " * size)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test output quiet."""


def assistant(*calls: tuple[str, Any], turn: int = 0, content: str | None = None, **fields: Any) -> dict[str, Any]:
    """An assistant message with tool calls; arguments that are strings are sent as they are."""
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {
                "id": f"c{turn}_{index}",
                "type": "function",
                "function": {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)},
            }
            for index, (name, args) in enumerate(calls)
        ],
        **fields,
    }


def void(_: object) -> None:
    """Drop a value, where only None is allowed."""


def _status(status: int, body: Any, headers: Mapping[str, str]) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda handler: handler.send(status, data, headers)


@contextmanager
def serve() -> Iterator[Server]:
    """A running server; everything of it ends with the block."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()
