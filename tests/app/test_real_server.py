"""The real command against a real server with a small real model. It cannot fix bugs; all around it must hold.

EXECCRITIC_TEST_SERVER is the URL of an OpenAI-compatible server, or the command line that starts one, with {port} for
its port (docs/models.md has both for `transformers serve` and llama.cpp). A turn takes minutes on a busy machine.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from execcritic_roles.trajectory import read
from tests.app.conftest import SCRIPT

SERVER = os.environ.get("EXECCRITIC_TEST_SERVER", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not SERVER, reason="EXECCRITIC_TEST_SERVER names no server (docs/models.md)"),
]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a server that answers."""
    if SERVER.startswith("http"):
        yield SERVER
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as sink:
        server = subprocess.Popen(shlex.split(SERVER.format(port=port)), stdout=sink, stderr=sink)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        for _ in range(600):
            assert server.poll() is None, log.read_text("utf-8", "replace")[-2000:]
            try:
                httpx.get(f"{url}/models").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(1)
        yield url
    finally:
        server.kill()  # asked politely it would first finish the replies that nobody waits for any more
        server.wait()


@pytest.fixture
def command(endpoint: str, environment: Mapping[str, str], repo: Path, issue: Path, tmp_path: Path) -> Any:
    """`command(*options)`: `execcritic test` against the server as a running process; its run is in `tmp_path/run`."""
    (tmp_path / "temporary").mkdir()
    model = os.environ.get("EXECCRITIC_TEST_SERVER_MODEL") or httpx.get(f"{endpoint}/models").json()["data"][0]["id"]

    def start(*options: str, name: str = model) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                *(SCRIPT, "test", "--repo", repo, "--issue", issue, "--out", tmp_path / "run"),
                *("--model", f"openai:{name}", "--base-url", endpoint, "--set", "model.max_output_tokens=60"),
                *(part for option in options for part in ("--set", option)),
            ],
            env={**environment, "TMPDIR": str(tmp_path / "temporary")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def replies(run: Path) -> list[dict[str, Any]]:
    return [line for line in read(run / "test" / "trajectory.jsonl") if line["event"] == "reply"]


@pytest.mark.parametrize("protocol", ["text", "tools"])
def test_garbage_is_answered_and_ends_at_a_limit(command: Any, tmp_path: Path, protocol: str) -> None:
    process = command(f"model.protocol={protocol}", "loop.test_turns=2", "limits.test.seconds=1500")
    out, err = process.communicate()
    assert process.returncode == 3, out + err  # no test qualified
    assert "Traceback" not in err
    lines = list(read(tmp_path / "run" / "test" / "trajectory.jsonl"))
    said = [line for line in lines if line["event"] == "reply"]
    assert len(said) == 2 and all(line["usage"]["input_tokens"] > 500 for line in said)
    assert all(line["usage"]["cost"] is None and not line["usage"]["estimated"] for line in said)
    assert said[1]["usage"]["input_tokens"] > said[0]["usage"]["input_tokens"]
    answered = [line["message"]["role"] for line in lines if line["event"] == "message"]
    assert answered[2:] and set(answered[2:]) <= {"user", "tool"}
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_limit_on_seconds_ends_a_slow_reply(command: Any, tmp_path: Path) -> None:
    process = command("model.protocol=text", "limits.test.seconds=1", "model.max_output_tokens=4000")
    out, err = process.communicate()
    assert process.returncode == 3 and "did not answer within" in out + err, out + err
    assert replies(tmp_path / "run") == []


def test_an_interruption_leaves_nothing(command: Any, tmp_path: Path) -> None:
    process = command("model.protocol=text")
    while not (tmp_path / "run" / "test" / "trajectory.jsonl").exists():
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err, out + err
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_model_that_the_server_does_not_have(command: Any) -> None:
    process = command(name="no-such-model")
    _, err = process.communicate()
    if process.returncode == 3:
        pytest.skip("this server answers under any name")
    assert process.returncode == 5 and "no-such-model" in err and "Traceback" not in err, err
