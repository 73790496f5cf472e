"""Commands of packages above this one, by the entry point group `execcritic.commands` (a typer application each).

They are looked for when a command is not one of ours, or all are to be listed: nothing else pays for it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from execcritic_scaffold.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "execcritic.commands"


class WithPlugins(TyperGroup):
    """A group of our commands and those that were found."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *sorted(_found())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        if own is not None or (entry := _found().get(cmd_name)) is None:
            return own
        try:
            return typer.main.get_command(entry.load())
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"The command {cmd_name} ({entry.value}) cannot be loaded: {error}; reinstall it."
            ) from None


@functools.cache
def _found() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}
