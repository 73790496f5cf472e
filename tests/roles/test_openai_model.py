"""The openai model over the wire, against a server that can fail in every way."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from execcritic_roles.models.openai import OpenAIModel
from execcritic_roles.models.options import ModelOptions, Price
from execcritic_roles.models.protocol import ContextOverflow, OutOfTime, Wait
from execcritic_roles.models.retry import Patience, retry_after
from execcritic_scaffold.errors import Interrupted, ModelError, UsageError
from tests.openai_server import OVERFLOWS, Server, serve

MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]


def model(server: Server, waits: list[Wait] | None = None, **options: Any) -> OpenAIModel:
    quick = {"backoff_seconds": 0.01, "backoff_max_seconds": 0.05, "patience_seconds": 20.0, **options}
    return OpenAIModel(
        quick.pop("name", "m"), ModelOptions(base_url=server.url, **quick), waits.append if waits is not None else None
    )


def test_the_message_comes_back_exactly_as_the_provider_sent_it(server: Server) -> None:
    message = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "let me think",
        "thought_signature": {"opaque": ["AAA", 1, None]},
        "tool_calls": [
            {
                "id": "x",
                "type": "function",
                "function": {"name": "bash", "arguments": '{"command":  "ls"}'},
                "extra_content": {"google": {"thought_signature": "zzz"}},
            }
        ],
    }
    server.message(message)
    reply = model(server).complete(MESSAGES, TOOLS)
    assert reply.message == message
    assert [(c.id, c.name, c.arguments) for c in reply.calls] == [("x", "bash", '{"command":  "ls"}')]
    assert (reply.finish_reason, reply.model) == ("tool_calls", "served-model")
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens) == (100, 60, 20)
    assert reply.usage.cost is None  # a price nobody knows is unknown, not zero


def test_the_request_holds_what_was_configured_and_nothing_else(server: Server) -> None:
    server.say("a").say("b")
    model(server, extra={"top_p": 0.9, "chat_template_kwargs": {"enable_thinking": False}}).complete(MESSAGES, TOOLS)
    model(server, temperature=None, max_output_tokens=None).complete(MESSAGES, [])
    assert server.requests[0] == {
        "model": "m",
        "messages": MESSAGES,
        "tools": TOOLS,
        "temperature": 0.6,
        "max_tokens": 8192,
        "top_p": 0.9,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert server.requests[1] == {"model": "m", "messages": MESSAGES}


@pytest.mark.parametrize(
    ("name", "top", "cost"),
    [
        ("gpt-5-mini", {}, (40 * 0.25 + 60 * 0.025 + 20 * 2.0) / 1e6),
        ("gpt-5-mini-2025-08-07", {}, (40 * 0.25 + 60 * 0.025 + 20 * 2.0) / 1e6),
        ("mine", {}, (100 * 1 + 20 * 3) / 1e6),
        ("unlisted", {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.5}}, 0.5),
        ("unlisted", {}, None),
        ("gpt-5-minimal", {}, None),
    ],
)
def test_cost(server: Server, name: str, top: dict[str, Any], cost: float | None) -> None:
    server.message({"role": "assistant", "content": "x"}, **top)
    reply = model(server, name=name, prices={"mine": Price(input=1, output=3)}).complete(MESSAGES, TOOLS)
    assert reply.usage.cost == (None if cost is None else pytest.approx(cost))


def test_without_a_count_tokens_are_estimated_and_the_cost_is_unknown(server: Server) -> None:
    server.message({"role": "assistant", "content": "x" * 400}, usage=None)
    usage = model(server, name="gpt-5").complete(MESSAGES, TOOLS).usage
    assert usage.estimated and usage.cost is None and usage.input_tokens > 0 and usage.output_tokens >= 100


@pytest.mark.parametrize("kind", OVERFLOWS)
def test_every_server_kind_s_overflow_is_recognised_and_not_retried(server: Server, kind: str) -> None:
    server.overflow(kind).say("never asked")
    with pytest.raises(ContextOverflow, match="context window"):
        model(server).complete(MESSAGES, TOOLS)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("finish_reason", "top"),
    [("model_length", {}), ("model_context_window_exceeded", {}), ("stop", {"truncated": True})],
)
def test_a_conversation_that_was_cut_instead_of_refused(
    server: Server, finish_reason: str, top: dict[str, Any]
) -> None:
    server.message({"role": "assistant", "content": "x"}, finish_reason, **top)
    with pytest.raises(ContextOverflow, match="left out a part"):
        model(server).complete(MESSAGES, TOOLS)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        ({"code": 401, "message": "no"}, ModelError),
        ({"code": "context_length_exceeded", "message": "no"}, ContextOverflow),
        ("prompt is too long: 5000 tokens > 4096 maximum", ContextOverflow),
    ],
)
def test_an_error_inside_a_200_is_what_it_says(server: Server, error: Any, raised: type[Exception]) -> None:
    server.raw(json.dumps({"error": error, "choices": []}).encode()).say("never asked")
    with pytest.raises(raised):
        model(server).complete(MESSAGES, TOOLS)
    assert len(server.requests) == 1


@pytest.mark.parametrize("reason", ["max_tokens", "MAX_TOKENS"])
def test_other_words_for_length(server: Server, reason: str) -> None:
    server.message({"role": "assistant", "content": "x"}, reason)
    assert model(server).complete(MESSAGES, TOOLS).finish_reason == "length"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (500, "tools param requires --jinja flag"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
        (404, "No endpoints found that support tool use."),
    ],
)
def test_a_server_without_tool_calls_is_told_of_the_text_protocol(server: Server, status: int, text: str) -> None:
    server.status(status, {"error": {"message": text}}).say("never asked")
    with pytest.raises(ModelError, match=r"model\.protocol=text"):
        model(server).complete(MESSAGES, TOOLS)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "step"),
    [(400, "options"), (401, "OPENAI_API_KEY"), (403, "key"), (404, "--base-url"), (422, "options")],
)
def test_what_will_not_get_better_is_not_retried(server: Server, status: int, step: str) -> None:
    server.status(status, {"error": {"message": "because\nof that"}}).say("never asked")
    with pytest.raises(ModelError) as caught:
        model(server).complete(MESSAGES, TOOLS)
    text = str(caught.value)
    assert len(server.requests) == 1
    assert str(status) in text and server.url in text and "because of that" in text and step in text
    assert text.count("\n") == 0 and text.endswith(".")


def test_a_refusal_with_any_body_is_one_bounded_sentence(server: Server) -> None:
    for body in (
        b"<html>" + b"x" * 10000,
        b"",
        b"\xff\xfe",
        [1, 2],
        {"error": None},
        {"error": "no"},
        {"detail": [{}]},
    ):
        server.status(400, body)
        with pytest.raises(ModelError) as caught:
            model(server).complete(MESSAGES, TOOLS)
        assert len(str(caught.value)) < 600


def test_the_key_is_never_in_a_message(server: Server) -> None:
    server.status(401, {"error": {"message": "bad key sk-secret-123 given"}})
    with pytest.raises(ModelError) as caught:
        model(server, api_key="sk-secret-123").complete(MESSAGES, TOOLS)
    assert "sk-secret-123" not in str(caught.value)
    assert server.headers[0]["authorization"] == "Bearer sk-secret-123"


@pytest.mark.parametrize(
    "fault",
    [
        lambda s: s.status(429, {"detail": "slow down"}),  # no usual wording, no Retry-After
        lambda s: s.status(429, b"busy"),
        lambda s: s.status(429, retry_after="0.05"),
        lambda s: s.status(500, b""),
        lambda s: s.status(502, b"<html>bad gateway</html>"),
        lambda s: s.status(503, retry_after_ms="10"),
        lambda s: s.status(529),
        lambda s: s.status(408),
        lambda s: s.drop(),
        lambda s: s.drop(after=50),
        lambda s: s.raw(b"{ this is no json"),
        lambda s: s.raw(b"[]"),
        lambda s: s.raw(b'{"choices": []}'),
        lambda s: s.raw(b'{"choices": [{"message": null}]}'),
        lambda s: s.raw(b'{"error": {"code": 429, "message": "rate limited"}}'),
        lambda s: s.raw(b""),
        lambda s: s.drop(after=50, status=503),
        lambda s: s.raw(b"not compressed", content_encoding="gzip"),
        lambda s: s.raw(b"not compressed", 500, content_encoding="gzip"),
        lambda s: s.raw(b"\xff\xfe", 500, content_type="text/html; charset=nonsense"),
        lambda s: s.raw(b'{"choices": [{"message": {"content": ' + b"[" * 500 + b"]" * 500 + b"}}]}"),
        lambda s: s.message({"role": "assistant", "content": "half of"}, "error"),
        lambda s: s.message({"role": "assistant", "content": "half of"}, "abort"),
    ],
)
def test_what_may_get_better_is_asked_again(server: Server, fault: Any) -> None:
    waits: list[Wait] = []
    fault(server)
    fault(server)
    server.say("at last")
    reply = model(server, waits).complete(MESSAGES, TOOLS)
    assert reply.message["content"] == "at last"
    assert [w.attempt for w in waits] == [1, 2] and all(w.reason for w in waits)
    assert reply.waited >= sum(w.seconds for w in waits)


@pytest.mark.parametrize(
    ("body", "shown"),
    [(b"<!doctype html>\n<p>Caf\xc3\xa9</p>", "<!doctype html> <p>Café</p>"), (b'{"choices":[]}', '{"choices":[]}')],
)
def test_a_wrong_address_that_answers_is_known_soon(server: Server, body: bytes, shown: str) -> None:
    for _ in range(200):
        server.raw(body)
    with pytest.raises(ModelError, match="check that the server runs and that --base-url is right") as raised:
        model(server, connect_seconds=0.2, patience_seconds=600).complete(MESSAGES, TOOLS)
    assert shown in str(raised.value)


def test_an_endpoint_that_has_answered_keeps_its_patience(server: Server) -> None:
    server.say("once").raw(b"<html>").say("again")
    asked = model(server, connect_seconds=0.0)
    asked.complete(MESSAGES, TOOLS)
    assert asked.complete(MESSAGES, TOOLS).message["content"] == "again"


@pytest.mark.parametrize(
    "fault",
    [
        lambda s: s.hang(),
        lambda s: s.stall(),
        lambda s: s.drip(),
        lambda s: s.drip(503),
        lambda s: s.drip(None),
    ],
)
def test_a_request_that_never_ends_is_given_up_and_asked_again(server: Server, fault: Any) -> None:
    fault(server)
    server.say("at last")
    waits: list[Wait] = []
    reply = model(server, waits, request_seconds=0.3).complete(MESSAGES, TOOLS)
    assert reply.message["content"] == "at last"
    assert ["no answer within" in w.reason for w in waits] == [True]


def test_retry_after_is_kept_to(server: Server) -> None:
    server.status(429, retry_after="0.4").say("x")
    waits: list[Wait] = []
    model(server, waits).complete(MESSAGES, TOOLS)
    assert 0.4 <= waits[0].seconds <= 0.5


def test_a_wait_longer_than_the_patience_ends_at_once(server: Server) -> None:
    server.status(429, retry_after="3600").say("never asked")
    with pytest.raises(ModelError, match=r"429.*recovered"):
        model(server).complete(MESSAGES, TOOLS)
    assert len(server.requests) == 1


def test_patience_ends(server: Server) -> None:
    for _ in range(200):
        server.status(429)
    with pytest.raises(ModelError, match="kept failing"):
        model(server, patience_seconds=2).complete(MESSAGES, TOOLS)
    assert 2 <= len(server.requests) < 150


def test_retry_after_forms() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < (retry_after({"retry-after": date}) or 0) <= 100
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert retry_after({"retry-after": "2.5"}) == 2.5
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    for useless in ("soon", "nan", "inf", ""):
        assert retry_after({"retry-after": useless}) is None
    assert retry_after({}) is None


def test_backoff_grows_and_differs_between_workers() -> None:
    def delays() -> list[float]:
        waits: list[Wait] = []
        patience = Patience(60, 0.001, 0.016, waits.append, None)
        for _ in range(7):
            assert patience.wait("x", None)
        return [w.seconds for w in waits]

    first, second = delays(), delays()
    assert first != second
    assert max(first) <= 0.016 and first[4] > first[0]


def test_a_server_that_is_not_there_is_said_soon() -> None:
    with serve() as server:
        url = server.url
    gone = OpenAIModel("m", ModelOptions(base_url=url, connect_seconds=0.2, backoff_seconds=0.02))
    with pytest.raises(ModelError) as caught:
        gone.complete(MESSAGES, TOOLS)
    assert url in str(caught.value) and "--base-url" in str(caught.value)


def test_a_slow_reply_against_the_caller_s_own_limit_is_no_fault_of_the_endpoint(server: Server) -> None:
    server.hang()
    with pytest.raises(OutOfTime):
        model(server).complete(MESSAGES, TOOLS, seconds=0.2)


def test_cancel_ends_a_wait(server: Server) -> None:
    cancel = threading.Event()
    server.status(429, retry_after="10")
    waiting = OpenAIModel("m", ModelOptions(base_url=server.url), lambda wait: cancel.set(), cancel)
    with pytest.raises(Interrupted):
        waiting.complete(MESSAGES, TOOLS)


def test_keys(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    server.say("no key needed here")
    OpenAIModel("m", ModelOptions()).complete(MESSAGES, TOOLS)
    for url in ("https://api.example.com/v1", "http://127.evil.example/v1"):
        with pytest.raises(UsageError, match="OPENAI_API_KEY"):
            OpenAIModel("m", ModelOptions(base_url=url))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    OpenAIModel("m", ModelOptions(base_url="https://api.example.com/v1"))
    with pytest.raises(UsageError, match="openai:MODEL"):
        OpenAIModel("", ModelOptions())


@pytest.mark.parametrize(
    "url", ["localhost:8000/v1", "ftp://localhost", "http://", "http://localhost:port/v1", "http://[::1"]
)
def test_a_base_url_that_is_none(url: str) -> None:
    with pytest.raises(UsageError, match=r"not an http\(s\) URL; write for example"):
        OpenAIModel("m", ModelOptions(base_url=url))


def test_a_key_that_cannot_be_sent(server: Server) -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        model(server, api_key="ключ")


def test_credentials_in_the_url_and_the_key_stay_out_of_records(server: Server) -> None:
    server.status(404)
    url = server.url.replace("http://", "http://user:pass@")
    with pytest.raises(ModelError) as caught:
        OpenAIModel("m", ModelOptions(base_url=url)).complete(MESSAGES, TOOLS)
    assert "pass" not in str(caught.value)
    assert "sk-1" not in json.dumps(ModelOptions.model_validate({"api_key": "sk-1"}).model_dump(mode="json"))


def test_the_sdk_is_imported_only_where_a_model_is_asked() -> None:
    code = (
        "import sys; from execcritic_roles.models.registry import create;"
        "from execcritic_roles.models.options import ModelOptions;"
        "create('openai:m', 'test', ModelOptions(base_url='http://localhost:1/v1'));"
        "assert 'openai' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
