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

ROLES: Mapping[Command, tuple[str, ...]] = {"resolve": ("test", "repair"), "test": ("test",), "repair": ("repair",)}


@dataclass(frozen=True)
class Request:
    """One job. `models` gives each role's model specification; `bundle` is the frozen test's folder, for `repair`."""

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

    @property
    def roles(self) -> tuple[str, ...]:
        return ROLES[self.command]

    @property
    def side_by_side(self) -> bool:
        """Whether both episodes run at once; a person at one terminal plays one role after the other."""
        return self.roles == ROLES["resolve"] and set(self.models.values()) != {"human"}

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
        known = {role: models.get(role) or self._harmless(role) for role in self.models}
        return replace(self, place=self.place.again(place, folder), models=known)

    def _harmless(self, role: str) -> str | None:
        spec = self.models[role]
        if spec is not None and spec.partition(":")[0] not in ("openai", "replay", "human"):
            raise UsageError(f"The run's {role} role is played by {spec}, code of its own; say it again with --model.")
        return spec

    def check(self, config: Config) -> None:
        """Find what can be known to be wrong before anything is written. Raises UsageError."""
        for role in self.roles:
            registry.create(self.model(role), role, config.model).close()
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
