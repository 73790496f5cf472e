"""`execcritic train synth`: the command of the task factory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def synth(
    repos: Annotated[
        list[str],
        typer.Argument(metavar="REPO...", help="A folder, name==version from the package index, or `listed`."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder of the data set; what is there is gone on with.")],
    seed: Annotated[int, typer.Option("--seed", help="All chance comes from it.")] = 0,
    per_function: Annotated[
        int, typer.Option("--per-function", min=1, help="At most so many tasks of one function.")
    ] = 3,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many tasks of each package.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Sandboxes at the same time.")] = 1,
    pin: Annotated[
        list[str] | None, typer.Option("--pin", help="A package of the environment (name==version); may be repeated.")
    ] = None,
    python_path: Annotated[
        str | None, typer.Option("--source-root", help="Folder of the source that the package is imported from.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Who words the issues (openai:MODEL, ...); default: a template.")
    ] = None,
    sandbox: Annotated[str | None, typer.Option("--sandbox", help="bubblewrap, docker or local.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Make tasks from packages with tests: real bugs by mutation, with hidden tests, an issue, Gold and candidates."""
    from execcritic import output
    from execcritic_scaffold.errors import Interrupted
    from execcritic_training.factory.issue import template
    from execcritic_training.factory.make import Request, make
    from execcritic_training.factory.packages import find
    from execcritic_training.factory.writer import open_writer

    packages = find(repos, pin or (), python_path)
    with open_writer(model) as writer:
        request = Request(
            packages, out, writer or template, model or "template", seed, per_function, limit, jobs, sandbox
        )
        try:
            body = make(request, output.say)
        except KeyboardInterrupt:
            raise Interrupted("Interrupted; the same command goes on where this one stopped.") from None
    lines = [f"{body['tasks']} tasks in {out / 'instances.jsonl'} ({body['seconds']:.0f} s)"]
    lines += [f"  {package}: {count}" for package, count in body["packages"].items()]
    lines += [f"dropped: {reason}: {count}" for reason, count in body["dropped"].items()]
    output.result(json, body, "\n".join(lines))
