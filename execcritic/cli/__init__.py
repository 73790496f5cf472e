"""The command line: one module for each group of commands. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Run one command; returns its exit code (see `execcritic.cli.boundary`)."""
    from execcritic.cli.boundary import guarded

    def command() -> int | None:
        from execcritic.cli.app import app

        code = app(args=list(argv), prog_name="execcritic", standalone_mode=False)
        return code if isinstance(code, int) else None

    return guarded(argv, command)
