from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from execcritic_roles.agent import ToolAgent
from execcritic_roles.limits import AgentLimits
from execcritic_roles.models.openai import OpenAIModel
from execcritic_roles.models.options import ModelOptions
from execcritic_roles.prompts.render import PromptContext
from execcritic_roles.repairer import make_repairer
from execcritic_roles.trajectory import Trajectory
from execcritic_scaffold.sandbox.protocol import Limits, Prepared, Sandbox, Session, Workspace
from execcritic_scaffold.sandbox.registry import get
from tests.openai_server import Server, serve
from tests.roles.episodes import MakeLimits


@pytest.fixture
def server() -> Iterator[Server]:
    """A Chat Completions server on loopback with an empty script."""
    with serve() as running:
        yield running


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sandbox, Prepared]]:
    """The local sandbox and an empty Base in a cache of its own."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("EXECCRITIC_CACHE", str(tmp_path_factory.mktemp("cache")))
        sandbox = get("local")
        base = sandbox.prepare("empty", tmp_path_factory.mktemp("base"), sandbox.inspect(sys.executable, None))
        yield sandbox, base
        sandbox.close()


@pytest.fixture
def session(prepared: tuple[Sandbox, Prepared]) -> Iterator[Session]:
    """A real session in an empty workspace."""
    sandbox, base = prepared
    with sandbox.open(Workspace(base), Limits()) as opened:
        yield opened


@pytest.fixture
def workspace(session: Session) -> Path:
    """The directory that `session` works in."""
    return Path(session.workdir)


@pytest.fixture
def limits() -> Callable[..., AgentLimits]:
    """Limits that nothing reaches, but for those given."""
    return lambda **given: AgentLimits(**{"turns": 500, "seconds": 300, **given})


@pytest.fixture
def context() -> PromptContext:
    return PromptContext(
        issue="`mean([])` raises ZeroDivisionError; it should return 0.",
        workdir="/testbed",
        submissions=5,
        revisions=5,
        revision_turns=40,
        first_turns=200,
        feedback_chars=6000,
    )


@pytest.fixture
def repairer(server: Server, tmp_path: Path, context: PromptContext, limits: MakeLimits) -> Iterator[Any]:
    """`repairer(**limits)`: a Repair agent that is answered by `server`."""
    with Trajectory(tmp_path / "trajectory.jsonl") as trajectory:

        def make(**given: Any) -> ToolAgent:
            options = ModelOptions(base_url=server.url, backoff_seconds=0.01, patience_seconds=5)
            model = OpenAIModel("m", options)
            return make_repairer(model, prompt_context=context, limits=limits(**given), trajectory=trajectory)

        yield make
