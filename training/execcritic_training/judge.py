"""From an episode that has ended to its evidence, by the harness itself, in fresh one-shot sandboxes.

Nothing of an agent's workspace is looked at: only its frozen bundle or its patch crosses. What could not be judged is
OPERATIONAL; a fault of the machine never becomes FAIL. Gold and labels are read here and nowhere in an episode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from execcritic.batch.instance import Candidate, Gold
from execcritic_scaffold import policy
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import InfrastructureError, PatchError, UsageError
from execcritic_scaffold.outcome import Decision, Finding, Verdict
from execcritic_scaffold.paths import PathKind
from execcritic_scaffold.policy import Role, SourcePatch
from execcritic_scaffold.settings import VerifySettings
from execcritic_scaffold.site import Site
from execcritic_scaffold.verify import no_effect, verify
from execcritic_training import candidates
from execcritic_training.episode import Episode
from execcritic_training.evidence import Labelled, Outcome, RepairEvidence, TestEvidence

NOT_SOURCE = frozenset({PathKind.TEST, PathKind.SUPPORT, PathKind.CONFTEST})
NOT_BEHAVIOUR = frozenset({"READS_SOURCE", "CALLS_GIT"})
"""Findings of a test that may tell a patch from Base without running it."""
SPECIAL_CASE = "REPEATS_TEST_INPUT"
NO_PATCH = frozenset({"EMPTY_PATCH", "NO_EFFECT"})


@dataclass(frozen=True)
class JudgeSettings:
    """How what is run. `gold` runs twice, so that a test that passes there by chance shows; a `candidate`, which was
    made before the test and knows nothing of it, once; an agent's own patch under the `selected` test as `verify` does
    by default, with the twin. The guard is off where a test is judged: what existing tests catch is not its merit."""

    gold: VerifySettings
    candidate: VerifySettings
    selected: VerifySettings
    official: VerifySettings

    @staticmethod
    def over(base: VerifySettings) -> JudgeSettings:
        """With the limits of `base`, which the guard of the official evaluation is taken from too."""
        once = base.model_copy(update={"guard": "off", "twin": False, "repeats": 1})
        twice = once.model_copy(update={"repeats": 2})
        return JudgeSettings(twice, once, base.model_copy(update={"guard": "off"}), base)


DEFAULTS = JudgeSettings.over(VerifySettings.model_validate({}))
Open = Callable[[FrozenBundle], Site]
"""Where a bundle can be verified. Raises the errors of every part."""


def judge_test(
    opened: Open, episode: Episode, bundle: FrozenBundle | None, gold: Gold, settings: JudgeSettings = DEFAULTS
) -> TestEvidence:
    """The evidence of a Test episode; `bundle` is what it froze, None where nothing.

    Candidates are run only where the test fails on Base and passes on Gold: elsewhere the reward needs none.
    """
    common = TestEvidence(
        submitted=bundle is not None or episode.ran_on_base,
        turns=episode.turns,
        operational=episode.operational,
        truncated=episode.truncated,
    )
    if bundle is None or episode.operational is not None:
        return replace(common, base=Outcome.PASS if episode.ran_on_base else None)
    suspect = next((f["code"] for f in bundle.record.findings if f["code"] in NOT_BEHAVIOUR), None)
    common = replace(common, base=Outcome.FAIL, suspect=suspect)
    try:
        site = opened(bundle)
        source = _source_of(site, bundle, gold.patch)
    except InfrastructureError as error:
        return replace(common, operational=f"{type(error).__name__}: {error}")
    except UsageError as error:
        return replace(common, operational=f"the reference patch cannot be used: {error}")
    if source is None:
        return replace(common, operational="the reference patch is not admitted, or changes no code")
    verdict = _verdict(site, bundle, source, settings.gold, "person")
    if isinstance(verdict, str):
        return replace(common, operational=verdict)
    if verdict.reason == "BASE_NOT_REPRODUCED":
        return replace(common, base=Outcome.OPERATIONAL, operational=verdict.detail)
    common = replace(common, gold=_outcome(verdict))
    if common.gold is not Outcome.PASS:
        return common
    chosen = candidates.choose(usable(site, bundle, gold), gold.instance)
    judged = tuple(_labelled(site, bundle, one, settings) for one in chosen)
    return replace(common, candidates=judged)


def judge_repair(
    opened: Open,
    episode: Episode,
    selected: FrozenBundle,
    official: FrozenBundle,
    gold: Gold,
    settings: JudgeSettings = DEFAULTS,
) -> RepairEvidence:
    """The evidence of a Repair episode: its terminal patch under the fixed test it was shown, and under the official
    tests with the official pass-to-pass list as the guard."""
    found = RepairEvidence(
        patch=False,
        turns=episode.turns,
        rounds=episode.rounds,
        operational=episode.operational,
        truncated=episode.truncated,
    )
    if found.operational is not None or found.truncated or not episode.patch.strip():
        return found
    try:
        site = opened(selected)
        verdict = _verdict(site, selected, episode.patch, settings.selected, "agent")
        if isinstance(verdict, str):
            return replace(found, operational=verdict)
        if verdict.decision in (Decision.FORBIDDEN, Decision.TAMPERED):
            return replace(found, patch=True, forbidden=f"{verdict.reason}: {verdict.detail}")
        if verdict.reason in NO_PATCH:
            return found
        found = replace(found, patch=True, selected=_outcome(verdict), suspect=_suspect(verdict.findings))
        if found.selected is not Outcome.PASS:
            return found
        guard = settings.official
        if gold.pass_to_pass:
            guard = guard.model_copy(update={"guard": "list", "guard_nodes": gold.pass_to_pass})
        last = _verdict(opened(official), official, episode.patch, guard, "agent")
    except PatchError:
        return found
    except (InfrastructureError, UsageError) as error:
        return replace(found, operational=f"{type(error).__name__}: {error}")
    if isinstance(last, str):
        return replace(found, operational=last)
    if last.decision is Decision.FAIL and any(f.code == SPECIAL_CASE for f in verdict.findings):
        # It recognises the inputs it was shown, and other tests show that the behaviour is not there.
        return replace(found, selected=Outcome.FAIL)
    return replace(found, official=_outcome(last), suspect=found.suspect or _suspect(last.findings))


def usable(site: Site, bundle: FrozenBundle, gold: Gold) -> tuple[Candidate, ...]:
    """The labelled candidates with their changes of source alone, as an official evaluation takes them: their own tests
    cannot stand in a test's way. Left out: what does not apply, what the patch policy forbids, what changes no code,
    and the reference patch itself."""
    known = candidates.digest(gold.patch) if gold.patch.strip() else None
    found = []
    for one in gold.candidates:
        try:
            source = _source_of(site, bundle, one.patch)
        except PatchError:
            continue
        if one.resolved is not None and source is not None and candidates.digest(source) != known:
            found.append(replace(one, patch=source))
    return tuple(found)


def _source_of(site: Site, bundle: FrozenBundle, patch: bytes) -> bytes | None:
    """The patch without its tests; None where nothing is left that may be run and changes code."""
    store, base = site.base.store, site.base.tree
    changes = store.changes(base, store.apply(base, patch))
    kept = {path: file for path, file in changes.items() if site.runner.discovery.kind(path) not in NOT_SOURCE}
    if not kept or no_effect(site, kept):
        return None
    source = store.diff(base, store.edit(base, kept))
    admitted = policy.admit(site, bundle, source, "person", DEFAULTS.gold.patch_bytes)
    return source if isinstance(admitted, SourcePatch) else None


def _labelled(site: Site, bundle: FrozenBundle, one: Candidate, settings: JudgeSettings) -> Labelled:
    verdict = _verdict(site, bundle, one.patch, settings.candidate, "person")
    outcome = Outcome.OPERATIONAL if isinstance(verdict, str) else _outcome(verdict)
    return Labelled(one.id, bool(one.resolved), outcome)


def _verdict(site: Site, bundle: FrozenBundle, patch: bytes, settings: VerifySettings, role: Role) -> Verdict | str:
    """The verdict, or in one clause what of the machine failed. Raises PatchError."""
    try:
        return verify(site, bundle, patch, settings, role=role)
    except InfrastructureError as error:
        return f"{type(error).__name__}: {error}"


def _outcome(verdict: Verdict) -> Outcome:
    """TAMPERED is no fault of the machine, and the patch is not accepted: FAIL."""
    if verdict.decision is Decision.PASS:
        return Outcome.PASS
    return Outcome.OPERATIONAL if verdict.decision is Decision.INCONCLUSIVE else Outcome.FAIL


def _suspect(findings: Sequence[Finding]) -> str | None:
    """What screening points at in the source of a patch (it alone names lines): what a fix has no reason to bring."""
    return next((f.code for f in findings if f.line is not None and f.code != SPECIAL_CASE), None)
