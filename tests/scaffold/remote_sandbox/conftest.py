"""A service of ours and a Base prepared there. What every sandbox must do is in ../conformance."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from execcritic_scaffold.sandbox.protocol import Command, Completed, Limits, Prepared, Workspace
from execcritic_scaffold.sandbox.remote.sandbox import Remote
from execcritic_scaffold.sandbox.remote.settings import TOKEN, RemoteSettings
from tests import sandbox_server

LIMITS = Limits(seconds=30, memory=512 << 20, disk=64 << 20)


@dataclass
class Place:
    """A sandbox at a service, with a Base that has the file `there`."""

    server: sandbox_server.Server
    sandbox: Remote
    prepared: Prepared

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.prepared)

    def sh(self, script: str, limits: Limits = LIMITS) -> Completed:
        return self.sandbox.run(self.workspace, Command(["bash", "-c", script]), limits)

    def other(self, **settings: float) -> Place:
        """The same Base seen through a client with other settings."""
        return Place(self.server, Remote(RemoteSettings(url=self.server.url, **settings)), self.prepared)


@pytest.fixture(scope="session")
def image() -> str:
    name = os.environ.get("EXECCRITIC_TEST_IMAGE")
    if not name:
        pytest.skip("EXECCRITIC_TEST_IMAGE names no image on a Docker engine")
    return name


@pytest.fixture(scope="module")
def made(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    source = tmp_path_factory.mktemp("source")
    (source / "there").write_text("there\n")
    with pytest.MonkeyPatch.context() as patch, sandbox_server.serve() as server:
        patch.setenv("EXECCRITIC_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv(TOKEN, sandbox_server.KEY)
        sandbox = Remote(RemoteSettings(url=server.url, patience_seconds=10))
        yield Place(server, sandbox, sandbox.prepare("tree", source, sandbox.inspect(None, image)))
        sandbox.close()


@pytest.fixture
def place(made: Place) -> Iterator[Place]:
    made.server.faults.clear()
    made.server.requests.clear()
    yield made
    assert not made.server.sandboxes, "every sandbox is deleted, whatever went wrong"
    made.server.faults.clear()


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key in the environment."""
    monkeypatch.delenv(TOKEN)
