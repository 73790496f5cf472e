"""`swebench audit`, `evaluate` and `report`: what came of a batch, after the fact. `run` is in batch.py."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from execcritic.cli import options
from execcritic.cli.batch import swebench

Batch = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a batch.", show_default=False)]
DatasetName = Annotated[
    str | None,
    typer.Option("--dataset", metavar="NAME|FILE|DIR", help="The data set; that of the batch if not given."),
]
Split = Annotated[str | None, typer.Option("--split", metavar="S", help="Its split; that of the batch if not given.")]
Workers = Annotated[int, typer.Option("--workers", metavar="N", min=1, help="How many at a time.")]


class Format(StrEnum):
    """Forms of a report."""

    MD = "md"
    CSV = "csv"
    JSON = "json"


class By(StrEnum):
    """Groupings of a report."""

    REPO = "repo"
    ROUND = "round"


@swebench.command()
def audit(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A batch, or a folder of bundles by instance id.")],
    dataset: DatasetName = None,
    split: Split = None,
    candidates: Annotated[
        list[Path],
        typer.Option(
            "--candidates", metavar="DIR", help="A graded batch whose patches are labelled candidates too; repeatable."
        ),
    ] = [],  # noqa: B006 - typer copies it
    control: Annotated[
        bool, typer.Option("--control/--no-control", metavar="", help="Try Gold under the official test too.")
    ] = True,
    workers: Workers = 1,
    config: options.ConfigFile = None,
    set_: options.Sets = [],  # noqa: B006
    json: options.Json = False,
) -> int:
    """Frozen tests on Base, on Gold and on labelled patches: Base-to-Gold and balanced accuracy, in audit.jsonl.

    Reads the reference patches, so use it after the fact only. The same command again goes on where it ended.
    """
    from execcritic import output
    from execcritic.batch import auditing, auditsummary, datasets
    from execcritic.batch.folder import Folder
    from execcritic.cli import common

    settings = common.work_settings(config, set_, None)
    found = auditing.bundles(folder)
    name, part = _dataset(folder, dataset, split)
    rows = datasets.load(name, part)
    more = auditing.from_batches(candidates)
    tasks = auditing.tasks(found, rows, more, settings, control)
    path = Folder(folder).audit
    for line in auditing.run(path, tasks, workers):
        output.say(auditsummary.sentence(line))
    summary = auditsummary.summary(path, tasks)
    output.result(json, summary.body, summary.text)
    return summary.exit_code


@swebench.command()
def evaluate(
    folder: Batch,
    dataset: DatasetName = None,
    split: Split = None,
    round0: Annotated[
        bool, typer.Option("--round0", metavar="", help="Grade the Round-0 patches too, for wrong-test damage.")
    ] = False,
    gold: Annotated[
        bool, typer.Option("--gold", metavar="", help="Grade the reference patches too: the control run.")
    ] = False,
    python: Annotated[
        str | None, typer.Option("--python", metavar="EXE", help="An interpreter that has `swebench` 4.1 or 5.x.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NAME", help="Of the images, for swebench 4.1.")
    ] = None,
    seconds: Annotated[int, typer.Option("--seconds", metavar="N", min=1, help="Time for one instance.")] = 1800,
    workers: Workers = 4,
    json: options.Json = False,
) -> int:
    """Have the official `swebench` evaluator grade a batch; its answers are kept in evaluation.json."""
    import sys

    from execcritic import output
    from execcritic.batch import evaluation, official, results
    from execcritic.cli import common
    from execcritic_scaffold.errors import InfrastructureError

    batch = results.load(folder)
    name, part = _dataset(folder, dataset, split)
    evaluator = official.find(common.place(None, python, None, (), ()).python or sys.executable)
    how = evaluation.How(evaluator, official.hub_name(name), part or "test", workers, seconds, namespace)
    repeats = sorted({row.repeat for row in batch.rows})
    evaluation.repeats(batch, how, repeats, output.say)
    if round0:
        evaluation.round0(batch, how, repeats, output.say)
    if gold:
        evaluation.gold(batch, how, output.say)
    from execcritic.batch.counts import count

    counts = count(results.load(folder).rows)
    body = {
        "evaluation": str(batch.folder.evaluation),
        "swebench": evaluator.version,
        "requested": counts.requested,
        "resolved": counts.resolved,
        "unresolved": counts.unresolved,
        "not_graded": counts.not_graded,
        "empty": counts.empty,
    }
    text = (
        f"{counts.requested} runs asked for: {counts.resolved} resolved, {counts.unresolved} unresolved "
        f"({counts.empty} without a patch), {counts.not_graded} not graded\nevaluation  {batch.folder.evaluation}"
    )
    output.result(json, body, text)
    return InfrastructureError.exit_code if counts.not_graded or not counts.requested else 0


@swebench.command()
def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="A [B…]", help="Folders of batches, one for each condition.")
    ],
    form: Annotated[Format, typer.Option("--format", metavar="md|csv|json", help="The form.")] = Format.MD,
    by: Annotated[
        list[By], typer.Option("--by", metavar="repo|round", help="Tables by repository, by round; repeatable.")
    ] = [],  # noqa: B006
    plots: Annotated[Path | None, typer.Option("--plots", metavar="DIR", help="Write plots there, as SVG.")] = None,
) -> int:
    """Tables with confidence intervals and paired tests. Exit code 5 where runs are missing, or all are."""
    from execcritic import output
    from execcritic.batch import plots as plotting
    from execcritic.batch import report as reporting
    from execcritic.batch import results, tables

    names = [path.resolve().name for path in folders]
    unique = len(set(names)) == len(names)
    batches = [results.load(path, None if unique else str(path)) for path in folders]
    made = reporting.build(batches, [grouping.value for grouping in by])
    if plots is not None:
        for path in plotting.draw(made, plots):
            output.say(f"Plot: {path}")
    if form is Format.CSV:
        text = tables.comma_separated(made.tables).removesuffix("\n")
        for note in made.notes:
            output.say(note)
    else:
        text = tables.markdown(made.tables) + "".join(f"\n* {note}" for note in made.notes)
    output.result(form is Format.JSON, made.body, text)
    return made.exit_code


def _dataset(folder: Path, name: str | None, split: str | None) -> tuple[str, str | None]:
    """The data set that is named, else that of the batch."""
    from execcritic.batch import results
    from execcritic.batch.folder import Folder
    from execcritic_scaffold.errors import UsageError

    known: object = None
    if Folder(folder).manifest.exists():
        known = results.load(folder).manifest.get("dataset")
    kept = known if isinstance(known, dict) else {}
    name = name or kept.get("name")
    if not isinstance(name, str):
        raise UsageError("Name the data set with --dataset.")
    return name, split or kept.get("split")
