"""`execcritic train sft` and `execcritic train rl`: the commands of the trainers. What imports torch does so when they
run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from execcritic.cli import options
from execcritic_scaffold.errors import UsageError

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
    data: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Judged records, one file a step, in order.")],
    recipe: Recipe,
    model: Weights,
    out: Out,
    template: Template = None,
    until: Until = None,
    publish: Annotated[
        str | None, typer.Option("--publish", metavar="URL", help="A server that is told of each step's weights.")
    ] = None,
    set_: Changes = [],  # noqa: B006 - typer copies it
    json: options.Json = False,
) -> int:
    """Reinforcement learning on judged episodes. The same command, with more files, goes on where it ended."""
    from execcritic import output
    from execcritic_training.publishing import publisher
    from execcritic_training.recipes import load_rl
    from execcritic_training.recordfile import read_records

    asked = load_rl(recipe, set_)
    for path in data:
        if not path.is_file():
            raise UsageError(f"There is no file {path}; name files of judged records.")
    with needed():
        from execcritic_training import rl as trainer
    told = publisher(publish) if publish else None
    settings = trainer.Settings(model, out, _text(template), publish=told, until=until)
    ended = trainer.train(
        asked, lambda step, version: list(read_records(data[step])) if step < len(data) else None, settings
    )
    body = {"steps": ended.step, "version": ended.version, "policy": str(out / "policy")}
    text = f"{ended.step} of {asked.steps} steps, version {ended.version} of the weights\nPolicy: {out / 'policy'}"
    output.result(json, body, text)
    return 0


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
