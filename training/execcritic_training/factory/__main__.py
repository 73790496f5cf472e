"""`python -m execcritic_training.factory`: the command by itself."""

import sys

from execcritic.cli.boundary import guarded
from execcritic_training.factory.cli import synth


def main(argv: list[str]) -> int:
    """Run the command; its exit code."""
    import typer

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(synth)
    return guarded(argv, lambda: app(argv, prog_name="execcritic train synth", standalone_mode=False))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
