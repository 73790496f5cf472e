"""The command line: one module for each group of commands. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Run one command; returns its exit code (see `execcritic.cli.boundary`)."""
    from execcritic.cli.boundary import guarded

    def command() -> int | None:
        import typer

        from execcritic.cli.app import app

        # Not `app(...)`, which has its own idea of what an interruption and a usage error exit with.
        parser = typer.main.get_command(app)
        try:
            with parser.make_context("execcritic", list(argv)) as context:
                code = parser.invoke(context)
        except typer.Exit as end:
            return end.exit_code
        except SystemExit:  # how rich leaves where the reader of its help has gone away
            return 0
        except BrokenPipeError:  # how it may do too
            if {"-h", "--help"}.isdisjoint(argv):
                raise
            return 0
        return code if isinstance(code, int) else None

    return guarded(argv, command)
