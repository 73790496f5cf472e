"""`pr`: a finished run as a pull request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from execcritic.cli import options

WHERE = "Where to, and how it is named"


def pr(
    run: Annotated[
        Path, typer.Option("--run", metavar="DIR", help="The folder of a run that ended as resolved and verified.")
    ],
    push: options.Push = False,
    into: Annotated[
        str | None,
        typer.Option(
            "--into", metavar="OWNER/REPO", help="Where it is to be merged; origin if not given.", rich_help_panel=WHERE
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--base", metavar="BRANCH", help="The branch there; the default one if not given.", rich_help_panel=WHERE
        ),
    ] = None,
    head_repo: Annotated[
        str | None,
        typer.Option(
            "--head-repo", metavar="OWNER/REPO", help="Your fork, where the branch is pushed.", rich_help_panel=WHERE
        ),
    ] = None,
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="The new branch's name.", rich_help_panel=WHERE)
    ] = None,
    title: Annotated[
        str | None,
        typer.Option("--title", metavar="TEXT", help="The title, if not the issue's.", rich_help_panel=WHERE),
    ] = None,
    author: Annotated[
        str | None,
        typer.Option(
            "--author", metavar="NAME <EMAIL>", help="Author of the commits; git's if not given.", rich_help_panel=WHERE
        ),
    ] = None,
    draft: Annotated[
        bool, typer.Option("--draft", metavar="", help="Open it as a draft.", rich_help_panel=WHERE)
    ] = False,
    config: options.ConfigFile = None,
    set_: options.Sets = [],  # noqa: B006 - typer copies it
    json: options.Json = False,
) -> int:
    """A verified run as a pull request: test first, then fix. Shows it and sends nothing, unless --push says so."""
    import os

    from execcritic import config as configuration
    from execcritic import output, pulls
    from execcritic.github.server import Server
    from execcritic.runs import Run

    server = Server.of(configuration.load(config, set_).github.base_url, os.environ)
    wishes = pulls.Wishes(into, base, head_repo, branch, title, author, draft)
    record = Run.reopen(run)
    try:
        shown = pulls.make(record, wishes, server, push)
    finally:
        record.close()
    output.result(json, shown.body, shown.text)
    return 0
