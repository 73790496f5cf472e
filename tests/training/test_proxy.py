"""The recording proxy before a real HTTP server, with a plain HTTP client and with our own model client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from execcritic_roles.models.openai import OpenAIModel
from execcritic_roles.models.options import ModelOptions
from execcritic_roles.models.protocol import ContextOverflow
from execcritic_roles.trajectory import read
from execcritic_scaffold.errors import ModelError, UsageError
from execcritic_training.capture import read_capture
from execcritic_training.proxy import Need, RecordingProxy
from tests.openai_server import Server, serve

KEY = "sk-upstream-secret"
CLIENT = httpx.Client(timeout=60, verify=False)  # one for all: the certificates of each would take longer than a test


@pytest.fixture
def upstream() -> Iterator[Server]:
    with serve() as server:
        yield server


def proxy(upstream: Server, folder: Path, need: Need = "require", **more: Any) -> RecordingProxy:
    return RecordingProxy(upstream.url, folder, need=need, key=KEY, **more)


def choice(text: str, output: list[int], logprobs: Any = "given") -> dict[str, Any]:
    entries = [
        {"token": str(i), "logprob": -0.1 * (n + 1), "bytes": None, "top_logprobs": []} for n, i in enumerate(output)
    ]
    told = {"content": entries} if logprobs == "given" else logprobs
    message = {"role": "assistant", "content": text}
    return {"index": 0, "finish_reason": "stop", "message": message, "logprobs": told, "token_ids": output}


def told(upstream: Server, text: str, prompt: list[int], output: list[int], **more: Any) -> dict[str, Any]:
    """Queue an answer as vLLM gives it."""
    body = {"model": "m", "prompt_token_ids": prompt, "choices": [choice(text, output)], "usage": {"prompt_tokens": 1}}
    body |= more
    upstream.raw(json.dumps(body).encode())
    return body


def ask(url: str, *messages: str, **more: Any) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": text} for text in messages], **more}
    return CLIENT.post(f"{url}/chat/completions", json=body, headers={"Authorization": "Bearer agent-key"})


def test_ids_are_captured_and_hidden_from_the_agent(upstream: Server, tmp_path: Path) -> None:
    told(upstream, "one", [1, 2], [3, 9])
    body = told(upstream, "two", [1, 2, 3, 9, 5], [4, 9], weight_version=8)
    with proxy(upstream, tmp_path, version=7) as server, server.running():
        url = server.session_url("a.1")
        first = ask(url, "x", temperature=0.5).json()
        second = ask(url, "x", "y", temperature=0.5, logprobs=True, return_token_ids=True).json()
    seen = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "one"}, "logprobs": None}
    assert first == {"model": "m", "choices": [seen], "usage": {"prompt_tokens": 1}}
    assert second == body  # this one asked for them
    assert upstream.requests[0] == {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "temperature": 0.5,
        "return_token_ids": True,
        "logprobs": True,
    }
    one, two = read_capture(tmp_path / "a.1.jsonl")
    assert one.sampled and two.sampled
    assert (one.sampled.prompt, one.sampled.output) == ([1, 2], [3, 9])
    assert (two.sampled.prompt, two.sampled.output) == ([1, 2, 3, 9, 5], [4, 9])
    assert two.sampled.logprobs == [-0.1, -0.2]
    assert (one.policy_version, two.policy_version) == (7, 8)
    assert [m["content"] for m in two.messages] == ["x", "y"]
    lines = list(read(tmp_path / "a.1.jsonl"))
    assert lines[1]["tokens"]["prompt"] == [5] and lines[1]["request"] is None  # only what is new


def test_the_key_is_nowhere(upstream: Server, tmp_path: Path) -> None:
    told(upstream, "one", [1], [9])
    upstream.status(401, {"error": {"message": f"Incorrect key: {KEY}"}})
    with proxy(upstream, tmp_path) as server, server.running():
        url = server.session_url("s")
        ask(url, "x")
        refused = ask(url, "x")
    assert upstream.headers[0]["authorization"] == f"Bearer {KEY}"
    assert refused.status_code == 401 and refused.json() == {"error": {"message": "Incorrect key: ***"}}
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert KEY.encode() not in files and b"agent-key" not in files
    assert b'"refused"' in files


def test_without_a_key_the_agents_own_is_used_and_not_kept(upstream: Server, tmp_path: Path) -> None:
    upstream.status(401, {"error": {"message": "Incorrect key: agent-key"}})
    with RecordingProxy(upstream.url, tmp_path) as server, server.running():
        assert ask(server.session_url("s"), "x").json() == {"error": {"message": "Incorrect key: ***"}}
    assert upstream.headers[0]["authorization"] == "Bearer agent-key"
    assert b"agent-key" not in (tmp_path / "s.jsonl").read_bytes()


def test_errors_pass_untouched(upstream: Server, tmp_path: Path) -> None:
    upstream.status(429, {"error": {"message": "slow down"}}, Retry_After="7")
    upstream.raw(b"<html>gateway</html>", 503, Content_Type="text/html")
    upstream.raw(b"no json at all")
    upstream.raw(b'{"error": {"code": 500}}')
    upstream.raw(b"[" * 100_000)
    with proxy(upstream, tmp_path) as server, server.running():
        url = server.session_url("s")
        first = ask(url, "x")
        assert (first.status_code, first.headers["retry-after"]) == (429, "7")
        assert first.json() == {"error": {"message": "slow down"}}
        second = ask(url, "x")
        assert (second.status_code, second.content) == (503, b"<html>gateway</html>")
        assert second.headers["content-type"] == "text/html"
        assert [ask(url, "x").content for _ in range(3)] == [
            b"no json at all",
            b'{"error": {"code": 500}}',
            b"[" * 100_000,
        ]
    assert list(read_capture(tmp_path / "s.jsonl")) == []


def test_an_overflow_is_one_for_the_agent(upstream: Server, tmp_path: Path) -> None:
    upstream.overflow("vllm")
    with proxy(upstream, tmp_path) as server, server.running():
        model = OpenAIModel("m", ModelOptions(base_url=server.session_url("s")))
        with pytest.raises(ContextOverflow):
            model.complete([{"role": "user", "content": "x"}], [])
        model.close()


def test_an_endpoint_that_is_gone(tmp_path: Path) -> None:
    with RecordingProxy("http://127.0.0.1:9/v1", tmp_path) as server, server.running():
        answer = ask(server.session_url("s"), "x")
    assert answer.status_code == 502 and "gave no answer" in answer.json()["error"]["message"]


BAD = [
    ({"prompt_token_ids": None}, "no prompt_token_ids"),
    ({"choices": [{**choice("x", [3, 9]), "token_ids": None}]}, "no token_ids"),
    ({"choices": [choice("x", [3, 9], None)]}, "no log-probabilities"),
    ({"choices": [choice("x", [3, 9], {"content": [{"logprob": -1.0}]})]}, "1 log-probabilities for 2 tokens"),
    ({"choices": [choice("x", [3], {"content": [{"logprob": None}]})]}, "no finite number"),
    ({"choices": [choice("x", [3], {"content": [{"logprob": float("nan")}]})]}, "no finite number"),
    ({"choices": [choice("x", [3], {"content": [{"logprob": 0.5}]})]}, "no finite number"),
    ({"choices": [choice("x", [])]}, "no token_ids"),
]


@pytest.mark.parametrize(("fields", "said"), BAD)
def test_without_usable_ids_it_is_an_error_or_marked(
    upstream: Server, tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    told(upstream, "x", [1], [3, 9], **fields)
    told(upstream, "x", [1], [3, 9], **fields)
    with proxy(upstream, tmp_path / "a") as server, server.running():
        answer = ask(server.session_url("s"), "x")
    assert answer.status_code == 501 and said in answer.json()["error"]["message"]
    assert list(read_capture(tmp_path / "a" / "s.jsonl")) == []
    with proxy(upstream, tmp_path / "b", "try") as server, server.running():
        assert ask(server.session_url("s"), "x").json()["choices"][0]["message"]["content"] == "x"
    (kept,) = read_capture(tmp_path / "b" / "s.jsonl")
    assert kept.sampled is None and kept.untrainable and said in kept.untrainable


def test_the_agent_does_not_ask_again_for_what_will_not_come(upstream: Server, tmp_path: Path) -> None:
    upstream.say("text only")
    with proxy(upstream, tmp_path) as server, server.running():
        model = OpenAIModel("m", ModelOptions(base_url=server.session_url("s"), patience_seconds=0))
        with pytest.raises(ModelError, match="the endpoint returned no prompt_token_ids"):
            model.complete([{"role": "user", "content": "x"}], [])
        model.close()
    assert len(upstream.requests) == 1


def test_a_text_only_teacher_is_asked_for_nothing(upstream: Server, tmp_path: Path) -> None:
    upstream.say("hello")
    with proxy(upstream, tmp_path, "off") as server, server.running():
        assert ask(server.session_url("s"), "x").json()["choices"][0]["message"]["content"] == "hello"
    assert "logprobs" not in upstream.requests[0]
    (kept,) = read_capture(tmp_path / "s.jsonl")
    assert kept.sampled is None and kept.untrainable is None


def test_many_sessions_at_once_are_not_mixed(upstream: Server, tmp_path: Path) -> None:
    for _ in range(64):
        told(upstream, "x", [1], [9])
    with proxy(upstream, tmp_path) as server, server.running():

        def session(name: str) -> None:
            for turn in range(4):
                assert ask(server.session_url(name), *[f"{name} {n}" for n in range(turn + 1)]).status_code == 200

        threads = [threading.Thread(target=session, args=(f"s{n}",)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for n in range(16):
        kept = list(read_capture(tmp_path / f"s{n}.jsonl"))
        assert [[m["content"] for m in each.messages] for each in kept] == [
            [f"s{n} {k}" for k in range(turn + 1)] for turn in range(4)
        ]


def test_requests_of_one_session_at_once_are_kept_whole(upstream: Server, tmp_path: Path) -> None:
    for number in range(32):
        told(upstream, "x", [1, 2, number], [9])
    with proxy(upstream, tmp_path) as server, server.running(), ThreadPoolExecutor(16) as pool:
        url = server.session_url("s")
        assert all(a.status_code == 200 for a in pool.map(lambda n: ask(url, "x", f"y{n}"), range(32)))
    kept = list(read_capture(tmp_path / "s.jsonl"))
    assert sorted(each.messages[1]["content"] for each in kept) == sorted(f"y{n}" for n in range(32))
    assert sorted(each.sampled.prompt[2] for each in kept if each.sampled) == list(range(32))


def test_a_proxy_that_was_killed_goes_on(upstream: Server, tmp_path: Path) -> None:
    told(upstream, "one", [1, 2], [3, 9])
    with proxy(upstream, tmp_path) as server, server.running():
        ask(server.session_url("s"), "x")
    path = tmp_path / "s.jsonl"
    path.write_bytes(path.read_bytes() + b'{"event":"exchange","n":1,"keep"')
    told(upstream, "two", [1, 2, 3, 9, 5], [4, 9])
    with proxy(upstream, tmp_path) as server, server.running():
        ask(server.session_url("s"), "x", "y")
    one, two = read_capture(path)
    assert one.sampled and one.sampled.prompt == [1, 2]
    assert two.sampled and two.sampled.prompt == [1, 2, 3, 9, 5] and len(two.messages) == 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"nonsense", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "no list of messages"),
        (b'{"messages": [], "stream": true}', "does not stream"),
        (b'{"messages": [], "n": 2}', "one reply"),
    ],
)
def test_requests_that_cannot_be_recorded(upstream: Server, tmp_path: Path, body: bytes, said: str) -> None:
    with proxy(upstream, tmp_path) as server, server.running():
        answer = CLIENT.post(f"{server.session_url('s')}/chat/completions", content=body)
    assert answer.status_code == 400 and said in answer.json()["error"]["message"]
    assert not upstream.requests


def test_only_sessions_have_an_address(upstream: Server, tmp_path: Path) -> None:
    with proxy(upstream, tmp_path) as server, server.running():
        assert CLIENT.get(f"{server.session_url('s')}/models").json()["data"][0]["id"] == "served-model"
        for path in ("/v1/models", "/s/../v1/models", "/s/%2e%2e/v1/models", "/s/.x/v1/models", "/s/a/b/v1/models"):
            assert CLIENT.get(f"{server.url}{path}").status_code == 404
        assert CLIENT.get(f"{server.session_url('s')}/chat/completions").status_code == 404
        for name in ("../x", ".x", "", "a/b", "é"):
            with pytest.raises(UsageError, match="no name for a session"):
                server.session_url(name)
    with pytest.raises(UsageError, match="is not an http"):
        RecordingProxy("localhost:8000", tmp_path)
    with proxy(upstream, tmp_path) as server, pytest.raises(UsageError, match="choose another port"):
        proxy(upstream, tmp_path, port=server.server_port)


def test_a_disk_that_takes_nothing_is_an_error(upstream: Server, tmp_path: Path) -> None:
    told(upstream, "x", [1], [9])
    with proxy(upstream, tmp_path) as server, server.running():
        (tmp_path / "s.jsonl").mkdir()
        answer = ask(server.session_url("s"), "x")
    assert answer.status_code == 507 and "cannot write its capture" in answer.json()["error"]["message"]
