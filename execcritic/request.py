"""What a command that calls models was asked for, in the form that a run's manifest keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from execcritic import clones
from execcritic.config import Config
from execcritic.places import Place
from execcritic_roles.models import registry
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import UsageError

Command = Literal["resolve", "test", "repair"]

MOST = 16
"""Episodes of a role; each holds a workspace of its own for the whole run."""
ROLES: Mapping[Command, tuple[str, ...]] = {"resolve": ("test", "repair"), "test": ("test",), "repair": ("repair",)}


@dataclass(frozen=True)
class Request:
    """One job. `models` gives each role's model specification, and the judge's where there is one; `bundle` is the
    frozen test's folder, for `repair`; `tests` and `repairs` are how many episodes of each role there are."""

    command: Command
    repo: str
    issue: str
    models: Mapping[str, str | None]
    place: Place = field(default_factory=Place)
    bundle: str | None = None
    ref: str | None = None
    """The revision of `repo` to start from; None: as it is, or the default branch of a URL."""
    open_pr: bool = False
    """Whether a verified patch is to be shown as a pull request at the end. That it is to be sent is not kept."""
    confirm: bool = False
    """Whether a person is asked before each command of a model."""
    review: bool = False
    """Whether a person is asked before a test is frozen."""
    tests: int = 1
    repairs: int = 1

    def __post_init__(self) -> None:
        if not all(isinstance(n, int) and 1 <= n <= MOST for n in (self.tests, self.repairs)):
            raise UsageError(f"There can be 1 to {MOST} episodes of a role; correct --tests or --repairs.")

    @property
    def several(self) -> bool:
        """Whether a test and a patch have to be chosen."""
        return (self.tests, self.repairs) != (1, 1)

    @property
    def episodes(self) -> dict[str, str]:
        """Name and role of every episode: the role itself where there is one of each."""
        if not self.several:
            return {role: role for role in self.roles}
        counts = {"test": self.tests, "repair": self.repairs}
        return {f"{role}-{number}": role for role in self.roles for number in range(1, counts[role] + 1)}

    @property
    def roles(self) -> tuple[str, ...]:
        return ROLES[self.command]

    @property
    def side_by_side(self) -> bool:
        """Whether both episodes run at once; a person at one terminal plays one role after the other."""
        return self.roles == ROLES["resolve"] and {self.models[role] for role in self.roles} != {"human"}

    def model(self, role: str) -> str:
        """The specification of a role's model. Raises UsageError where none is named."""
        spec = self.models.get(role)
        if spec is None:
            raise UsageError(f"No model is named for the {role} role; give --model openai:NAME, replay:FILE or human.")
        return spec

    def again(self, place: Place, models: Mapping[str, str | None], folder: Path) -> Request:
        """This request, which a run's manifest in `folder` holds, for going on with the run.

        A run may come from anybody, so its manifest names no code of the host to import or to start; what `place` and
        `models` say wins. Raises UsageError for what the user has to say again.
        """
        known = {role: models.get(role) or harmless(role, spec) for role, spec in self.models.items()}
        return replace(self, place=self.place.again(place, folder), models=known)

    def check(self, config: Config) -> None:
        """Find what can be known to be wrong before anything is written. Raises UsageError."""
        for name, role in self.episodes.items():
            registry.create(self.model(role), name, config.model).close()
        for role, count in (("test", self.tests), ("repair", self.repairs)):
            if count > 1 and self.models.get(role) == "human":
                raise UsageError(f"A person plays one episode of the {role} role; leave --{role}s out.")
        if self.several and not self.side_by_side:
            raise UsageError("A person plays both roles one after the other; leave --tests and --repairs out.")
        if self.models.get("judge"):
            registry.create(self.model("judge"), "judge", config.model).close()
        elif config.selection.judge != "none" and self.command != "test":
            raise UsageError("No model is named for the judge; set models.judge.")
        if config.selection.consistency and not (self.several and self.models.get("judge")):
            raise UsageError(
                "selection.consistency needs a judge and several episodes; set selection.judge=model, and --tests or "
                "--repairs."
            )
        if not clones.is_url(self.repo) and not Path(self.repo).is_dir():
            raise UsageError(f"There is no folder {self.repo}; check --repo.")
        if self.bundle:
            FrozenBundle.load(Path(self.bundle))

    @staticmethod
    def of(body: Mapping[str, Any]) -> Request:
        """From the JSON form in a manifest."""
        place = dict(body["place"])
        place["setup"] = tuple(place["setup"])
        place["source_roots"] = tuple(place["source_roots"]) if place["source_roots"] is not None else None
        return Request(**{**body, "place": Place(**place)})


def harmless(role: str, spec: str | None) -> str | None:
    """A recorded model that is none of a stranger's code. Raises UsageError for one that is."""
    if spec is not None and spec.partition(":")[0] not in ("openai", "replay", "human"):
        raise UsageError(f"The run's {role} role is played by {spec}, code of its own; say it again with --model.")
    return spec
