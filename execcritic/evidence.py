"""The evidence of a run whose patch is verified: frozen test, verdict and patch, held against each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from execcritic.request import Request
from execcritic.runs import Run, digest
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.resolution import Status


@dataclass(frozen=True)
class Evidence:
    """What a PASS rests on. `ended` is when the run ended, in seconds since the epoch; `repo`, `ref` and `issue` are
    what it was asked for."""

    bundle: FrozenBundle
    verdict: Verdict
    patch: bytes = field(repr=False)
    ended: int
    repo: str
    ref: str | None
    issue: str

    @property
    def digest(self) -> str:
        return digest(self.patch)


def of(run: Run) -> Evidence:
    """The evidence of a run. Raises UsageError where its patch is not the one that passed, BundleError where the
    frozen test is not what its id names."""
    folder = run.directory
    try:
        result = run.result()
        if result is None:
            raise UsageError(f"{folder} has no result; go on with it: `execcritic resolve --resume {folder}`.")
        if result["status"] != Status.RESOLVED.name or not result["fix_patch"]:
            raise UsageError(
                f"{folder} holds no verified patch (it ended as {result['status']}), so no pull request is made of it; "
                "resolve the issue again, or apply its patch yourself."
            )
        patch = (folder / "fix.patch").read_bytes()
        verdict = run.checks().get(digest(patch))
        asked = Request.of(run.manifest()["request"])
        own = folder / "test" / "bundle"
        bundle = FrozenBundle.load(own if own.is_dir() or not asked.bundle else Path(asked.bundle))
        ended = [event["time"] for event in run.events() if event["event"] == "run.ended"]
        when = int(ended[-1])
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise UsageError(
            f"The record in {folder} is damaged ({type(error).__name__}: {error}); get a complete copy of it."
        ) from None
    if verdict is None or verdict.decision is not Decision.PASS:
        raise UsageError(
            f"{folder / 'fix.patch'} is not the patch that was verified; restore it, or judge it: `execcritic verify`."
        )
    if bundle.id != result["bundle_id"]:
        raise UsageError(f"The frozen test in {folder} is not the one of the verdict; get a complete copy of the run.")
    return Evidence(bundle, verdict, patch, when, asked.repo, asked.ref, asked.issue)
