"""The recording proxy: `http://HOST:PORT/s/SESSION/v1` in front of an OpenAI-compatible endpoint.

An agent that knows nothing of training is given that URL as its endpoint. The proxy asks the endpoint for token ids and
log-probabilities in vLLM's fields, keeps them in `DIRECTORY/SESSION.jsonl` (see `capture`), and takes them out of what
the agent gets. Errors of the endpoint reach the agent as they are. Any number of sessions at once; no streaming.

The endpoint's key is in no file and no answer: no header is recorded, and where an answer quotes the key it is masked.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx

from execcritic import credentials
from execcritic_roles.trajectory import Trajectory
from execcritic_scaffold.errors import UsageError
from execcritic_training.capture import Chain, Exchange, Sampled, sampled_of
from execcritic_training.httpjson import HttpError, JsonHandler, JsonServer, parse_object

Need = Literal["require", "try", "off"]
"""What is done about token ids. require: an answer without usable ids is an error to the agent, and its episode ends.
try: it is passed on, and the turn recorded as untrainable. off: none are asked for (a text-only teacher)."""

_PATH = re.compile(r"/s/([A-Za-z0-9][A-Za-z0-9._-]{0,199})/v1/(chat/completions|models)")
_OPEN = 1024
"""Sessions whose end is kept in memory; one that comes again after more than these is written out in full once."""
_EXCERPT = 2000
_SHORTEST_KEY = 6
"""Characters below which a key is too common to be taken out of a text."""
_NOT_PASSED_ON = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "date", "server"}
    | {"set-cookie"}
)
_NOT_KEPT = {"messages", "return_token_ids", "logprobs"}


@dataclass(frozen=True)
class Answer:
    """What the endpoint said."""

    status: int
    content: bytes
    headers: Mapping[str, str]


@dataclass
class _Session:
    lock: threading.Lock = field(default_factory=threading.Lock)
    chain: Chain = field(default_factory=Chain)


class RecordingProxy(JsonServer):
    """Listens at once; `with proxy.running():` answers. `port` 0: a free one.

    `upstream` is the endpoint's base URL (it usually ends in /v1). With a `key` the endpoint gets that one, else what
    the agent sends. `version` is the policy version of turns whose answer names none; set it when weights change.
    Raises UsageError for a URL that is none.
    """

    def __init__(
        self,
        upstream: str,
        directory: Path,
        *,
        need: Need = "require",
        key: str | None = None,
        version: int | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        seconds: float = 3600.0,
    ) -> None:
        if not re.match(r"https?://[^/]", upstream):
            shown = credentials.masked_url(upstream)
            raise UsageError(f"{shown!r} is not an http(s) URL; write for example http://localhost:8000/v1.")
        self.directory, self.need, self.version = directory, need, version
        self._upstream, self._key = upstream.rstrip("/"), key
        directory.mkdir(parents=True, exist_ok=True)
        # No limit on connections: as many requests are on their way as there are agents.
        self._client = httpx.Client(timeout=httpx.Timeout(seconds, connect=30.0), limits=httpx.Limits())
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._lock = threading.Lock()
        super().__init__((host, port), _Handler)

    def session_url(self, session: str) -> str:
        """The base URL for an agent. Raises UsageError for a name that cannot be one of a file."""
        if not _PATH.fullmatch(f"/s/{session}/v1/models"):
            raise UsageError(f"{session!r} is no name for a session; use letters, digits, dots, dashes.")
        return f"{self.url}/s/{session}/v1"

    def path_of(self, session: str) -> Path:
        """Where the capture of a session is."""
        return self.directory / f"{session}.jsonl"

    def server_close(self) -> None:
        super().server_close()
        self._client.close()

    def session(self, name: str) -> _Session:
        with self._lock:
            found = self._sessions.setdefault(name, _Session())
            self._sessions.move_to_end(name)
            while len(self._sessions) > _OPEN:
                self._sessions.popitem(last=False)
            return found

    def ask(self, method: str, path: str, agent: str, body: bytes | None) -> Answer:
        """The endpoint's answer, with the key masked where it is quoted. `agent` is what the agent sent as
        Authorization. Raises HttpError 502 where there is no answer."""
        authorization = f"Bearer {self._key}" if self._key else agent
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if authorization:
            headers["Authorization"] = authorization
        try:
            answer = self._client.request(method, f"{self._upstream}/{path}", content=body, headers=headers)
        except httpx.HTTPError as error:
            raise HttpError(502, f"The endpoint behind the proxy gave no answer ({type(error).__name__}).") from None
        key = authorization.rpartition(" ")[2].encode()
        content = (
            answer.content.replace(key, credentials.MASK.encode()) if len(key) >= _SHORTEST_KEY else answer.content
        )
        return Answer(answer.status_code, content, _headers(answer.headers))

    def keep(self, name: str, event: str, **fields: Any) -> None:
        """Add a line to the capture of a session. Raises HttpError 507 where the disk does not take it."""
        try:
            with Trajectory(self.path_of(name)) as lines:
                lines.append(event, **fields)
        except OSError as error:
            raise HttpError(507, f"The recording proxy cannot write its capture ({error.strerror}).") from None


class _Handler(JsonHandler):
    server: RecordingProxy

    def answer(self, method: str, body: bytes) -> None:
        found = _PATH.fullmatch(self.path)
        if not found or method != {"models": "GET"}.get(found[2], "POST"):
            raise HttpError(404, "There is nothing here; the base URL is /s/SESSION/v1.")
        name, path = found.groups()
        if path == "models":
            self._pass_on(self.server.ask("GET", path, self._authorization, None))
        else:
            self._complete(name, parse_object(body))

    def _complete(self, name: str, request: dict[str, Any]) -> None:
        _check(request)
        server, asked = self.server, dict(request)
        if server.need != "off":
            asked |= {"return_token_ids": True, "logprobs": True}
        answer = server.ask("POST", "chat/completions", self._authorization, json.dumps(asked).encode())
        told = _parsed(answer.content) if answer.status == 200 else None
        if told is None:
            text = credentials.masked_urls(answer.content[:_EXCERPT].decode("utf-8", "replace"))
            server.keep(name, "refused", status=answer.status, body=text)
            return self._pass_on(answer)
        choice = told["choices"][0]
        sampled = sampled_of(told, choice) if server.need != "off" else None
        why = sampled if isinstance(sampled, str) else None
        if why is not None and server.need == "require":
            server.keep(name, "refused", status=answer.status, body=why)
            # 501: an agent must not ask again, the answer would be the same.
            raise HttpError(
                501,
                f"The recording proxy needs token ids and log-probabilities, but {why}; serve the model with vLLM or "
                "our server, or start the proxy so that it records such turns as untrainable.",
            )
        session = server.session(name)
        with session.lock:
            exchange = _exchange(request, told, choice, sampled, server.version)
            server.keep(name, "exchange", **session.chain.pack(exchange))
        if server.need == "off":
            return self._pass_on(answer)
        return self.send(200, json.dumps(_stripped(told, request)).encode(), answer.headers)

    @property
    def _authorization(self) -> str:
        return self.headers.get("Authorization") or ""

    def _pass_on(self, answer: Answer) -> None:
        self.send(answer.status, answer.content, answer.headers)


def _check(request: Mapping[str, Any]) -> None:
    if not isinstance(request.get("messages"), list):
        raise HttpError(400, "The request has no list of messages.")
    if request.get("stream"):
        raise HttpError(400, "The recording proxy does not stream; ask without `stream`.")
    if request.get("n") not in (None, 1):
        raise HttpError(400, "The recording proxy records one reply a request; ask without `n`.")


def _parsed(raw: bytes) -> dict[str, Any] | None:
    """The body of a 200 that holds a message; None for anything else, which the agent is to make sense of."""
    try:
        told = json.loads(raw)
        choice = told["choices"][0]
        whole = isinstance(choice["message"], dict) and not told.get("error")
        json.dumps(told)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None
    return told if whole else None


def _exchange(
    request: Mapping[str, Any],
    told: Mapping[str, Any],
    choice: Mapping[str, Any],
    sampled: Sampled | str | None,
    version: int | None,
) -> Exchange:
    known = told.get("weight_version")
    return Exchange(
        messages=list(request["messages"]),
        request={name: value for name, value in request.items() if name not in _NOT_KEPT},
        reply=choice["message"],
        finish=choice.get("finish_reason"),
        usage=told.get("usage"),
        model=str(told.get("model")),
        policy_version=known if type(known) is int else version,
        sampled=sampled if isinstance(sampled, Sampled) else None,
        untrainable=sampled if isinstance(sampled, str) else None,
    )


def _stripped(told: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer as the endpoint would have given it to the agent's own request."""
    answer, choice = dict(told), dict(told["choices"][0])
    if not request.get("return_token_ids"):
        answer.pop("prompt_token_ids", None)
        choice.pop("token_ids", None)
    if not request.get("logprobs") and "logprobs" in choice:
        choice["logprobs"] = None
    return {**answer, "choices": [choice, *told["choices"][1:]]}


def _headers(headers: httpx.Headers) -> dict[str, str]:
    """Those of the endpoint that mean something to a client: Retry-After, rate limits, ids of requests."""
    return {name: value for name, value in headers.items() if name not in _NOT_PASSED_ON and value.isascii()}
