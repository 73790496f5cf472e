"""The audit, after the fact: each frozen test on Base, on Gold and on labelled patches (METHOD 2), and Gold's control.

Gold is read here, so no agent runs in these processes, and nothing is written into a run directory. A verdict exists
only where a run is conclusive: every other end is operational, and counts neither as a pass nor as a rejection.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from execcritic import environments, places, records
from execcritic.batch.instance import Candidate, Gold, Instance
from execcritic.config import Config
from execcritic.places import Place
from execcritic_scaffold import base as bases
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.settings import HarnessSettings
from execcritic_scaffold.site import Site, reopen_site

UNREADABLE = "PATCH"
"""Reason for a candidate that does not apply: it never will."""


@dataclass(frozen=True)
class Judged:
    """The frozen test on one patch. `passed` is None for an operational end."""

    id: str
    label: bool | None
    passed: bool | None
    decision: str
    reason: str
    detail: str


def balanced_accuracy(judged: Iterable[tuple[bool, bool]]) -> float | None:
    """(TPR + TNR) / 2 of pairs (label, passed); the recall of an absent class is 0. None without pairs."""
    pairs = list(judged)
    if not pairs:
        return None
    recalls = []
    for right in (True, False):
        answers = [passed == label for label, passed in pairs if label is right]
        recalls.append(sum(answers) / len(answers) if answers else 0.0)
    return sum(recalls) / 2


def examine(bundle: Path, instance: Instance, gold: Gold, repo: Path, place: Place, config: Config) -> dict[str, Any]:
    """What `audit.jsonl` keeps of one frozen test. Raises the errors of the machine, and BundleError."""
    started = time.monotonic()
    frozen = FrozenBundle.load(bundle)
    record = frozen.record
    delta = frozen.blob(record.delta) if record.delta else b""
    base = bases.rebuild(repo, places.store(), tree=record.base_tree, commit=record.base_commit, delta=delta)
    line: dict[str, Any] = {"kind": "bundle", "instance": instance.id, "bundle": frozen.id}
    if base is None:
        detail = f"the instance's checkout does not have the frozen test's Base {record.base_tree[:12]}"
        return line | {"base_to_gold": None, "operational": [f"BASE_NOT_FOUND: {detail}"], "again": True}
    where = place.over(record, repo, bundle)
    with places.sandbox(where) as sandbox:
        spec = environments.spec(where, config, config.verify.setup_seconds)
        site = reopen_site(frozen, base, sandbox, spec, cache=places.cache())
        on_base = _on_base(site, frozen, config.verify)
        on_gold = _on(site, frozen, Candidate("gold", gold.patch, True), config)
        candidates = [_on(site, frozen, one, config) for one in _distinct(gold.candidates)]
        environment = site.digest
    labelled = [(one.label, one.passed) for one in candidates if one.label is not None and one.passed is not None]
    kept_apart = [one for one in (on_base, on_gold, *candidates) if one.passed is None]
    conclusive = on_base.passed is not None and on_gold.passed is not None
    return line | {
        "environment": environment,
        "base": asdict(on_base),
        "gold": asdict(on_gold),
        "base_to_gold": (not on_base.passed and bool(on_gold.passed)) if conclusive else None,
        "candidates": [asdict(one) for one in candidates],
        "balanced_accuracy": balanced_accuracy(labelled),
        "operational": [f"{one.id}: {one.decision} {one.reason}" for one in kept_apart],
        "again": any(one.decision == Decision.INCONCLUSIVE and one.reason != UNREADABLE for one in kept_apart),
        "seconds": round(time.monotonic() - started, 2),
    }


def control(instance: Instance, gold: Gold, repo: str, ref: str | None, place: Place, config: Config) -> dict[str, Any]:
    """Whether Gold passes the official test here: `passes` is None where that could not be found out."""
    from execcritic_scaffold.qualify import qualify

    started = time.monotonic()
    guard = {"guard": "list", "guard_nodes": gold.pass_to_pass} if gold.pass_to_pass else {}
    admission, settings = config.qualify.model_copy(update=guard), config.verify.model_copy(update=guard)
    base = places.snapshot(repo, places.store(), places.cache() / "clones" / instance.id, ref)
    with places.sandbox(place) as sandbox:
        site, _ = environments.opened(
            base, sandbox, place, config, cache=places.cache(), tell=_unheard, check=False
        )  # fmt: skip
        submission = Submission(gold.test_patch, gold.fail_to_pass, author="person")
        answer = qualify(site, submission, instance.problem, admission)
        said = (str(answer.status), answer.code, answer.detail)
        passes = None if answer.status == "INCONCLUSIVE" else False
        if answer.bundle is not None:
            checked = config.model_copy(update={"verify": settings})
            judged = _on(site, answer.bundle, Candidate("gold", gold.patch, True), checked)
            said, passes = (judged.decision, judged.reason, judged.detail), judged.passed
    found = dict(zip(("decision", "reason", "detail"), said, strict=True))
    seconds = round(time.monotonic() - started, 2)
    return {
        "kind": "control",
        "instance": instance.id,
        "passes": passes,
        **found,
        "again": passes is None,
        "seconds": seconds,
    }


def _on_base(site: Site, bundle: FrozenBundle, settings: HarnessSettings) -> Judged:
    """A frozen test fails cleanly on Base where its failure is reproduced: it was frozen for that."""
    from execcritic_scaffold.replay import reproduced

    differs = reproduced(site, bundle, settings)
    if differs is None:
        return Judged("base", False, False, "FAIL", "REPRODUCED", "fails on Base as it was frozen")
    return Judged("base", False, None, "INCONCLUSIVE", "BASE_NOT_REPRODUCED", differs)


def _on(site: Site, bundle: FrozenBundle, candidate: Candidate, config: Config) -> Judged:
    from execcritic_scaffold.verify import verify

    try:
        verdict = verify(site, bundle, candidate.patch, config.verify, role="person")
    except PatchError as error:
        verdict = Verdict(Decision.INCONCLUSIVE, UNREADABLE, str(error))
    passed = {Decision.PASS: True, Decision.FAIL: False}.get(verdict.decision)
    said = (records.plain(verdict.decision), verdict.reason, verdict.detail)
    return Judged(candidate.id, candidate.resolved, passed, *said)


def _distinct(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Candidates without those whose patch was there before."""
    seen: dict[bytes, Candidate] = {}
    for one in candidates:
        seen.setdefault(one.patch, one)
    return list(seen.values())


def _unheard(kind: str, data: Mapping[str, Any]) -> None:
    pass
