"""Configuration: built-in config.yaml < user YAML < environment < `--set`, merged key by key, never replaced.

In the environment a key is spelled EXECCRITIC_LOOP__REVISIONS for `loop.revisions` (two underscores for each dot).
Values are read as YAML. An unknown key is an error that names the nearest known one, where one is near.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from execcritic import credentials
from execcritic.batch.settings import BatchSettings
from execcritic.github.issue import GitHubSettings
from execcritic.hosts import is_loopback
from execcritic_roles.limits import AgentLimits
from execcritic_roles.models.options import ModelOptions
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.loop import LoopSettings
from execcritic_scaffold.sandbox.protocol import Limits
from execcritic_scaffold.selection.settings import SelectionSettings
from execcritic_scaffold.settings import QualifySettings, VerifySettings

PREFIX = "EXECCRITIC_"


class SessionSettings(BaseModel):
    """What an agent's session may use. Sizes in megabytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_mb: int = Field(gt=0)
    disk_mb: int = Field(gt=0)
    processes: int = Field(gt=0)

    def limits(self) -> Limits:
        return Limits(memory=self.memory_mb << 20, disk=self.disk_mb << 20, processes=self.processes)


class BriefSettings(BaseModel):
    """What the agents are told about the repository before their first turn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: int = Field(ge=0)
    """Length at most, estimated; 0: no brief."""


class EnvironmentSettings(BaseModel):
    """How an environment is found and checked where the user names none (docs/setup.md)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    detect: bool
    check: bool
    check_seconds: float = Field(gt=0)
    index: str | None

    @field_validator("index")
    @classmethod
    def _open(cls, index: str | None) -> str | None:
        # Set-up commands are a stranger's code: what they are told they can pass on.
        if index is not None and credentials.masked_url(index) != index:
            raise ValueError("a package index with credentials cannot be kept from set-up commands")
        return index

    def variables(self) -> dict[str, str]:
        """What tells pip and uv about the index; nothing else of the user's configuration reaches a sandbox."""
        return {"PIP_INDEX_URL": self.index, "UV_DEFAULT_INDEX": self.index} if self.index else {}


class ModelNames(BaseModel):
    """Which model plays which role; None: must be named on the command line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    test: str | None
    repair: str | None
    judge: str | None
    """Where `selection.judge` asks for one; None: the Test agent's model, else the Repair agent's."""


class RoleLimits(BaseModel):
    """Bounds of each role's whole episode. `turns` follow from the section `loop` where they are not given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    test: AgentLimits
    repair: AgentLimits


class Config(BaseModel):
    """The whole configuration; each section is read by the part of the program that it names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    loop: LoopSettings
    models: ModelNames
    model: ModelOptions
    limits: RoleLimits
    qualify: QualifySettings
    verify: VerifySettings
    session: SessionSettings
    brief: BriefSettings
    environment: EnvironmentSettings
    github: GitHubSettings
    selection: SelectionSettings
    batch: BatchSettings = BatchSettings()


def load(
    file: Path | None = None,
    sets: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """The configuration from all four layers, and `overrides` (what options of their own say) over them.

    Raises UsageError with the key and, if it is unknown, the nearest one.
    """
    merged = _parse(resources.files("execcritic").joinpath("config.yaml").read_text("utf-8"), "config.yaml")
    if file is not None:
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UsageError(f"The configuration {file} cannot be read ({reason}); check --config.") from None
        _merge(merged, _parse(text, str(file)))
    variables = {}
    for name, value in sorted((os.environ if environ is None else environ).items()):
        if name.startswith(PREFIX) and "__" in name:
            keys = name.removeprefix(PREFIX).lower().split("__")
            variables[".".join(keys)] = name
            _merge(merged, _nested(keys, _value(value, name)))
    for item in sets:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {item!r} is not KEY=VALUE; write for example --set loop.revisions=3.")
        _merge(merged, _nested(key.split("."), _value(value, f"--set {key}")))
    _merge(merged, overrides or {})
    try:
        loop = LoopSettings.model_validate(merged["loop"])
        merged["limits"]["test"].setdefault("turns", loop.test_turns)
        merged["limits"]["repair"].setdefault("turns", loop.repair_turns + loop.revisions * loop.revision_turns)
    except (ValidationError, TypeError, AttributeError):
        pass  # the same fault is found, and explained, by what follows
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise UsageError(_explain(error, variables)) from None


def kept(config: Config) -> dict[str, Any]:
    """The configuration as a run's manifest keeps it: without the key, credentials masked."""
    body: dict[str, Any] = credentials.masked(config.model_dump(mode="json", exclude={"model": {"api_key"}}))
    return body


def restored(body: Mapping[str, Any], now: Config) -> Config:
    """The configuration that `kept` wrote, with the key and what was masked from `now`, as it is given today.

    The endpoint too has to be given again where it is not on this machine: a run may come from anybody, and is not to
    say where the user's key is sent; nor which GitHub gets the token. Raises UsageError with the key that is missing.
    """
    model = dict(body["model"])
    current = now.model.model_dump()
    if current["base_url"] is not None:
        model["base_url"] = current["base_url"]
    elif model.get("base_url") is not None and not _ours(model["base_url"]):
        raise UsageError(f"The run used the endpoint {model['base_url']}; say it again with --base-url.")
    for key, value in model.get("extra", {}).items():
        if credentials.holds_mask(value):
            if key not in current["extra"]:
                raise UsageError(f"The run's model.extra.{key} was not written down; give it again with --set.")
            model["extra"] = {**model["extra"], key: current["extra"][key]}
    try:
        own = {"model": {**model, "api_key": current["api_key"]}, "github": now.github}
        return Config.model_validate({**body, **own})
    except ValidationError as error:
        raise UsageError(_explain(error, {})) from None


def _ours(url: str) -> bool:
    """Whether an endpoint is on this machine, or the one that the environment names."""
    local = is_loopback(urlsplit(url).hostname or "")
    return (local or url == os.environ.get("OPENAI_BASE_URL")) and not credentials.holds_mask(url)


class _Loader(yaml.SafeLoader):
    """Only true and false are booleans, as in YAML 1.2: `guard: off` is the word."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the base class has it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$", re.IGNORECASE), list("tTfF"))


def _parse(text: str, source: str) -> dict[str, Any]:
    body = _value(text, source)
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise UsageError(f"The configuration {source} is not a mapping of sections; see docs/configuration.md.")
    return body


def _value(text: str, source: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{source} is not YAML ({reason}); correct it.") from None


def _nested(keys: Sequence[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


def _merge(into: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for key, value in layer.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _explain(error: ValidationError, variables: Mapping[str, str]) -> str:
    """What is wrong with the first wrong key; `variables` are the keys that the environment set, and their names."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    given = [name for known, name in variables.items() if f"{known}.".startswith(f"{key}.")]
    shown = f"{key} (from {given[0]})" if given else key
    if first["type"] != "extra_forbidden":
        return (
            f"Configuration key {shown}: {first['msg']}; correct its value {credentials.masked(first['input'], key)!r}."
        )
    nearest = difflib.get_close_matches(key, list(_keys(Config)), n=1, cutoff=0.75)
    step = f"the nearest known key is {nearest[0]}" if nearest else "docs/configuration.md lists what there is"
    return f"Unknown configuration key {shown}; {step}."


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield f"{prefix}{name}"
            yield from _keys(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
