"""Pulling from a registry that is there in HTTP only, through the real engine: what it says decides what we do."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from execcritic.batch import pulling
from execcritic.batch.images import ImageSettings
from execcritic.batch.pulling import Fetched, How
from execcritic_scaffold.sandbox import docker_engine

IMAGE = os.environ.get("EXECCRITIC_TEST_IMAGE", "")
pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not IMAGE, reason="EXECCRITIC_TEST_IMAGE names no image"),
]
FAULTS = {
    "gone": (404, "MANIFEST_UNKNOWN"),
    "unknown": (404, "NAME_UNKNOWN"),
    "login": (401, "UNAUTHORIZED"),
    "refused": (403, "DENIED"),
    "down": (503, "UNAVAILABLE"),
    "busy": (429, "TOOMANYREQUESTS"),
}
KIND = "application/vnd.docker."


def image(architecture: str, salt: bytes) -> dict[str, tuple[str, bytes]]:
    """The answers that make up an image with one layer, by the end of the path."""
    holder = io.BytesIO()
    with tarfile.open(fileobj=holder, mode="w") as tar:
        info = tarfile.TarInfo("file")
        info.size = len(salt)
        tar.addfile(info, io.BytesIO(salt))
    plain = holder.getvalue()
    layer = gzip.compress(plain)
    root = {"type": "layers", "diff_ids": [_digest(plain)]}
    config = json.dumps({"architecture": architecture, "os": "linux", "config": {}, "rootfs": root}).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{KIND}distribution.manifest.v2+json",
        "config": {"mediaType": f"{KIND}container.image.v1+json", "size": len(config), "digest": _digest(config)},
        "layers": [{"mediaType": f"{KIND}image.rootfs.diff.tar.gzip", "size": len(layer), "digest": _digest(layer)}],
    }
    whole = json.dumps(manifest).encode()
    answer = f"{KIND}distribution.manifest.v2+json", whole
    blobs = {f"blobs/{_digest(data)}": ("application/octet-stream", data) for data in (config, layer)}
    return {"manifests/latest": answer, f"manifests/{_digest(whole)}": answer, **blobs}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Counting(ThreadingHTTPServer):
    """A server that knows how often each kind of manifest was asked for."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked: dict[str, int] = {}


class Registry(BaseHTTPRequestHandler):
    """`/v2/<kind>/img/…`: the kinds of FAULTS, `amd64` and `arm64` (images), `late` (an image at the third attempt)."""

    protocol_version = "HTTP/1.1"
    salt = os.urandom(8)

    def do_GET(self) -> None:
        _, _, kind, *rest = self.path.split("/")
        if not rest:
            return self._answer(200, "application/json", b"{}")
        assert isinstance(self.server, Counting)
        asked = self.server.asked
        if rest[1] == "manifests":
            asked[kind] = asked.get(kind, 0) + 1
        code, word = (503, "UNAVAILABLE") if kind == "late" and asked[kind] < 3 else FAULTS.get(kind, (200, ""))
        if code != 200:
            said = json.dumps({"errors": [{"code": word, "message": word}]}).encode()
            return self._answer(code, "application/json", said)
        kept = image("arm64" if kind == "arm64" else "amd64", self.salt + kind.encode())
        return self._answer(200, *kept["/".join(rest[1:])])

    do_HEAD = do_GET

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("WWW-Authenticate", "Basic realm=x")
        self.send_header("Docker-Content-Digest", _digest(body))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """The address of the registry. What was pulled from it is removed."""
    server = Counting(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{server.server_port}"
    yield address
    server.shutdown()
    client = docker_engine.connect()
    for found in client.images.list():
        for name in (tag for tag in found.tags if tag.startswith(address)):
            client.images.remove(name)
    client.close()


def fetched(*names: str, **settings: Any) -> tuple[dict[str, Fetched], list[tuple[str, Mapping[str, Any]]]]:
    """What became of images, and what was told on the way."""
    told: list[tuple[str, Mapping[str, Any]]] = []
    chosen = ImageSettings(**{"free_gb": 0, "patience_seconds": 0, **settings})
    ended = pulling.fetch(names, chosen, lambda kind, data: told.append((kind, data)))
    return {one.image: one for one in ended}, told


@pytest.mark.parametrize("kind", ["gone", "unknown", "login", "refused"])
def test_what_will_not_change_is_not_asked_again(registry: str, kind: str) -> None:
    name = f"{registry}/{kind}/img:latest"
    ended, told = fetched(name, patience_seconds=600)
    assert ended[name].how is How.ABSENT and name in str(ended[name].reason) and not told


@pytest.mark.parametrize("kind", ["down", "busy"])
def test_what_may_change_is_given_up_after_a_while(registry: str, kind: str) -> None:
    name = f"{registry}/{kind}/img"
    ended, told = fetched(name, patience_seconds=0.3)
    assert ended[name].how is How.FAILED and "registry" in str(ended[name].reason)
    assert told and told[0][0] == "image.waiting"


def test_no_engine_is_asked_for_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    assert fetched() == ({}, [])


def test_a_registry_that_nobody_plays() -> None:
    ended, _ = fetched("127.0.0.1:9/x/y")
    assert ended["127.0.0.1:9/x/y"].how is How.FAILED


def test_a_registry_that_comes_back_and_one_image_that_is_there(registry: str) -> None:
    late = f"{registry}/late/img"
    ended, told = fetched(late, IMAGE, late, patience_seconds=60, pulls=1)
    assert {name: one.how for name, one in ended.items()} == {late: How.PULLED, IMAGE: How.PRESENT}
    assert told[0][0] == "image.waiting" and told[-1][0] == "image.pulling"
    again, _ = fetched(late)
    assert again[late] == Fetched(late, How.PRESENT)


def test_an_image_of_another_machine(registry: str) -> None:
    name = f"{registry}/arm64/img"
    ended, _ = fetched(name, architecture="x86_64")
    assert ended[name].how is How.ABSENT
    assert "made for arm64, not for x86_64" in str(ended[name].reason)
    emulated, _ = fetched(name, architecture="arm64")
    assert emulated[name].usable


def test_a_pull_is_not_begun_on_a_disk_without_room(registry: str) -> None:
    name = f"{registry}/amd64/img"
    if not os.environ.get("DOCKER_HOST", "unix://").startswith("unix://"):
        pytest.skip("the engine's disk is on another machine")
    ended, _ = fetched(name, free_gb=1e9, patience_seconds=600)
    assert ended[name].how is How.FAILED and "batch.images.free_gb=1e+09" in str(ended[name].reason)


def test_a_stop_ends_the_waiting(registry: str) -> None:
    stop = threading.Event()
    names = [f"{registry}/down/img{number}" for number in range(3)]
    chosen = ImageSettings(free_gb=0, patience_seconds=600, pulls=1)
    ended = list(pulling.fetch(names, chosen, lambda kind, data: stop.set(), stop))
    assert {one.image: one.how for one in ended} == dict.fromkeys(names, How.FAILED)
