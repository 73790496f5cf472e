"""What a bundle, or a run's manifest, may decide about where code runs here.

Both may come from anybody. Without the user's own word they choose only among what isolates, and name no code of ours
to import and no program of the host to start but an interpreter that lies outside what the stranger brought.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from execcritic_scaffold.errors import BundleError, UsageError
from execcritic_scaffold.sandbox.registry import ISOLATED


def sandbox(name: str | None) -> str | None:
    """A recorded sandbox. Raises UsageError for one that does not isolate, or is none of ours."""
    if name is None or name in ISOLATED:
        return name
    if name == "local":
        raise UsageError("It was frozen without isolation; say --sandbox local to run it so, or name another sandbox.")
    raise UsageError(f"It was frozen in the sandbox {name!r}, which is none of ours; name one with --sandbox.")


def python(path: str | None, strangers: Iterable[Path], own: str) -> str | None:
    """A recorded interpreter. The host starts it to describe it: it must be absolute, and outside the repository.

    `strangers` are the folders whose content others may have made; `own` is the interpreter that would be taken if none
    were recorded (the active virtual environment's), wherever it lies. Raises UsageError.
    """
    if path is None:
        return None
    if not Path(path).is_absolute():
        raise UsageError(f"The recorded interpreter {path!r} is not an absolute path; name one with --python.")
    if path == own:
        return path
    named = Path(path).parent.resolve() / Path(path).name
    for folder in strangers:
        top = folder.resolve()
        if named.is_relative_to(top) or named.resolve().is_relative_to(top):
            raise UsageError(
                f"The recorded interpreter {path} lies inside {folder}, so it is not started unasked; "
                "name it with --python if you trust it."
            )
    return path


def setup(commands: tuple[str, ...], chosen: str | None) -> tuple[str, ...]:
    """Recorded set-up commands, for the sandbox that was chosen (None: one that isolates, found later).

    Raises UsageError where they would run without isolation.
    """
    if commands and chosen is not None and chosen not in ISOLATED:
        raise UsageError(
            f"Its environment is made by set-up commands ({'; '.join(commands)}), which the sandbox {chosen!r} would "
            "run without isolation; give them yourself with --setup, or a ready interpreter with --python."
        )
    return commands


def text(environment: Mapping[str, Any], key: str) -> str | None:
    """A field that is text or absent. Raises BundleError."""
    value = environment.get(key)
    if value is not None and not isinstance(value, str):
        raise BundleError(f"The recorded {key} is no text; get a complete copy of the bundle.")
    return value or None


def texts(environment: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A field that is a list of text or absent. Raises BundleError."""
    value = environment.get(key) or ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise BundleError(f"The recorded {key} is no list of text; get a complete copy of the bundle.")
    return tuple(value)


def folders(environment: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of folders inside the repository. Raises BundleError for one outside."""
    found = texts(environment, key)
    for folder in found:
        if PurePosixPath(folder).is_absolute() or os.pardir in PurePosixPath(folder).parts:
            raise BundleError(f"The recorded {key} lead out of the repository ({folder}); do not trust this bundle.")
    return found
