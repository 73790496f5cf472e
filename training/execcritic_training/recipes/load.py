"""Reading a recipe: by the name of a shipped one, or from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import ValidationError

from execcritic_scaffold.errors import UsageError
from execcritic_training.recipes.schema import RlRecipe, SftRecipe

FOLDER = Path(__file__).parent
R = TypeVar("R", SftRecipe, RlRecipe)


def shipped() -> list[str]:
    """The names of the recipes that come with the program."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_sft(recipe: str, changes: Sequence[str] = ()) -> SftRecipe:
    """A recipe for supervised training. `changes` are `key.key=value`. Raises UsageError."""
    return _load(recipe, changes, SftRecipe)


def load_rl(recipe: str, changes: Sequence[str] = ()) -> RlRecipe:
    """A recipe for reinforcement learning. `changes` are `key.key=value`. Raises UsageError."""
    return _load(recipe, changes, RlRecipe)


def _load(recipe: str, changes: Sequence[str], kind: type[R]) -> R:
    path = FOLDER / f"{recipe}.yaml" if recipe in shipped() else Path(recipe)
    try:
        body = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"{recipe} is no recipe ({error.strerror}); name a file, or one of {', '.join(shipped())}."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{recipe} is not YAML ({' '.join(str(error).split())}); correct it.") from None
    if not isinstance(body, dict):
        raise UsageError(f"{recipe} is no recipe: it has no keys; begin with a copy of a shipped one.")
    for change in changes:
        _set(body, change)
    want = get_args(kind.model_fields["stage"].annotation)[0]
    if body.get("stage") != want:
        raise UsageError(f"{recipe} is for the stage {body.get('stage')!r}; this command needs one for {want!r}.")
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{recipe}: {where + ': ' if where else ''}{said}; correct the recipe.") from None


def _set(body: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    *path, last = key.split(".")
    if not equals or not last:
        raise UsageError(f"{change!r} sets nothing; write key=value, for example --set optimiser.lr=1e-5.")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise UsageError(f"{change!r} has no value that is YAML; quote it.") from None
    if isinstance(value, str):  # YAML 1.1 reads 1e-5 as text
        try:
            value = float(value)
        except ValueError:
            pass
    here: Any = body
    for part in path:
        here = here.setdefault(part, {}) if isinstance(here, dict) else None
    if not isinstance(here, dict):
        raise UsageError(f"{key} is not in this recipe; see `schema` in docs/training.md.")
    here[last] = value
