"""Groups of commands that are not even built unless one of theirs is to run: a list of all commands stays quick.

Those of packages above this one are found by the entry point group `execcritic.commands`, asked only of our own
distribution, which holds all four packages.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from execcritic_scaffold.errors import UsageError

ENTRY_POINTS = "execcritic.commands"
HELP = {
    "swebench": "Many issues at once: SWE-bench and data sets like it.",
    "train": "Training of each role: tasks, episodes, data, supervised and reinforcement learning.",
}
"""What a list of commands says of each group."""


class Deferring(TyperGroup):
    """Our commands, and the groups of HELP."""

    def list_commands(self, ctx: Any) -> list[str]:
        found = importlib.util.find_spec("execcritic_training")
        return [*super().list_commands(ctx), *(name for name in HELP if name != "train" or found)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; of a group only its name and its help, until it is resolved."""
        own = super().get_command(ctx, cmd_name)
        return TyperCommand(cmd_name, help=HELP[cmd_name]) if own is None and cmd_name in HELP else own

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in HELP:
            return args[0], typer.main.get_command(_application(args[0])), args[1:]
        return super().resolve_command(ctx, args)


def _application(name: str) -> Any:
    if name == "swebench":
        from execcritic.cli import batch

        importlib.import_module("execcritic.cli.results")  # adds its commands
        return batch.swebench
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution("execcritic").entry_points.select(group=ENTRY_POINTS)[name].load()
    except (PackageNotFoundError, KeyError, ImportError, AttributeError) as error:
        raise UsageError(f"The command {name} cannot be loaded ({error}); reinstall execcritic.") from None
