"""The model of a role for one run: opened from its specification, and continued where an earlier attempt left off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from execcritic.config import Config
from execcritic.request import Request
from execcritic.runs import Run
from execcritic_roles.approval import Approval
from execcritic_roles.models import registry
from execcritic_roles.models.options import ModelOptions
from execcritic_roles.models.protocol import ChatModel, Message, Reply, ToolSchema, Wait
from execcritic_roles.models.replay import ReplayModel
from execcritic_roles.terminal import Terminal
from execcritic_roles.trajectory import Trajectory
from execcritic_scaffold.errors import ModelError

if TYPE_CHECKING:
    from execcritic_roles.agent import Approve, ToolAgent
    from execcritic_roles.prompts.render import PromptContext


BEGUN = "begun.jsonl"
"""Beside a trajectory: replies of another run with which this episode is to begin (see `batch.round0`)."""
View = Callable[[str, Mapping[str, Any]], None]
"""Shows an event to a person: its name and its data."""


class ContinuedModel:
    """Gives the replies of an earlier attempt again, then asks the model. Nothing recorded is paid twice."""

    def __init__(self, recorded: ReplayModel, model: ChatModel) -> None:
        self.name = model.name
        self._recorded: ReplayModel | None = recorded
        self._model = model

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema], seconds: float | None = None) -> Reply:
        """See `ChatModel.complete`."""
        if self._recorded is not None:
            try:
                return self._recorded.complete(messages, tools, seconds)
            except ModelError:  # the recording is used up
                self._recorded = None
        return self._model.complete(messages, tools, seconds)

    def close(self) -> None:
        self._model.close()


@dataclass(frozen=True)
class RoleModel:
    """A role's model with what its agent is made of."""

    role: str
    model: ChatModel
    config: Config
    path: Path
    cancel: threading.Event
    approve: Approve | None = None
    episode: str | None = None

    def trajectory(self, view: View) -> Trajectory:
        """The record of the episode; every reply, and how each command ended, is shown as it comes."""

        def observe(event: Mapping[str, Any]) -> None:
            about = {"role": self.role, "turn": event["turn"]}
            if event["event"] == "reply":
                named = {"episode": self.episode} if self.episode else {}
                view("turn", {**named, **about, "message": event["message"], "usage": event["usage"]})
            elif action := event.get("action"):
                view("action", {**about, **action})

        return Trajectory(self.path, observe)

    def agent(self, context: PromptContext, trajectory: Trajectory) -> ToolAgent:
        """The agent of this role at the start of its episode."""
        from execcritic_roles.repairer import make_repairer
        from execcritic_roles.tester import make_tester

        make, limits = {
            "test": (make_tester, self.config.limits.test),
            "repair": (make_repairer, self.config.limits.repair),
        }[self.role]
        return make(
            self.model,
            prompt_context=context,
            limits=limits,
            trajectory=trajectory,
            cancel=self.cancel,
            approve=self.approve,
        )


@contextmanager
def open_model(
    request: Request, config: Config, run: Run, name: str, cancel: threading.Event, view: View, terminal: Terminal
) -> Iterator[RoleModel]:
    """The model of an episode, for the time of a `with` block: `name` is the role, or one of several episodes of it
    ("test-2"). Raises UsageError where no model is named for the role."""
    role, _, number = name.partition("-")
    spec = request.model(role)

    def waiting(wait: Wait) -> None:
        named = {"episode": name} if number else {}
        event = {**named, "role": role, "reason": wait.reason, "seconds": round(wait.seconds, 1)}
        run.log("model.waiting", event)
        view("model.waiting", event)

    path = run.path(name, "trajectory.jsonl")
    options = _sampled(config.model, int(number or 1))
    model = registry.create(spec, name, options, on_wait=waiting, cancel=cancel, terminal=terminal)
    begun = path.with_name(BEGUN)
    recorded = _set_aside(path)
    if spec.startswith("replay:"):  # plays the same again by itself
        recorded = begun if begun.exists() else None
    if recorded is not None:
        model = ContinuedModel(ReplayModel(recorded, role), model)
    try:
        approve = _approval(request, run, role, terminal)
        yield RoleModel(role, model, config, path, cancel, approve, name if number else None)
    finally:
        model.close()


def _approval(request: Request, run: Run, role: str, terminal: Terminal) -> Approval | None:
    """Who is asked before a command of this role runs: nobody, or the person at the terminal, who plays no role."""
    if not request.confirm or request.model(role) == "human":
        return None
    declined: dict[str, list[str]] = {}
    for event in run.events():
        if event["event"] == "confirm" and (event["role"], event["answer"]) == (role, "no"):
            declined.setdefault(event["command"], []).append(event["reason"])
    return Approval(terminal, role, run.log, declined)


def _sampled(options: ModelOptions, number: int) -> ModelOptions:
    """How the episode of this number samples: a seed that is set would make all episodes the same one."""
    seed = options.extra.get("seed")
    if number == 1 or not isinstance(seed, int):
        return options
    return options.model_copy(update={"extra": {**options.extra, "seed": seed + number - 1}})


def _set_aside(path: Path) -> Path | None:
    """Keep the trajectory of an earlier attempt under another name; of all attempts, and what the episode was to begin
    with, the one with most replies, None without any."""
    attempts = sorted(path.parent.glob("trajectory.*.jsonl"))
    if path.exists():
        attempts.append(path.rename(path.with_name(f"trajectory.{len(attempts) + 1}.jsonl")))
    begun = path.with_name(BEGUN)
    replies = {file: file.read_bytes().count(b'"event":"reply"') for file in (*attempts, begun) if file.exists()}
    longest = max(replies, key=lambda file: replies[file], default=None)
    return longest if longest is not None and replies[longest] else None
