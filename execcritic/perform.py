"""A job from its run directory to its result: done, recorded, said."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from execcritic import credentials, job, output, pulls, records, selecting
from execcritic import view as views
from execcritic.config import Config
from execcritic.github.server import Server
from execcritic.job import Done
from execcritic.models import View
from execcritic.progress import Mode, shown
from execcritic.request import Request
from execcritic.runs import Run
from execcritic_roles.terminal import Terminal
from execcritic_scaffold.agents import StopKind
from execcritic_scaffold.errors import ExecCriticError
from execcritic_scaffold.resolution import Status


def perform(request: Request, config: Config, run: Run, json: bool, mode: Mode = Mode.PLAIN, push: bool = False) -> int:
    """Do a job in its run directory and say its result; returns the exit code.

    `mode`: see `progress.settle`. `push`: as in `finish`.
    """
    progress = shown(mode)
    terminal = Terminal(sys.stdin, sys.stderr, progress.held)
    try:
        with progress:
            progress.show("run", {"directory": str(run.directory), "command": request.command})
            body = complete(request, config, run, progress.show, terminal)
    finally:
        run.close()
        run.drop_unused()
    progress.show("result", body)
    _leave_report(run.directory)
    return finish(run.directory, body, config, request.open_pr, push, json)


def _leave_report(folder: Path) -> None:
    """Leave the report in the run directory. It is for looking: that there is none changes no result."""
    from execcritic.report import page

    try:
        page.leave(folder)
    except Exception as error:
        output.say(f"Warning: no report is written: {error}")


def complete(
    request: Request, config: Config, run: Run, view: View, terminal: Terminal, cancel: threading.Event | None = None
) -> dict[str, Any]:
    """Do a job and write verdict.json; returns what it says. `cancel` and errors: as in `job.carry_out`."""
    started = time.monotonic()
    run.log("run.started", {"command": request.command})
    try:
        server = Server.of(config.github.base_url, os.environ)
        done = job.carry_out(request, config, run, view, terminal, server, cancel)
        status = done.resolution.status if done.resolution else done.gate.status
        body = _body(run, done, status, time.monotonic() - started)
        run.write_json("verdict.json", body)
        run.log("run.ended", {"status": status.name})
    except BaseException as error:
        run.log("run.broken", {"error": credentials.hidden(f"{type(error).__name__}: {error}", (), os.environ)})
        raise
    return body


def finish(folder: Path, body: dict[str, Any], config: Config, open_pr: bool, push: bool, json: bool) -> int:
    """Say the result of a run that has ended, with `open_pr` as a pull request too, which `push` sends.

    Returns the exit code: that of the run, or of what went wrong with the pull request.
    """
    text, code, failed = views.summary(body), int(body["exit_code"]), None
    if (folder / "report.html").is_file():
        text += f"\n  report      {folder / 'report.html'}"
    if open_pr and body["status"] != Status.RESOLVED.name:
        output.say("No pull request is made: no patch is verified.")
    elif open_pr:
        run = Run.reopen(folder)
        try:
            made = pulls.make(run, pulls.Wishes(), Server.of(config.github.base_url, os.environ), push)
            body, text = {**body, "pull_request": dict(made.body)}, f"{text}\n\n{made.text}"
        except ExecCriticError as error:
            failed, code = error, error.exit_code
        finally:
            run.close()
    output.result(json, body, text)
    if failed is not None:  # the one result is said already
        output.say(str(failed))
    return code


def _body(run: Run, done: Done, status: Status, seconds: float) -> dict[str, Any]:
    def path(*parts: str) -> str | None:
        found = run.directory.joinpath(*parts)
        return str(found) if found.exists() else None

    repair = done.resolution.repair if done.resolution else None
    verdict = repair.verdict if repair else None
    usage = done.usage.values()
    costs = [used.cost for used in usage]
    known = [cost for cost in costs if cost is not None]
    stop = repair.stop if repair else done.gate.stop
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
        "fix_patch": path("fix.patch") if repair and repair.patch else None,
        "test_patch": path("test.patch"),
        "bundle": path("test", "bundle"),
        "bundle_id": done.gate.bundle.id if done.gate.bundle else None,
        "refused": repair.refused if repair else None,
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
        "error": _error(done),
        "failed": _failed(done, status),
        "run": str(run.directory),
        **({"selection": selecting.brief(done.selected)} if done.selected else {}),
        **({"demoted": records.plain(repair.ruling)} if repair and repair.ruling else {}),
    }


def _failed(done: Done, status: Status) -> str | None:
    """What broke a run off that ended as INFRASTRUCTURE: "model", a model that failed for good; else "machine"."""
    if status is not Status.INFRASTRUCTURE:
        return None
    repair = done.resolution.repair if done.resolution else None
    stops = (done.gate.stop, repair.stop if repair else None)
    errors = (done.gate.error, repair.error if repair else None)
    model = any(stop is not None and stop.kind is StopKind.MODEL for stop in stops)
    return "model" if model and not any(errors) else "machine"


def _error(done: Done) -> str | None:
    """What of the machine, or of a model, broke an episode off."""
    repair = done.resolution.repair if done.resolution else None
    if error := (repair.error if repair else None) or done.gate.error:
        return str(error)
    for role, stop in (("Test", done.gate.stop), ("Repair", repair.stop if repair else None)):
        if stop is not None and stop.kind is StopKind.MODEL:
            return f"The {role} agent's model failed: {stop.reason}"
    return None
