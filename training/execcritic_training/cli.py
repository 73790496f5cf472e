"""`execcritic train`: data for training each role. Joined to the command line through the entry point group."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from execcritic.cli import options
from execcritic.cli.deferred import HELP
from execcritic.progress import Mode
from execcritic_training import commands
from execcritic_training.factory.cli import synth

train = typer.Typer(
    name="train",
    help=HELP["train"],
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
DATASET_HELP = "The data set: a name, a file or a folder."
Dataset = Annotated[str, typer.Option("--dataset", metavar="NAME|FILE|DIR", help=DATASET_HELP)]
Split = Annotated[str | None, typer.Option("--split", metavar="S", help="Its split.")]


class Role(StrEnum):
    """Whose episodes are collected."""

    TEST = "test"
    REPAIR = "repair"


@train.command()
def collect(
    dataset: Dataset,
    role: Annotated[Role, typer.Option("--role", metavar="ROLE", help="test, or repair under the official test.")],
    split: Split = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", metavar="REGEX", help="Only ids in which this is found.")
    ] = None,
    slice_: Annotated[str | None, typer.Option("--slice", metavar="A:B", help="Only these of them.")] = None,
    shard: Annotated[str | None, typer.Option("--shard", metavar="I/N", help="Part I of N of them.")] = None,
    samples: Annotated[int, typer.Option("--samples", metavar="K", min=1, help="Episodes of each instance.")] = 1,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Episodes at a time.")] = 1,
    executor: Annotated[str, typer.Option("--executor", metavar="NAME", help="local or ray.")] = "local",
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    sandbox: options.SandboxName = None,
    config: options.ConfigFile = None,
    set_: options.Sets = [],  # noqa: B006 - typer copies it
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The batch's folder; an earlier one is gone on with.")
    ] = Path("episodes"),
    progress: options.Progress = Mode.AUTO,
    json: options.Json = False,
) -> int:
    """Episodes of one role from any model. The same command again goes on where an earlier start ended.

    A batch as `swebench run` makes it: a Test episode ends with its frozen test, a Repair episode works under the
    official one.
    """
    from execcritic.batch.assignment import Mode as Condition
    from execcritic.cli import batch

    return batch.run(
        dataset=dataset,
        split=split,
        filter_=filter_,
        slice_=slice_,
        shard=shard,
        mode=Condition.TEST if role is Role.TEST else Condition.ORACLE,
        repeats=samples,
        workers=workers,
        executor=executor,
        model=model,
        base_url=base_url,
        sandbox=sandbox,
        config=config,
        set_=set_,
        out=out,
        progress=progress,
        json=json,
    )


@train.command()
def admit(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Batch folders, or run directories.")],
    dataset: Dataset,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the conversations go, one a line.")],
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="What was dropped and why; else FILE.report.json."),
    ] = None,
    split: Split = None,
    per_instance: Annotated[int, typer.Option("--per-instance", metavar="N", min=1, help="Episodes at most.")] = 4,
    characters: Annotated[int, typer.Option("--characters", metavar="N", min=1, help="Length at most.")] = 160_000,
    validation: Annotated[
        float, typer.Option("--validation", metavar="SHARE", min=0, max=0.99, help="Repositories held out.")
    ] = 0.05,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the split and of what is kept.")] = 0,
    json: options.Json = False,
) -> int:
    """Conversations for supervised training: Test episodes with a valid bundle and a clean Base failure."""
    import json as coding

    from execcritic import outfile, output
    from execcritic.batch import datasets
    from execcritic_training import admission, lines, pooling

    said = report or out.with_name(f"{out.name}.report.json")
    for path, option in ((out, "--out"), (said, "--report")):
        outfile.check(path, option)
    settings = admission.AdmissionSettings(
        per_instance=per_instance, characters=characters, validation=validation, seed=seed
    )
    data = datasets.load(dataset, split)
    instances = {instance.id: instance for instance in data.instances}
    found = [one for path in runs for one in pooling.runs_of(path)]
    result = admission.Report()
    lines.write(out, admission.admit(found, instances, data.gold, settings, result), "--out")
    outfile.write(said, (coding.dumps(result.body, indent=1) + "\n").encode(), "--report")
    reasons = "".join(f"\n  {count} {reason}" for reason, count in result.dropped.most_common())
    text = f"Admitted {result.admitted} of {len(found)} runs to {out}; dropped:{reasons or ' none'}\nReport: {said}"
    output.result(json, {**result.body, "out": str(out), "report": str(said)}, text)
    return 0


@train.command()
def candidates(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE...", help="Batch folders, or files of predictions; =REPORT gives their labels."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the pools go, one instance a line.")],
    json: options.Json = False,
) -> int:
    """Pools of labelled patches, one of each by what it changes."""
    from execcritic import outfile, output
    from execcritic_training import lines, pooling

    outfile.check(out, "--out")
    pools = pooling.gather(sources)
    labelled = {instance: pool for instance, pool in pools.items() if pool.candidates}
    lines.write(out, (pooling.row(instance, pool) for instance, pool in labelled.items()), "--out")
    body = {"instances": len(labelled), **pooling.totals(pools.values()), "out": str(out)}
    text = "\n".join(f"{count:>8} {what}" for what, count in body.items() if what != "out")
    output.result(json, body, f"{text}\nPools: {out}")
    return 0


train.command()(synth)
train.command()(commands.sft)
train.command()(commands.rl)
