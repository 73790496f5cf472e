"""The typer application. Imported only once a command is to be parsed."""

from __future__ import annotations

from typing import Annotated

import typer

from execcritic import output
from execcritic.cli import deferred, judge, machine, pull, report, work


def _version(wanted: bool) -> None:
    if wanted:
        from execcritic import __version__

        output.result(False, {}, f"execcritic {__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool, typer.Option("--version", metavar="", help="Print the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """From an issue to a frozen, qualified regression test and a patch verified against it."""


app = typer.Typer(
    cls=deferred.Deferring,
    epilog="Exit codes of resolve and repair: 0 resolved, 3 no test qualified, 4 not fixed; of qualify and test: 0, "
    "3 rejected; of verify: 0 PASS, 1 FAIL, 6 FORBIDDEN or TAMPERED. Always: 2 usage, 5 inconclusive or "
    "infrastructure, 70 internal error, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(_main)
for _group in (
    (work.resolve, work.test, work.repair),
    (judge.qualify, judge.verify),
    (pull.pr, report.report),
    (machine.demo, machine.doctor, machine.clean),
):
    for _command in _group:
        app.command()(_command)
