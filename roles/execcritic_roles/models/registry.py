"""From a specification on the command line to a model."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path
from typing import cast

from execcritic_roles.models.options import ModelOptions
from execcritic_roles.models.protocol import ChatModel, OnWait
from execcritic_roles.terminal import Terminal
from execcritic_scaffold.errors import UsageError

CHOICES = "openai:MODEL, replay:FILE or human"


def create(
    spec: str,
    role: str,
    options: ModelOptions | None = None,
    *,
    on_wait: OnWait | None = None,
    cancel: threading.Event | None = None,
    terminal: Terminal | None = None,
) -> ChatModel:
    """A model for one role ("test" or "repair") in one episode.

    `spec` is one of CHOICES, or `package.module.factory:ARGUMENT` for a model of the user's own, whose factory is
    called with (argument, role, options). `terminal` is the person's (default: stdin, stderr).
    Raises UsageError for a specification that is none of these, or that the model itself refuses.
    """
    options = options or ModelOptions()
    kind, colon, argument = spec.partition(":")
    if kind == "human" and not argument:
        from execcritic_roles.models.human import HumanModel

        return HumanModel(terminal or Terminal(sys.stdin, sys.stderr), role)
    if kind == "openai" and colon:
        from execcritic_roles.models.openai import OpenAIModel

        return _speaking(OpenAIModel(argument, options, on_wait, cancel), options)
    if kind == "replay" and argument:
        from execcritic_roles.models.replay import ReplayModel

        return ReplayModel(Path(argument), role)
    if colon and "." in kind:
        return _speaking(_by_path(kind, argument, role, options), options)
    raise UsageError(f"{spec!r} is not a model; use {CHOICES}.")


def _speaking(model: ChatModel, options: ModelOptions) -> ChatModel:
    if options.protocol == "tools":
        return model
    from execcritic_roles.models.text import TextProtocolModel

    return TextProtocolModel(model)


def _by_path(path: str, argument: str, role: str, options: ModelOptions) -> ChatModel:
    module, _, attribute = path.rpartition(".")
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"The model {path!r} cannot be loaded ({error}); use {CHOICES}.") from None
    return cast(ChatModel, factory(argument, role, options))
