"""Fixtures on a real engine. What every sandbox must do is in ../conformance; here is what is docker's own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import pytest

from execcritic_scaffold.files import Changes
from execcritic_scaffold.sandbox import docker_engine
from execcritic_scaffold.sandbox.docker import Docker
from execcritic_scaffold.sandbox.protocol import Command, Completed, Limits, Prepared, Workspace

LIMITS = Limits(seconds=60, memory=1 << 30, disk=64 << 20)


@pytest.fixture
def image() -> str:
    """The image to run in; without one the test is skipped."""
    name = os.environ.get("EXECCRITIC_TEST_IMAGE")
    if not name:
        pytest.skip("EXECCRITIC_TEST_IMAGE names no image on a Docker engine")
    return name


@pytest.fixture
def client(image: str) -> Iterator[docker.DockerClient]:
    found = docker.from_env()
    yield found
    found.close()


@pytest.fixture
def run_name(request: pytest.FixtureRequest) -> str:
    """A label value that no other test's containers carry."""
    return f"{request.function.__name__}-{os.getpid()}-{time.monotonic_ns()}"


@pytest.fixture
def sandbox(image: str, run_name: str) -> Iterator[Docker]:
    made = Docker(run=run_name)
    yield made
    made.close()


@pytest.fixture
def limits() -> Limits:
    return LIMITS


@pytest.fixture
def lay(tmp_path: Path) -> Callable[[Mapping[str, bytes]], Path]:
    """`lay(files)`: a folder with these files."""

    def make(files: Mapping[str, bytes]) -> Path:
        for name, data in files.items():
            (tmp_path / "base" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "base" / name).write_bytes(data)
        return tmp_path / "base"

    return make


@pytest.fixture
def source(lay: Callable[[Mapping[str, bytes]], Path]) -> Path:
    """The files of the Base that `prepared` is made from."""
    return lay(
        {
            "pkg/__init__.py": b"",
            "pkg/old/only.py": b"VALUE = 1\n",
            "tests/test_pkg.py": b"def test_it():\n    assert True\n",
            "tests/conftest.py": b"",
        }
    )


@pytest.fixture
def prepared(sandbox: Docker, source: Path, image: str) -> Prepared:
    return sandbox.prepare("docker-tests-1", source, sandbox.inspect(None, image))


@pytest.fixture
def shell(sandbox: Docker, prepared: Prepared) -> Callable[..., Completed]:
    """`shell(script, changes, readonly, **options)`: a shell script in a fresh workspace."""

    def run(
        script: str,
        changes: Changes | None = None,
        readonly: frozenset[str] = frozenset(),
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Completed:
        command = Command(["sh", "-c", script], env=env or {})
        return sandbox.run(Workspace(prepared, changes or {}, readonly), command, LIMITS, **options)

    return run


@pytest.fixture
def containers(client: docker.DockerClient) -> Callable[[str], list[Any]]:
    """`containers(run)`: what the engine has of that run, running or not."""

    def find(run: str) -> list[Any]:
        return client.containers.list(all=True, filters={"label": f"{docker_engine.RUN}={run}"})

    return find
