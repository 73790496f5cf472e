"""`swebench run`: the main job over many instances. The other commands of `swebench` are in results.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from execcritic.batch.assignment import Ending
from execcritic.batch.assignment import Mode as Condition
from execcritic.cli import options
from execcritic.cli.deferred import HELP
from execcritic.progress import Mode

BATCH = "What is run"

swebench = typer.Typer(
    name="swebench",
    help=HELP["swebench"],
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@swebench.command()
def run(
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="NAME|FILE|DIR", help="The data set.", rich_help_panel=BATCH)
    ] = None,
    split: Annotated[str | None, typer.Option("--split", metavar="S", help="Its split.", rich_help_panel=BATCH)] = None,
    filter_: Annotated[
        str | None,
        typer.Option("--filter", metavar="REGEX", help="Only ids in which this is found.", rich_help_panel=BATCH),
    ] = None,
    slice_: Annotated[
        str | None, typer.Option("--slice", metavar="A:B", help="Only these of them.", rich_help_panel=BATCH)
    ] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="I/N", help="Part I of N of them.", rich_help_panel=BATCH)
    ] = None,
    mode: Annotated[
        Condition,
        typer.Option("--mode", metavar="MODE", help="resolve, test, repair, no-test or oracle.", rich_help_panel=BATCH),
    ] = Condition.RESOLVE,
    bundles: Annotated[
        Path | None,
        typer.Option(
            "--bundles", metavar="DIR", help="A batch whose frozen tests to repair under.", rich_help_panel=BATCH
        ),
    ] = None,
    round0: Annotated[
        Path | None,
        typer.Option("--round0", metavar="DIR", help="A batch whose Round 0 to begin with.", rich_help_panel=BATCH),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="R", min=1, help="Runs of each instance.", rich_help_panel=BATCH)
    ] = 1,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, help="Runs at a time.", rich_help_panel=BATCH)
    ] = 1,
    executor: Annotated[
        str, typer.Option("--executor", metavar="NAME", help="local or ray.", rich_help_panel=BATCH)
    ] = "local",
    ray_address: Annotated[
        str | None, typer.Option("--ray-address", metavar="ADDRESS", help="The Ray cluster.", rich_help_panel=BATCH)
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="DIR",
            help="Go on with a batch; it knows what is run and how.",
            rich_help_panel=BATCH,
        ),
    ] = None,
    rerun: Annotated[
        list[Ending],
        typer.Option(
            "--rerun",
            metavar="ENDING",
            help="Also do again what ended so (finished, model-failed); repeatable.",
            rich_help_panel=BATCH,
        ),
    ] = [],  # noqa: B006 - typer copies it
    allow_changed_config: Annotated[
        bool,
        typer.Option(
            "--allow-changed-config",
            metavar="",
            help="Go on with a batch that was begun with another configuration.",
            rich_help_panel=BATCH,
        ),
    ] = False,
    model: options.Model = None,
    test_model: Annotated[
        str | None, typer.Option("--test-model", metavar="SPEC", help="Another model for the Test agent.")
    ] = None,
    repair_model: Annotated[
        str | None, typer.Option("--repair-model", metavar="SPEC", help="Another model for the Repair agent.")
    ] = None,
    base_url: options.BaseUrl = None,
    runner: options.RunnerName = None,
    sandbox: options.SandboxName = None,
    python: options.Python = None,
    setup: options.Setup = [],  # noqa: B006
    config: options.ConfigFile = None,
    set_: options.Sets = [],  # noqa: B006
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            help="The batch's folder; an earlier one is gone on with.",
            rich_help_panel=options.RUN,
        ),
    ] = Path("batch"),
    progress: options.Progress = Mode.AUTO,
    json: options.Json = False,
) -> int:
    """Run a data set. The same command again goes on where an earlier start ended, however it ended.

    In a model's SPEC {instance} and {repeat} stand for those of the run: replay:DIR/{instance}.jsonl.
    """
    from dataclasses import asdict, replace

    from execcritic import output
    from execcritic.batch import datasets, manifest, watching
    from execcritic.batch.folder import Folder
    from execcritic.batch.start import Order, roles, start
    from execcritic.cli import common
    from execcritic.cli.work import absolute
    from execcritic.places import Place
    from execcritic.progress import capable
    from execcritic_scaffold.errors import UsageError

    settings = common.work_settings(config, set_, base_url)
    place = common.place(sandbox, python, None, setup, [], runner)
    shown = watching.shown(capable(progress))
    given = {"test": absolute(test_model or model), "repair": absolute(repair_model or model)}
    if resume is not None:
        if any((dataset, split, filter_, slice_, shard, bundles, round0, repeats > 1, config)):
            raise UsageError("--resume takes everything from the batch's folder; leave the other options out.")
        out = resume
        known = manifest.reopened(Folder(out), given, place, settings)
        found = datasets.load(known.dataset, known.split, settings.batch.images)
        instances = tuple(instance for instance in found.instances if instance.id in set(known.ids))
        if len(instances) < len(known.ids):
            raise UsageError(f"{known.dataset} no longer has every instance of {out}; restore it.")
        asked, place = replace(known, digest=found.digest), Place(**known.place)
    elif dataset is None:
        raise UsageError("Give the data set with --dataset, or a batch with --resume.")
    else:
        found = datasets.load(dataset, split, settings.batch.images)
        instances = datasets.select(found, pattern=filter_, part=slice_, shard=shard)
        named = settings.models
        models = {"test": given["test"] or absolute(named.test), "repair": given["repair"] or absolute(named.repair)}
        if settings.selection.judge != "none" and mode is not Condition.TEST:
            models["judge"] = absolute(named.judge) or models["test"] or models["repair"]
        asked = manifest.Asked(
            str(Path(dataset).absolute()) if Path(dataset).exists() else dataset,
            split,
            found.digest,
            tuple(instance.id for instance in instances),
            mode,
            repeats,
            {role: spec for role, spec in models.items() if role in (*roles(mode), "judge")},
            asdict(place),
            str(bundles.absolute()) if bundles else None,
            str(round0.absolute()) if round0 else None,
            settings,
        )
    options_ = {"address": ray_address} if ray_address else {}
    again = frozenset(rerun)
    order = Order(out, asked, instances, found, place, workers, executor, options_, again, allow_changed_config)
    with shown:
        done = start(order, shown.show)
    output.result(json, done.body, done.text)
    return done.exit_code
