"""Sandboxes and arenas for the attack tests; an arena is built once per layout and shared by the tests of a module."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from execcritic_scaffold.sandbox import registry
from execcritic_scaffold.sandbox.protocol import Sandbox

from .arena import Arena, Layout

MakeArena = Callable[..., Arena]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache of the program for all attacks."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("EXECCRITIC_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def sandboxes(cache: Path) -> Iterator[Callable[[str], Sandbox]]:
    """`sandboxes(name)`: the sandbox, opened once; skips where this machine lacks it."""
    opened: dict[str, Sandbox] = {}

    def get(name: str) -> Sandbox:
        if name not in opened:
            if name == "docker" and not os.environ.get("EXECCRITIC_TEST_IMAGE"):
                pytest.skip("EXECCRITIC_TEST_IMAGE names no image")
            sandbox = registry.get(name)
            if problem := sandbox.probe():
                pytest.skip(problem)
            opened[name] = sandbox
        return opened[name]

    yield get
    for sandbox in opened.values():
        sandbox.close()


@pytest.fixture(scope="session")
def make_arena(sandboxes: Callable[[str], Sandbox], cache: Path, tmp_path_factory: pytest.TempPathFactory) -> MakeArena:
    """`make_arena(layout, sandbox="bubblewrap")`: the arena of a layout (the same object: the same arena)."""
    made: dict[tuple[int, str], Arena] = {}

    def make(layout: Layout, sandbox: str = "bubblewrap") -> Arena:
        key = (id(layout), sandbox)
        if key not in made:
            made[key] = Arena(tmp_path_factory.mktemp("arena"), sandboxes(sandbox), cache, layout)
        return made[key]

    return make
