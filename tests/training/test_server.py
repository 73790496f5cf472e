"""The CPU server: a small random model over real HTTP. Batches change nothing about what a request gets."""

from __future__ import annotations

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
from execcritic_training.chat import Wanted
from execcritic_training.httpjson import HttpError
from execcritic_training.templates import TOOLS
from tests.training.conftest import tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def engine(folder: Path) -> Iterator[Any]:
    from execcritic_training.engine import Engine

    engine = Engine(folder)
    yield engine
    engine.close()


@pytest.fixture
def url(engine: Any) -> Iterator[str]:
    from execcritic_training.server import ChatServer

    with ChatServer(engine, "tiny") as server, server.running() as url:
        yield url


def ask(url: str, text: str = "hello", **more: Any) -> Any:
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": 20, **more}
    return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=120)


def test_together_or_alone_is_the_same(engine: Any) -> None:
    prompts = [list(range(1 + n, 5 + 17 * n)) for n in range(6)]
    wanted = [
        Wanted(seed=n, max_tokens=5 + 9 * n, top_p=0.9 if n % 2 else 1.0, temperature=0.5 + n / 4) for n in range(6)
    ]
    alone = [engine.generate(p, w) for p, w in zip(prompts, wanted, strict=True)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(engine.generate, prompts, wanted))
    for one, other in zip(alone, together, strict=True):
        assert one.output == other.output and one.text == other.text
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_a_request_joins_while_another_is_answered(engine: Any) -> None:
    long, short = Wanted(seed=1, max_tokens=300), Wanted(seed=2, max_tokens=4)
    alone = engine.generate([5, 6, 7], long), engine.generate(list(range(40)), short)
    ended: list[str] = []

    def run(name: str, prompt: list[int], wanted: Wanted, into: dict[str, Any]) -> None:
        into[name] = engine.generate(prompt, wanted)
        ended.append(name)

    got: dict[str, Any] = {}
    first = threading.Thread(target=run, args=("long", [5, 6, 7], long, got))
    first.start()
    second = threading.Thread(target=run, args=("short", list(range(40)), short, got))
    second.start()
    first.join()
    second.join()
    assert (got["long"].output, got["short"].output) == (alone[0].output, alone[1].output)


def test_log_probabilities_are_the_models(engine: Any) -> None:
    done = engine.generate(list(range(10, 60)), Wanted(seed=3, max_tokens=40))
    assert done.logprobs == pytest.approx(engine.score(done.prompt, done.output), abs=1e-4)


def test_an_answer_in_vllms_fields(url: str, engine: Any) -> None:
    body = ask(url, seed=5, logprobs=True, return_token_ids=True).json()
    (choice,) = body["choices"]
    assert body["prompt_token_ids"] == engine.render([{"role": "user", "content": "hello"}])
    entries = choice["logprobs"]["content"]
    assert len(entries) == len(choice["token_ids"]) == body["usage"]["completion_tokens"]
    assert [entry["logprob"] for entry in entries] == pytest.approx(
        engine.score(body["prompt_token_ids"], choice["token_ids"]), abs=1e-4
    )
    assert body["weight_version"] == 0 and body["usage"]["prompt_tokens"] == len(body["prompt_token_ids"])
    plain = ask(url, seed=5).json()
    assert plain["choices"][0]["message"] == choice["message"]
    assert plain["choices"][0]["logprobs"] is None and "token_ids" not in plain["choices"][0]
    assert "prompt_token_ids" not in plain
    assert ask(url, seed=6).json()["choices"][0]["message"] != choice["message"]
    assert ask(url, temperature=0).json()["choices"] == ask(url, temperature=0).json()["choices"]


def test_how_a_reply_ends(url: str, engine: Any) -> None:
    cut = ask(url, seed=5, max_tokens=3).json()
    assert (cut["choices"][0]["finish_reason"], cut["usage"]["completion_tokens"]) == ("length", 3)
    prompt = engine.render([{"role": "user", "content": "x"}])
    ends = (engine.generate(prompt, Wanted(seed=seed, max_tokens=400)) for seed in range(200))
    ended = next(done for done in ends if done.finish == "stop" and len(done.output) > 4)
    assert ended.output[-1] in engine.stops and len(ended.logprobs) == len(ended.output)
    assert "<|im_end|>" not in ended.text
    whole = engine.generate(prompt, Wanted(seed=5, max_tokens=40))
    stop = next(letter for letter in whole.text[3:] if letter.isascii())
    stopped = engine.generate(prompt, Wanted(seed=5, max_tokens=40, stop=(stop,)))
    assert stopped.text == whole.text[: whole.text.index(stop)] and stopped.finish == "stop"
    assert stopped.output == whole.output[: len(stopped.output)]


def test_a_conversation_that_is_too_long(url: str) -> None:
    model = OpenAIModel("tiny", ModelOptions(base_url=f"{url}/v1", max_output_tokens=10))
    with pytest.raises(ContextOverflow, match="maximum context length is 512 tokens"):
        model.complete([{"role": "user", "content": "x" * 600}], [])
    reply = model.complete([{"role": "user", "content": "x"}], TOOLS)
    assert reply.usage.output_tokens and not reply.usage.estimated
    model.close()


def test_weights_are_exchanged_between_replies(url: str, engine: Any, folder: Path, torch: Any, tmp_path: Path) -> None:
    other = tiny(tmp_path / "other", seed=1)
    before = ask(url, temperature=0).json()
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(ask, url, seed=1, max_tokens=300)
        update = {"model_path": str(other), "weight_version": 4}
        told = pool.submit(httpx.post, f"{url}/update_weights_from_disk", json=update, timeout=120).result()
        assert told.json()["success"], told.text
        assert running.result().json()["weight_version"] in (0, 4)
    after = ask(url, temperature=0).json()
    assert (before["weight_version"], after["weight_version"]) == (0, 4)
    assert before["choices"][0]["message"] != after["choices"][0]["message"]
    assert httpx.get(f"{url}/health").json() == {"status": "ok", "weight_version": 4}
    for path in (tmp_path / "none", tiny(tmp_path / "wide", width=64)):
        update = {"model_path": str(path), "weight_version": 5}
        refused = httpx.post(f"{url}/update_weights_from_disk", json=update, timeout=120)
        assert refused.status_code == 400 and str(path) in refused.json()["error"]["message"]
    assert ask(url, temperature=0).json()["choices"] == after["choices"]


def test_a_failing_model_fails_one_batch(engine: Any) -> None:
    with pytest.raises(HttpError, match="The model failed"):
        engine.generate([10**6], Wanted())
    assert engine.generate([1, 2], Wanted(max_tokens=2)).output


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"model": "other"}, 404),
        ({"messages": []}, 400),
        ({"messages": [{"role": "user", "content": 3}]}, 400),
        ({"messages": ["x"]}, 400),
        ({"stream": True}, 400),
        ({"n": 2}, 400),
        ({"temperature": -1}, 400),
        ({"temperature": "hot"}, 400),
        ({"top_p": 0}, 400),
        ({"max_tokens": 0}, 400),
        ({"max_tokens": True}, 400),
        ({"seed": 1 << 80}, 400),
        ({"stop": [""]}, 400),
        ({"top_logprobs": 5}, 400),
        ({"tools": [1]}, 400),
        ({"tool_choice": "required"}, 400),
    ],
)
def test_requests_that_make_no_sense(url: str, fields: dict[str, Any], status: int) -> None:
    answer = ask(url, **fields)
    assert answer.status_code == status and answer.json()["error"]["message"]
