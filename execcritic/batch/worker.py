"""One run of one instance, in a process of its own: from the assignment to how it ended. Gold is not known here.

Whatever goes wrong with the run is a value: `work` raises nothing but what ends the process.
"""

from __future__ import annotations

import io
import os
import shutil
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from execcritic import credentials
from execcritic.batch import budget, prepare, round0
from execcritic.batch.assignment import Assignment, Ended, Ending, Mode
from execcritic.config import Config
from execcritic.models import BEGUN
from execcritic.perform import complete
from execcritic.places import Place
from execcritic.request import Command, Request
from execcritic.runs import Run
from execcritic_roles.terminal import Terminal
from execcritic_scaffold.errors import ExecCriticError, Interrupted, ModelError

COMMANDS: Mapping[Mode, Command] = {
    Mode.RESOLVE: "resolve",
    Mode.TEST: "test",
    Mode.REPAIR: "repair",
    Mode.NO_TEST: "repair",
    Mode.ORACLE: "repair",
}
STOP_SECONDS = 0.5
"""How often a worker looks whether it is to stop."""


@dataclass(frozen=True)
class Settings:
    """What all runs of a batch share. `models`: specifications by role, in which `{instance}` and `{repeat}` stand for
    those of the run. `stop`: the file that is there once all are to stop."""

    config: Config
    models: Mapping[str, str | None]
    place: Place
    stop: str


def work(assignment: Assignment, settings: Settings) -> Ended:
    """Do the run in its run directory, going on with what an earlier attempt left there."""
    instance, run = assignment.instance, Path(assignment.run)
    cancel = threading.Event()
    try:
        with _stoppable(Path(settings.stop), cancel):
            body = _finished(run) or _carried_out(assignment, settings, cancel)
    except BaseException as error:
        ending, reason = explained(error, run)
        return ended(instance.id, assignment.repeat, ending, reason, run, {})
    ending = {None: Ending.FINISHED, "model": Ending.MODEL_FAILED}.get(body["failed"], Ending.INFRA_FAILED)
    why = None if ending is Ending.FINISHED else str(body["error"] or body["detail"] or body["status"])
    return ended(instance.id, assignment.repeat, ending, why, run, body)


def lost(assignment: Assignment, error: BaseException) -> Ended:
    """How a run ended whose process died, or could not be started. For the process that owns the batch."""
    told = " ".join(f"{type(error).__name__}: {error}".split())
    reason = f"The process of the run died ({credentials.hidden(told, (), os.environ)}); start again to repeat it."
    return ended(assignment.instance.id, assignment.repeat, Ending.INFRA_FAILED, reason, Path(assignment.run), {})


def explained(error: BaseException, run: Path) -> tuple[Ending, str]:
    """The ending that an exception means and the sentence for it; of a defect of ours the traceback is kept."""
    text = " ".join(credentials.hidden(str(error), (), os.environ).split())
    match error:
        case Interrupted() | KeyboardInterrupt():
            return Ending.INTERRUPTED, "Interrupted; start the batch again to go on."
        case ModelError():
            return Ending.MODEL_FAILED, text
        case ExecCriticError():
            return Ending.INFRA_FAILED, text
        case OSError(strerror=str(reason)):
            return Ending.INFRA_FAILED, f"{error.filename or 'The machine'}: {reason}; see to it and start again."
    with suppress(OSError):
        run.mkdir(parents=True, exist_ok=True)
        told = credentials.hidden("".join(traceback.format_exception(error)), (), os.environ)
        (run / "crash.log").write_text(told, errors="backslashreplace")
    return Ending.INFRA_FAILED, f"Internal error ({type(error).__name__}: {text}); please report it with {run}."


def request(assignment: Assignment, settings: Settings, repo: str, place: Place, ref: str | None) -> Request:
    """What the run is asked for."""
    command = COMMANDS[assignment.mode]
    return Request(
        command,
        repo,
        str(Path(assignment.run) / "issue.md"),
        {role: filled(spec, assignment.instance.id, assignment.repeat) for role, spec in settings.models.items()},
        place,
        assignment.bundle,
        ref,
    )


def filled(spec: str | None, instance: str, repeat: int) -> str | None:
    """A model's specification for one run."""
    return spec and spec.replace("{instance}", instance).replace("{repeat}", str(repeat))


def patch_of(run: Path) -> bytes:
    """The patch that a run submits; empty where there is none."""
    try:
        return (run / "fix.patch").read_bytes()
    except FileNotFoundError:
        return b""


def _carried_out(assignment: Assignment, settings: Settings, cancel: threading.Event) -> dict[str, Any]:
    directory, config = Path(assignment.run), settings.config
    ready = prepare.prepared(assignment.instance.source, assignment.instance.runner)
    place = over(settings.place, ready.place)
    asked = request(assignment, settings, ready.repo, place, ready.ref)
    run = _opened(directory)
    try:
        if not (directory / "issue.md").exists():
            run.write("issue.md", assignment.instance.problem.encode("utf-8", "backslashreplace"))
        if assignment.round0 and not (directory / "repair" / BEGUN).exists():
            run.write(f"repair/{BEGUN}", round0.replies(Path(assignment.round0)))
        asked.check(config)
        return complete(asked, config, run, _silent, Terminal(io.StringIO(), io.StringIO()), cancel)
    finally:
        run.close()
        run.drop_unused()


def over(said: Place, found: Place) -> Place:
    """Where the run takes place: what the data set says, and what the user said of the rest."""
    return replace(
        found,
        sandbox=found.sandbox or said.sandbox,
        python=found.python or (None if found.image else said.python),
        setup=found.setup or (() if found.python or found.image else said.setup),
        runner=found.runner or said.runner,
    )


def _opened(directory: Path) -> Run:
    if (directory / "manifest.json").is_file():
        return Run.reopen(directory)
    shutil.rmtree(directory, ignore_errors=True)  # it broke before there was anything to go on with
    return Run.create(directory)


def _finished(directory: Path) -> dict[str, Any] | None:
    """The result of a run that ended in front of a process that was killed before it could say so."""
    if not (directory / "verdict.json").is_file() or not (directory / "manifest.json").is_file():
        return None
    run = Run.reopen(directory)
    try:
        return run.result()
    finally:
        run.close()


def ended(instance: str, repeat: int, ending: Ending, reason: str | None, run: Path, body: Mapping[str, Any]) -> Ended:
    """How a run ended, with the patch and the cost that its directory tells."""
    try:
        return Ended(instance, repeat, ending, reason, patch_of(run), budget.paid(run), body)
    except OSError as error:
        told = f"{run} cannot be read ({error.strerror}); see to it and start again."
        return Ended(instance, repeat, Ending.INFRA_FAILED, reason or told, b"", None, body)


def _silent(kind: str, data: Mapping[str, Any]) -> None:
    pass


@contextmanager
def _stoppable(stop: Path, cancel: threading.Event) -> Iterator[None]:
    """Set `cancel` once the file is there, for the time of a `with` block."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(STOP_SECONDS):
            if stop.exists():
                cancel.set()
                return

    thread = threading.Thread(target=look, name="stop", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
