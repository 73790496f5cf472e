"""`report`: one run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from execcritic.cli import options


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, ended or not.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it there; RUN/report.html if absent.")
    ] = None,
    json: options.Json = False,
) -> int:
    """One run as one HTML file, which opens from disk and loads nothing. Ended runs have theirs already."""
    from execcritic import outfile, output
    from execcritic.report import page

    path = out or page.leave(run)
    if out is not None:
        outfile.write(out, page.make(run), "--out")
    output.result(json, {"report": str(path)}, f"Report  {path}")
    return 0
