"""`box`: every sandbox in turn, with a small Base prepared in it; `isolating`: those that isolate.

docker runs where EXECCRITIC_TEST_IMAGE names an image of a reachable engine that has Python, bash and coreutils.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator

import pytest

from execcritic_scaffold.sandbox.registry import get
from tests.scaffold.conformance.boxes import (
    Box,
    lay,
)

ENGINES = [
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    "local",
    pytest.param("docker", marks=pytest.mark.docker),
]


@pytest.fixture(scope="module", params=ENGINES)
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    name, image = request.param, None
    if name == "docker":
        image = os.environ.get("EXECCRITIC_TEST_IMAGE")
        if not image:
            pytest.skip("EXECCRITIC_TEST_IMAGE names no image")
    sandbox = get(name)
    if problem := sandbox.probe():
        pytest.skip(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXECCRITIC_CACHE", str(tmp_path_factory.mktemp("cache")))
        interpreter = sandbox.inspect(None if image else sys.executable, image)
        yield Box(sandbox, sandbox.prepare(uuid.uuid4().hex, lay(tmp_path_factory.mktemp("source")), interpreter))
        sandbox.close()


@pytest.fixture
def isolating(box: Box) -> Box:
    if not box.sandbox.isolates:
        pytest.skip("the local sandbox isolates nothing, and says so")
    return box
