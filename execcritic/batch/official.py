"""The official `swebench` evaluator, 4.1 or 5.x, in a process of its own: what it is asked, and what it answers.

Nothing of it is done again here: grades are read out of its report. Both versions take the same options of
`swebench.harness.run_evaluation` and write `MODEL.RUN.json`; 5.x adds labels of failures that are, or may be, the
machine's, in two tiers, which are used for both: "environment" and "ambiguous".
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from execcritic import credentials
from execcritic.batch.datasets.hub import ALIASES
from execcritic.batch.results import Grade
from execcritic_scaffold.errors import InfrastructureError, UsageError

GOLD = "gold"
"""In place of predictions: the evaluator takes the reference patches itself, and calls the model so too."""
PATCH_FAILED = b">>>>> Patch Apply Failed"
"""What the evaluator writes to an instance's log where the patch does not apply: no machine's fault."""
STOP_SECONDS = 30.0
"""Time for the evaluator to remove its containers when it is stopped."""
_INSTALL = "install execcritic[swebench], or name its interpreter with --python"


@dataclass(frozen=True)
class Evaluator:
    """The interpreter that has the package, and the package's version."""

    python: str
    version: str


@dataclass(frozen=True)
class Asked:
    """One evaluation. `predictions`: a file as both versions read it, or GOLD. `work`: the folder where the evaluator
    leaves its logs and its report. `namespace`: of 4.1's images; None: its own."""

    dataset: str
    split: str
    ids: Sequence[str]
    predictions: str
    run: str
    work: Path
    workers: int = 4
    seconds: int = 1800
    namespace: str | None = None


@dataclass(frozen=True)
class Label:
    """Why a failure is, or may be, the machine's."""

    tier: Literal["environment", "ambiguous"]
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What the evaluator said of one instance: resolved, unresolved, empty, error or missing; and what follows."""

    official: str
    grade: Grade
    infra: Label | None = None
    detail: str | None = None


def find(python: str) -> Evaluator:
    """The evaluator of an interpreter. Raises UsageError where it has none, or one that is not supported."""
    ask = "from importlib.metadata import version; print(version('swebench'))"
    try:
        done = subprocess.run([python, "-P", "-c", ask], stdin=subprocess.DEVNULL, capture_output=True, env=_env())
    except OSError as error:
        raise UsageError(f"{python} cannot be started ({error.strerror}); name another with --python.") from None
    version = done.stdout.decode(errors="replace").strip()
    if done.returncode or not version:
        raise UsageError(f"{python} has no `swebench` package; {_INSTALL}.")
    if not version.startswith(("4.1.", "5.")):
        raise UsageError(f"{python} has swebench {version}, known are 4.1 and 5.x; {_INSTALL}.")
    return Evaluator(python, version)


def hub_name(name: str) -> str:
    """The evaluator's name of a data set: a file or folder of this machine as an absolute path, an alias of ours as its
    name on the hub."""
    if Path(name).exists():
        return str(Path(name).absolute())
    return ALIASES.get(name.lower(), name)


def command(evaluator: Evaluator, asked: Asked) -> list[str]:
    """The command line of an evaluation, for both versions."""
    options = {
        "--dataset_name": asked.dataset,
        "--split": asked.split,
        "--predictions_path": asked.predictions,
        "--run_id": asked.run,
        "--max_workers": str(asked.workers),
        "--timeout": str(asked.seconds),
        "--report_dir": ".",
    }
    if evaluator.version.startswith("4.") and asked.namespace is not None:
        options["--namespace"] = asked.namespace
    flat = [word for pair in options.items() for word in pair]
    return [evaluator.python, "-P", "-m", "swebench.harness.run_evaluation", *flat, "--instance_ids", *asked.ids]


def evaluate(evaluator: Evaluator, asked: Asked) -> dict[str, Any]:
    """Have it done; returns the evaluator's report. What it says goes to RUN.log beside it.

    Instances that it has graded under this run before are not run again: that is its own way to resume. Raises
    InfrastructureError where it leaves no report.
    """
    asked.work.mkdir(parents=True, exist_ok=True)
    log = asked.work / f"{asked.run}.log"
    for stale in asked.work.glob(f"*.{asked.run}.json"):
        stale.unlink()
    with open(log, "ab") as out:
        try:
            with subprocess.Popen(
                command(evaluator, asked), cwd=asked.work, env=_env(), stdin=subprocess.DEVNULL, stdout=out, stderr=out
            ) as process:
                _wait(process)
        except OSError as error:
            raise InfrastructureError(f"The evaluator cannot be started ({error.strerror}); see {log}.") from None
    found = sorted(asked.work.glob(f"*.{asked.run}.json"))
    try:
        report = json.loads(found[0].read_bytes())
        if not isinstance(report["resolved_ids"], list):
            raise TypeError("resolved_ids")
    except (IndexError, OSError, ValueError, KeyError, TypeError):
        said = log.read_bytes().decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
        raise InfrastructureError(
            f"swebench {evaluator.version} wrote no report (exit {process.returncode}: {said[0][:300]}); see {log}, "
            "and start again."
        ) from None
    checked: dict[str, Any] = report
    return checked


def outcomes(report: Mapping[str, Any], asked: Asked, models: Mapping[str, str]) -> dict[str, Outcome]:
    """What a report of either version says, one outcome for each id that was asked about.

    `models`: by id, the model's name in its prediction, which is where its logs lie.
    """
    words = {
        "missing": report.get("incomplete_ids", ()),
        "error": report.get("error_ids", ()),
        "empty": report.get("empty_patch_ids", ()),
        "unresolved": report.get("unresolved_ids", ()),
        "resolved": report.get("resolved_ids", ()),
    }
    official = {name: word for word, names in words.items() for name in names}
    return {
        name: _outcome(name, official.get(name, "missing"), report, _log(asked, name, models.get(name, GOLD)))
        for name in asked.ids
    }


def _outcome(name: str, official: str, report: Mapping[str, Any], log: Path) -> Outcome:
    if official == "resolved":
        return Outcome(official, Grade.RESOLVED)
    if official == "empty":
        return Outcome(official, Grade.UNRESOLVED)
    if official == "missing":
        return Outcome(official, Grade.NOT_GRADED)
    label = _label(name, report)
    if official == "error":
        if _holds(log, PATCH_FAILED):
            return Outcome(official, Grade.UNRESOLVED, None, "the patch does not apply")
        return Outcome(official, Grade.NOT_GRADED, label or Label("ambiguous", "no_report"))
    grade = Grade.NOT_GRADED if label and label.tier == "environment" else Grade.UNRESOLVED
    return Outcome(official, grade, label)


def _label(name: str, report: Mapping[str, Any]) -> Label | None:
    reason = str(report.get("failure_reasons", {}).get(name, "unknown"))
    if name in report.get("infra_failure_ids", ()):
        return Label("environment", reason)
    return Label("ambiguous", reason) if name in report.get("ambiguous_failure_ids", ()) else None


def _log(asked: Asked, name: str, model: str) -> Path:
    folder = asked.work / "logs" / "run_evaluation" / asked.run / model.replace("/", "__") / name
    return folder / "run_instance.log"


def _holds(path: Path, words: bytes) -> bool:
    try:
        return words in path.read_bytes()
    except OSError:
        return False


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait()
    except BaseException:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        raise


def _env() -> dict[str, str]:
    """The environment without credentials, but for those of the hub that data sets come from."""
    return {name: value for name, value in os.environ.items() if name[:3] == "HF_" or not credentials.is_secret(name)}
