"""`box`: every sandbox in turn, with a small Base prepared in it; `isolating`: those that isolate.

docker and remote run where EXECCRITIC_TEST_IMAGE names an image of a reachable engine that has Python, bash and
coreutils; remote through a service of ours (tests/sandbox_server.py), whose every sandbox costs seconds: all but a few
of its tests are slow.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from execcritic_scaffold.sandbox.registry import get
from execcritic_scaffold.sandbox.remote.settings import TOKEN, RemoteSettings
from tests import sandbox_server
from tests.scaffold.conformance.boxes import (
    Box,
    lay,
)

ENGINES = [
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    "local",
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("remote", marks=pytest.mark.docker),
]
QUICK = ("test_streams_are_bytes_and_apart", "test_directory_and_variables_persist")


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and "remote" in item.name and item.originalname not in QUICK:
        item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module", params=ENGINES)
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    name, image = request.param, None
    if name in ("docker", "remote"):
        image = os.environ.get("EXECCRITIC_TEST_IMAGE")
        if not image:
            pytest.skip("EXECCRITIC_TEST_IMAGE names no image")
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("EXECCRITIC_CACHE", str(tmp_path_factory.mktemp("cache")))
        options = {}
        if name == "remote":
            patch.setenv(TOKEN, sandbox_server.KEY)
            options["settings"] = RemoteSettings(url=stack.enter_context(sandbox_server.serve()).url)
        sandbox = get(name, **options)
        if problem := sandbox.probe():
            pytest.skip(problem)
        interpreter = sandbox.inspect(None if image else sys.executable, image)
        yield Box(sandbox, sandbox.prepare(uuid.uuid4().hex, lay(tmp_path_factory.mktemp("source")), interpreter))
        sandbox.close()


@pytest.fixture
def isolating(box: Box) -> Box:
    if not box.sandbox.isolates:
        pytest.skip("the local sandbox isolates nothing, and says so")
    return box
