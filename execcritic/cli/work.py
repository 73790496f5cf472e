"""`resolve`, `test` and `repair`: the main job, whole or in halves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from execcritic.cli import options
from execcritic.progress import Mode

if TYPE_CHECKING:
    from execcritic.config import Config
    from execcritic.places import Place
    from execcritic.request import Command, Request

OptionalRepo = Annotated[str | None, typer.Option("--repo", metavar="PATH|URL", help=options.REPO_HELP)]
OptionalIssue = Annotated[str | None, typer.Option("--issue", metavar="FILE|URL|N|-", help=options.ISSUE_HELP)]


def resolve(
    repo: OptionalRepo = None,
    issue: OptionalIssue = None,
    ref: options.Ref = None,
    comments: options.Comments = False,
    open_pr: Annotated[
        bool, typer.Option("--open-pr", metavar="", help="Show a verified result as a pull request; sends nothing.")
    ] = False,
    push: options.Push = False,
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
    confirm: options.Confirm = None,
    review_test: options.ReviewTest = None,
    progress: options.Progress = Mode.AUTO,
    json: options.Json = False,
) -> int:
    """An issue in; a frozen regression test and a patch verified against it out."""
    from execcritic.cli import common
    from execcritic_scaffold.errors import UsageError

    if push and not open_pr:
        raise UsageError("--push sends what --open-pr shows; give both, or leave it out.")
    where = common.place(sandbox, python, image, setup, source_root, runner)
    watch = Watch(confirm, review_test, progress)
    if resume is not None:
        if any((repo, issue, ref, comments, image, source_root, config, out, tests > 1, repairs > 1)):
            raise UsageError("--resume takes everything from the run's manifest; leave the other options out.")
        models = {"test": test_model or model, "repair": repair_model or model}
        settings = common.work_settings(None, set_, base_url)
        return _resume(resume, where, models, settings, watch, open_pr, push, json)
    if repo is None or issue is None:
        raise UsageError("Give the repository with --repo and the issue with --issue, or a run with --resume.")
    settings = common.work_settings(config, set_, base_url, comments)
    models = {"test": test_model or model, "repair": repair_model or model}
    episodes = (tests, repairs)
    return _start("resolve", repo, issue, models, where, settings, out, None, watch, json, ref, open_pr, push, episodes)


def test(
    repo: options.Repo,
    issue: options.IssueSource,
    ref: options.Ref = None,
    comments: options.Comments = False,
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
    confirm: options.Confirm = None,
    review_test: options.ReviewTest = None,
    progress: options.Progress = Mode.AUTO,
    json: options.Json = False,
) -> int:
    """Only the regression test: an issue in, a frozen bundle out."""
    from execcritic.cli import common

    where = common.place(sandbox, python, image, setup, source_root, runner)
    settings = common.work_settings(config, set_, base_url, comments)
    watch = Watch(confirm, review_test, progress)
    return _start("test", repo, issue, {"test": model}, where, settings, out, None, watch, json, ref)


def repair(
    bundle: options.BundleDir,
    repo: options.Repo,
    issue: options.IssueSource,
    comments: options.Comments = False,
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
    confirm: options.Confirm = None,
    progress: options.Progress = Mode.AUTO,
    json: options.Json = False,
) -> int:
    """Only the repair, against a test that is frozen already."""
    from execcritic.cli import common

    where = common.place(sandbox, python, image, setup, source_root, runner)
    settings = common.work_settings(config, set_, base_url, comments)
    folder = common.bundle_folder(bundle)
    watch = Watch(confirm, None, progress)
    return _start("repair", repo, issue, {"repair": model}, where, settings, out, folder, watch, json)


@dataclass(frozen=True)
class Watch:
    """What is shown of the run and asked during it; None: as the run was begun."""

    confirm: bool | None
    review: bool | None
    progress: Mode

    def over(self, request: Request) -> Request:
        confirm = request.confirm if self.confirm is None else self.confirm
        return replace(request, confirm=confirm, review=request.review if self.review is None else self.review)


def _start(
    command: Command,
    repo: str,
    issue: str,
    models: dict[str, str | None],
    where: Place,
    config: Config,
    out: Path | None,
    bundle: Path | None,
    watch: Watch,
    json: bool,
    ref: str | None = None,
    open_pr: bool = False,
    push: bool = False,
    episodes: tuple[int, int] = (1, 1),
) -> int:
    import os

    from execcritic import clones, issues, output, pulls
    from execcritic.github.server import Server
    from execcritic.perform import perform
    from execcritic.progress import settle
    from execcritic.request import Request
    from execcritic.runs import Run

    defaults = config.models.model_dump()
    server = Server.of(config.github.base_url, os.environ)
    place = clones.located(repo, server)
    models = {role: spec or defaults[role] for role, spec in models.items()}
    if config.selection.judge != "none" and command != "test":
        models["judge"] = defaults["judge"] or models.get("test") or models["repair"]
    request = Request(
        command,
        place,
        issues.located(issue, place, server),
        {role: absolute(spec) for role, spec in models.items()},
        where,
        str(bundle.absolute()) if bundle else None,
        ref,
        open_pr,
        tests=episodes[0],
        repairs=episodes[1],
    )
    request = watch.over(request)
    mode = settle(watch.progress, request)
    request.check(config)
    if open_pr:
        pulls.check(place, pulls.Wishes(), server, push)
    if clones.is_url(place) and not clones.is_url(repo):
        output.say(f"There is no folder {repo} here; {place} is cloned.")
    return perform(request, config, Run.create(out), json, mode, push)


def absolute(spec: str | None) -> str | None:
    """A model specification that means the same in another folder, where the run may be resumed."""
    kind, colon, path = (spec or "").partition(":")
    return f"{kind}:{Path(path).absolute()}" if kind == "replay" and colon and path else spec


def _resume(
    directory: Path,
    where: Place,
    models: dict[str, str | None],
    settings: Config,
    watch: Watch,
    open_pr: bool,
    push: bool,
    json: bool,
) -> int:
    """Go on with a run. What its manifest must not decide by itself is taken from the options, or asked for."""
    from dataclasses import replace

    from execcritic import output
    from execcritic.config import restored
    from execcritic.perform import finish, perform
    from execcritic.progress import settle
    from execcritic.request import Request
    from execcritic.runs import Run

    run = Run.reopen(directory)
    try:
        manifest = run.manifest()
        if ended := run.result():
            output.say(f"Run {run.directory} has ended already.")
            run.close()
            return finish(run.directory, ended, settings, open_pr, push, json)
        said = {role: absolute(spec) for role, spec in models.items()}
        request = watch.over(Request.of(manifest["request"]).again(where, said, run.directory))
        request = replace(request, open_pr=request.open_pr or open_pr)
        mode = settle(watch.progress, request)
        config = restored(manifest["config"], settings)
    except BaseException:
        run.close()
        raise
    return perform(request, config, run, json, mode, push)
