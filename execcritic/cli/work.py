"""`resolve`, `test` and `repair`: the main job, whole or in halves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from execcritic.cli import options

if TYPE_CHECKING:
    from execcritic.config import Config
    from execcritic.places import Place
    from execcritic.request import Command

OptionalRepo = Annotated[
    str | None, typer.Option("--repo", metavar="PATH|URL", help="The checkout (any folder), or a git URL to clone.")
]
OptionalIssue = Annotated[
    str | None,
    typer.Option("--issue", metavar="FILE|URL|-", help="The issue: a text file, a GitHub issue page, or - for stdin."),
]


def resolve(
    repo: OptionalRepo = None,
    issue: OptionalIssue = None,
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
    image: options.Image = None,
    setup: options.Setup = [],  # noqa: B006 - typer copies it
    source_root: options.SourceRoots = [],  # noqa: B006
    config: options.ConfigFile = None,
    set_: options.Sets = [],  # noqa: B006
    out: options.Out = None,
    tests: Annotated[int, typer.Option("--tests", metavar="N", min=1, max=16, help="Independent Test episodes.")] = 1,
    repairs: Annotated[
        int, typer.Option("--repairs", metavar="M", min=1, max=16, help="Independent Repair episodes.")
    ] = 1,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="DIR", help="Go on with a run; it knows all other options.")
    ] = None,
    json: options.Json = False,
) -> int:
    """An issue in; a frozen regression test and a patch verified against it out."""
    from execcritic.cli import common
    from execcritic_scaffold.errors import UsageError

    where = common.place(sandbox, python, image, setup, source_root, runner)
    if resume is not None:
        if any((repo, issue, image, source_root, config, out, tests > 1, repairs > 1)):
            raise UsageError("--resume takes everything from the run's manifest; leave the other options out.")
        models = {"test": test_model or model, "repair": repair_model or model}
        return _resume(resume, where, models, common.work_settings(None, set_, base_url), json)
    if repo is None or issue is None:
        raise UsageError("Give the repository with --repo and the issue with --issue, or a run with --resume.")
    settings = common.work_settings(config, set_, base_url)
    models = {"test": test_model or model, "repair": repair_model or model}
    return _start("resolve", repo, issue, models, where, settings, out, None, json, (tests, repairs))


def test(
    repo: options.Repo,
    issue: options.IssueSource,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    runner: options.RunnerName = None,
    sandbox: options.SandboxName = None,
    python: options.Python = None,
    image: options.Image = None,
    setup: options.Setup = [],  # noqa: B006
    source_root: options.SourceRoots = [],  # noqa: B006
    config: options.ConfigFile = None,
    set_: options.Sets = [],  # noqa: B006
    out: options.Out = None,
    json: options.Json = False,
) -> int:
    """Only the regression test: an issue in, a frozen bundle out."""
    from execcritic.cli import common

    where = common.place(sandbox, python, image, setup, source_root, runner)
    settings = common.work_settings(config, set_, base_url)
    return _start("test", repo, issue, {"test": model}, where, settings, out, None, json)


def repair(
    bundle: options.BundleDir,
    repo: options.Repo,
    issue: options.IssueSource,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    runner: options.RunnerName = None,
    sandbox: options.SandboxName = None,
    python: options.Python = None,
    image: options.Image = None,
    setup: options.Setup = [],  # noqa: B006
    source_root: options.SourceRoots = [],  # noqa: B006
    config: options.ConfigFile = None,
    set_: options.Sets = [],  # noqa: B006
    out: options.Out = None,
    json: options.Json = False,
) -> int:
    """Only the repair, against a test that is frozen already."""
    from execcritic.cli import common

    where = common.place(sandbox, python, image, setup, source_root, runner)
    settings = common.work_settings(config, set_, base_url)
    folder = common.bundle_folder(bundle)
    return _start("repair", repo, issue, {"repair": model}, where, settings, out, folder, json)


def _start(
    command: Command,
    repo: str,
    issue: str,
    models: dict[str, str | None],
    where: Place,
    config: Config,
    out: Path | None,
    bundle: Path | None,
    json: bool,
    episodes: tuple[int, int] = (1, 1),
) -> int:
    from execcritic import clones
    from execcritic.perform import perform
    from execcritic.request import Request
    from execcritic.runs import Run

    defaults = config.models.model_dump()
    models = {role: spec or defaults[role] for role, spec in models.items()}
    if config.selection.judge != "none" and command != "test":
        models["judge"] = defaults["judge"] or models.get("test") or models["repair"]
    request = Request(
        command,
        repo if clones.is_url(repo) else str(Path(repo).absolute()),
        issue,
        {role: _absolute(spec) for role, spec in models.items()},
        where,
        str(bundle.absolute()) if bundle else None,
        *episodes,
    )
    request.check(config)
    return perform(request, config, Run.create(out), json)


def _absolute(spec: str | None) -> str | None:
    """A model specification that means the same in another folder, where the run may be resumed."""
    kind, colon, path = (spec or "").partition(":")
    return f"{kind}:{Path(path).absolute()}" if kind == "replay" and colon and path else spec


def _resume(directory: Path, where: Place, models: dict[str, str | None], settings: Config, json: bool) -> int:
    """Go on with a run. What its manifest must not decide by itself is taken from the options, or asked for."""
    from execcritic import output, view
    from execcritic.config import restored
    from execcritic.perform import perform
    from execcritic.request import Request
    from execcritic.runs import Run

    run = Run.reopen(directory)
    try:
        manifest = run.manifest()
        if ended := run.result():
            output.say(f"Run {run.directory} has ended already.")
            output.result(json, ended, view.summary(ended))
            run.close()
            return int(ended["exit_code"])
        said = {role: _absolute(spec) for role, spec in models.items()}
        request = Request.of(manifest["request"]).again(where, said, run.directory)
        config = restored(manifest["config"], settings)
    except BaseException:
        run.close()
        raise
    return perform(request, config, run, json)
