"""Which runner a repository needs: by name, or found from Base."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.runners.protocol import Runner

NAMES = ("django", "pytest", "sympy", "unittest")
"""In the order in which detection asks them; the first that says yes is taken unless one is named."""


def choose(
    files: Mapping[str, bytes | None], name: str | None = None, options: Mapping[str, Any] | None = None
) -> Runner:
    """The runner for Base: `name` (a short name or the dotted path of a module with `detect` and `create`), else the
    first whose `detect` says yes. `files` maps Base's paths to bytes for configuration files, None for the rest.

    Raises UsageError for a name nobody knows.
    """
    if name is None:
        name = next(n for n in NAMES if _module(n).detect(files))
    runner: Runner = _module(name).create(files, options)
    return runner


def recorded(name: str) -> str:
    """`name` where it is one of ours. A name that came with a bundle is a stranger's: it must not choose what is
    imported. Raises UsageError for every other one.
    """
    if name not in NAMES:
        raise UsageError(f"It was frozen with the runner {name!r}, which is none of ours; name it with --runner.")
    return name


def _module(name: str) -> Any:
    dotted = f"execcritic_scaffold.runners.{name}" if name in NAMES else name
    if "." not in dotted:
        raise UsageError(f"There is no runner named {name!r}; choose one of {', '.join(NAMES)}.")
    try:
        module = importlib.import_module(dotted)
    except ImportError as error:
        raise UsageError(
            f"The runner {name!r} cannot be imported ({error}); choose one of {', '.join(NAMES)}."
        ) from None
    if not (callable(getattr(module, "detect", None)) and callable(getattr(module, "create", None))):
        raise UsageError(f"{name!r} is no runner: it has no `detect` and `create`; choose one of {', '.join(NAMES)}.")
    return module
