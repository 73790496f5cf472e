"""`resolve`, `test` and `repair`: the main job, whole or in halves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from execcritic.cli import options, output

if TYPE_CHECKING:
    from execcritic.job import Done
    from execcritic.request import Command, Request
    from execcritic.runs import Run
    from execcritic_scaffold.resolution import Status

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
        if any(
            (repo, issue, model, test_model, repair_model, base_url, python, image, setup, config, set_, out, sandbox)
        ):
            raise UsageError("--resume takes everything from the run's manifest; leave the other options out.")
        return _resume(resume, json)
    if repo is None or issue is None:
        raise UsageError("Give the repository with --repo and the issue with --issue, or a run with --resume.")
    settings = common.work_settings(config, set_, base_url)
    models = {"test": test_model or model, "repair": repair_model or model}
    return _start("resolve", repo, issue, models, where, settings, out, None, json)


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

    where = common.place(sandbox, python, image, setup, source_root)
    settings = common.work_settings(config, set_, base_url)
    folder = common.bundle_folder(bundle)
    return _start("repair", repo, issue, {"repair": model}, where, settings, out, folder, json)


def _start(
    command: Command,
    repo: str,
    issue: str,
    models: dict[str, str | None],
    where: Any,
    config: Any,
    out: Path | None,
    bundle: Path | None,
    json: bool,
) -> int:
    from execcritic import places
    from execcritic.request import Request
    from execcritic.runs import Run

    defaults = config.models.model_dump()
    request = Request(
        command,
        repo if places.is_url(repo) else str(Path(repo).absolute()),
        issue,
        {role: _absolute(spec or defaults[role]) for role, spec in models.items()},
        where,
        str(bundle.absolute()) if bundle else None,
    )
    request.check(config)
    return carry_out(request, config, Run.create(out), json)


def _absolute(spec: str | None) -> str | None:
    """A model specification that means the same in another folder, where the run may be resumed."""
    kind, colon, path = (spec or "").partition(":")
    return f"{kind}:{Path(path).absolute()}" if kind == "replay" and colon and path else spec


def _resume(directory: Path, json: bool) -> int:
    from execcritic import view
    from execcritic.config import Config
    from execcritic.request import Request
    from execcritic.runs import Run

    run = Run.reopen(directory)
    manifest = run.manifest()
    if ended := run.result():
        output.say(f"Run {run.directory} has ended already.")
        output.result(json, ended, view.summary(ended))
        return int(ended["exit_code"])
    return carry_out(Request.of(manifest["request"]), Config.model_validate(manifest["config"]), run, json)


def carry_out(request: Request, config: Any, run: Run, json: bool) -> int:
    """Do a job in its run directory and say its result; returns the exit code."""
    import os
    import time

    from execcritic import job, view

    started = time.monotonic()
    output.say(f"Run {run.directory}")
    run.log("run.started", {"command": request.command})
    try:
        done = job.carry_out(request, config, run, view.show, os.environ.get("GITHUB_TOKEN"))
        status = done.resolution.status if done.resolution else done.gate.status
        body = _body(run, done, status, time.monotonic() - started)
        run.write_json("verdict.json", body)
        run.log("run.ended", {"status": status.name})
    except BaseException as error:
        run.log("run.broken", {"error": f"{type(error).__name__}: {error}"})
        raise
    finally:
        run.close()
        run.drop_unused()
    output.result(json, body, view.summary(body))
    return int(status)


def _body(run: Run, done: Done, status: Status, seconds: float) -> dict[str, Any]:
    from execcritic import records

    def path(*parts: str) -> str | None:
        found = run.directory.joinpath(*parts)
        return str(found) if found.exists() else None

    repair = done.resolution.repair if done.resolution else None
    verdict = repair.verdict if repair else None
    usage = done.usage.values()
    costs = [used.cost for used in usage]
    known = [cost for cost in costs if cost is not None]
    stop = repair.stop if repair else done.gate.stop
    error = (repair.error if repair else None) or done.gate.error
    return {
        "status": status.name,
        "exit_code": int(status),
        "verdict": records.plain(verdict.decision) if verdict else None,
        "reason": verdict.reason if verdict else None,
        "detail": verdict.detail if verdict else None,
        "test": {
            "status": done.gate.last.status if done.gate.last else None,
            "code": done.gate.last.code if done.gate.last else None,
            "submissions": done.gate.submissions,
        },
        "fix_patch": path("fix.patch"),
        "test_patch": path("test.patch"),
        "bundle": path("test", "bundle"),
        "bundle_id": done.gate.bundle.id if done.gate.bundle else None,
        "rounds": repair.rounds if repair else None,
        "checks": repair.checks if repair else None,
        "turns": sum(used.turns for used in usage),
        "tokens": {
            "input": sum(used.input_tokens for used in usage),
            "cached": sum(used.cached_tokens for used in usage),
            "output": sum(used.output_tokens for used in usage),
        },
        "cost": sum(known) if len(known) == len(costs) else None,
        "seconds": round(seconds, 3),
        "stopped": {"kind": stop.kind.value, "reason": stop.reason} if stop else None,
        "error": str(error) if error else None,
        "run": str(run.directory),
    }
