"""Sandboxes by name. Nothing is imported before it is asked for."""

from __future__ import annotations

import importlib
from typing import Any, cast

from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.sandbox.protocol import Sandbox

NAMES = {
    "docker": "execcritic_scaffold.sandbox.docker:Docker",
    "bubblewrap": "execcritic_scaffold.sandbox.bubblewrap:Bubblewrap",
    "local": "execcritic_scaffold.sandbox.local:Local",
    "remote": "execcritic_scaffold.sandbox.remote.sandbox:Remote",
}
ISOLATING = ("bubblewrap", "docker")
"""In the order in which `best` tries them."""
ISOLATED = (*ISOLATING, "remote")
"""All of ours that isolate: where the last one is, only the user's own configuration says."""


METHODS = ("probe", "inspect", "ready", "prepare", "build", "run", "open", "close")
"""What `get` looks for before it makes an object: it calls nothing that is not a sandbox's class."""


def get(name: str, **options: Any) -> Sandbox:
    """The sandbox called `name`: a short name, or `package.module:Class` for one of your own.

    Raises UsageError for a name that means nothing here.
    """
    module, _, attribute = NAMES.get(name, name).partition(":")
    if not attribute:
        raise UsageError(f"There is no sandbox {name!r}; choose {', '.join(NAMES)} or give package.module:Class.")
    try:
        made = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"The sandbox {name!r} cannot be loaded ({error}); choose {', '.join(NAMES)}.") from None
    if not (isinstance(made, type) and all(hasattr(made, method) for method in METHODS)):
        raise UsageError(f"{name!r} is not a sandbox's class (see sandbox/protocol.py); choose {', '.join(NAMES)}.")
    return cast(Sandbox, made(**options))


def best() -> tuple[Sandbox | None, list[str]]:
    """The first isolating sandbox that works here, and what is wrong with those tried before it."""
    problems: list[str] = []
    for name in ISOLATING:
        sandbox = get(name)
        problem = sandbox.probe()
        if problem is None:
            return sandbox, problems
        problems.append(f"{name}: {problem}")
    return None, problems
