"""The official test as a frozen bundle, made in a process that runs no agent; agents' processes get its folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from execcritic import environments, outfile, places, records
from execcritic.batch import prepare, worker
from execcritic.batch.instance import Gold, Instance
from execcritic.batch.worker import Settings
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.qualify import qualify

NONE = "qualification.json"
"""Beside a bundle that there is not: why the official test was refused."""


@dataclass(frozen=True)
class Made:
    """`bundle`: its folder; None where the official test was refused, or (`reason`) the machine failed."""

    instance: str
    bundle: str | None = None
    reason: str | None = None


def known(instance: str, folder: Path) -> Made | None:
    """What an earlier start made; None where it has to be made."""
    if (folder / "bundle").is_dir():
        return Made(instance, str(folder / "bundle"))
    return Made(instance) if (folder / NONE).is_file() else None


def make(instance: Instance, gold: Gold, folder: str, settings: Settings) -> Made:
    """Qualify and freeze the official test patch with its fail-to-pass tests."""
    target = Path(folder)
    try:
        return _made(instance, gold, target, settings)
    except BaseException as error:
        return Made(instance.id, reason=worker.explained(error, target)[1])


def _made(instance: Instance, gold: Gold, target: Path, settings: Settings) -> Made:
    config = settings.config
    ready = prepare.prepared(instance.source, instance.runner)
    place = worker.over(settings.place, ready.place)
    gold = prepare.with_tests(gold, instance.source)
    target.mkdir(parents=True, exist_ok=True)
    base = places.snapshot(ready.repo, places.store(), target / "repository", ready.ref)
    submission = Submission(gold.test_patch, gold.fail_to_pass, author="person")
    with places.sandbox(place) as sandbox:
        site, _ = environments.opened(
            base, sandbox, place, config, cache=places.cache(), tell=lambda *_: None, check=False
        )
        result = qualify(site, submission, instance.problem, config.qualify)
    if result.bundle is not None:
        result.bundle.save(target / "bundle")
        return Made(instance.id, str(target / "bundle"))
    said = f"{result.status} {result.code}: {result.detail}"
    if result.status != "REJECTED":
        return Made(instance.id, reason=f"The official test could not be judged ({said}); start again to repeat it.")
    outfile.write(target / NONE, (json.dumps(records.plain(result), indent=1) + "\n").encode(), "--out")
    return Made(instance.id)
