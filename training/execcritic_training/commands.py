"""`execcritic train sft` and `execcritic train rl`: the commands of the trainers. What imports torch does so when they
run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from execcritic.cli import options
from execcritic_scaffold.errors import UsageError

if TYPE_CHECKING:
    from execcritic_training.recipes import RlRecipe
    from execcritic_training.rl import Settings, Source

Recipe = Annotated[str, typer.Option("--recipe", metavar="NAME|FILE", help="A shipped recipe, or a file of YAML.")]
Weights = Annotated[Path, typer.Option("--model", metavar="DIR", help="The folder with the weights to begin with.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The run's folder; an earlier run is gone on with.")]
Changes = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change the recipe (repeatable).")]
Template = Annotated[
    Path | None, typer.Option("--template", metavar="FILE", help="Chat template; else the tokenizer's own.")
]
Until = Annotated[
    int | None, typer.Option("--until", metavar="N", min=1, help="End this start after N; the next one goes on.")
]


def sft(
    data: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What `train admit` wrote, or records.")],
    recipe: Recipe,
    model: Weights,
    out: Out,
    template: Template = None,
    until: Until = None,
    set_: Changes = [],  # noqa: B006 - typer copies it
    json: options.Json = False,
) -> int:
    """Supervised training. The same command again goes on behind the last checkpoint."""
    from execcritic import output
    from execcritic_training.recipes import load_sft

    asked = load_sft(recipe, set_)
    with needed():
        from execcritic_training import sft as trainer
    settings = trainer.Settings(model, out, _text(template), until, say=lambda text: typer.echo(text, err=True))
    body = {**trainer.train(asked, data, settings), "policy": str(out / "policy")}
    text = f"{body['updates']} updates on {body['train']} samples, loss {body['loss']}\nPolicy: {out / 'policy'}"
    output.result(json, body, text)
    return 0


def rl(
    recipe: Recipe,
    model: Weights,
    out: Out,
    data: Annotated[
        list[Path], typer.Argument(metavar="[FILE...]", help="Judged records, one file a step, in order.")
    ] = [],  # noqa: B006 - typer copies it
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="NAME|FILE|DIR", help="Instead of files: make the episodes.")
    ] = None,
    split: Annotated[str | None, typer.Option("--split", metavar="S", help="Its split.")] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="openai:NAME", help="The trained model, as it is served.")
    ] = None,
    base_url: options.BaseUrl = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Episodes at a time.")] = 8,
    sandbox: options.SandboxName = None,
    config: options.ConfigFile = None,
    template: Template = None,
    until: Until = None,
    publish: Annotated[
        str | None, typer.Option("--publish", metavar="URL", help="A server that is told of each step's weights.")
    ] = None,
    set_: Changes = [],  # noqa: B006 - typer copies it
    json: options.Json = False,
) -> int:
    """Reinforcement learning on judged episodes, from files or of its own making.

    The same command, with more files, goes on where it ended.
    """
    from execcritic import output
    from execcritic_training.publishing import publisher
    from execcritic_training.recipes import load_rl

    asked = load_rl(recipe, set_)
    with needed():
        from execcritic_training import rl as trainer
    told = publisher(publish) if publish else None
    settings = trainer.Settings(model, out, _text(template), publish=told, until=until)
    if dataset is None:
        ended = trainer.train(asked, _files(data), settings)
    else:
        if data or policy is None or base_url is None:
            raise UsageError("--dataset makes the episodes: it needs --policy and --base-url, and takes no files.")
        with _making(asked, settings, dataset, split, policy, base_url, workers, sandbox, config) as source:
            ended = trainer.train(asked, source, settings)
    body = {"steps": ended.step, "version": ended.version, "policy": str(out / "policy")}
    text = f"{ended.step} of {asked.steps} steps, version {ended.version} of the weights\nPolicy: {out / 'policy'}"
    output.result(json, body, text)
    return 0


def _files(paths: Sequence[Path]) -> Source:
    from execcritic_training.recordfile import read_records

    if not paths:
        raise UsageError("Name files of judged records, or --dataset to make them.")
    for path in paths:
        if not path.is_file():
            raise UsageError(f"There is no file {path}; name files of judged records.")
    return lambda step, version: list(read_records(paths[step])) if step < len(paths) else None


@contextmanager
def _making(
    recipe: RlRecipe,
    settings: Settings,
    dataset: str,
    split: str | None,
    policy: str,
    base_url: str,
    workers: int,
    sandbox: str | None,
    file: Path | None,
) -> Iterator[Source]:
    """Episodes of our own making, for the time of a `with` block."""
    from execcritic import config as configuration
    from execcritic.batch import datasets
    from execcritic.places import Place
    from execcritic_training.policymodel import load_tokenizer
    from execcritic_training.proxy import RecordingProxy
    from execcritic_training.records import template_hash
    from execcritic_training.rollouts import Field, Rollouts, bounds

    data = datasets.load(dataset, split)
    template = template_hash(load_tokenizer(settings.model, settings.template).chat_template)
    config = configuration.load(file, bounds(recipe))
    folder = settings.out / "rollouts"
    place = Place(sandbox=sandbox)
    field = Field({one.id: one for one in data.instances}, data.gold, policy, template, folder, place, workers)
    key = config.model.api_key.get_secret_value() if config.model.api_key else os.environ.get("OPENAI_API_KEY")
    with RecordingProxy(base_url, folder / "captures", key=key) as proxy, proxy.running():
        yield Rollouts(recipe, field, config, proxy)


@contextmanager
def needed() -> Iterator[None]:
    """Says what to install where a part of the trainers is missing. Raises UsageError."""
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"{error.name} is missing, which training needs; pip install torch, then 'execcritic[train]'."
        ) from None


def _text(path: Path | None) -> str | None:
    try:
        return path.read_text("utf-8") if path else None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no chat template ({error}); name another file with --template.") from None
