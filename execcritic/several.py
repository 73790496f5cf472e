"""`resolve` with several tests or patches: binds the selection to one run and keeps what it chose."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from execcritic import selecting
from execcritic.config import Config
from execcritic.judging import Judge
from execcritic.models import View
from execcritic.request import Request
from execcritic.runs import Run
from execcritic.verdicts import Verdicts
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.contract import fold
from execcritic_scaffold.loop import Emit, Harness, Seat
from execcritic_scaffold.resolution import Gate
from execcritic_scaffold.selection import mutants
from execcritic_scaffold.selection.appraise import Bench
from execcritic_scaffold.selection.several import Selected, resolve_several
from execcritic_scaffold.site import Site

_TEXT = (".py", ".rst", ".md", ".txt")
_BATCH = 500
"""Files of the repository read at a time."""


def carry_out(
    request: Request,
    config: Config,
    run: Run,
    site: Site,
    issue: str,
    harness: Harness,
    judge: Judge | None,
    seat: Callable[[str], Seat],
    view: View,
    cancel: threading.Event,
) -> Selected:
    """All episodes and the choice; the chosen pair lies in the run as that of a run with one of each would."""
    parts = {name: run.part(name) for name in request.episodes}
    if config.model.temperature == 0:
        text = "With model.temperature=0 the episodes of one model may all be the same."
        view("warning", {"text": text})
    verdicts = Verdicts(run, site, config.verify, cancel)
    store, tree = site.base.store, site.base.tree
    bench = Bench(
        verify=verdicts.verify,
        quick=verdicts.quick,
        mutants=lambda patch, most: mutants.of_patch(store, tree, patch, most),
        unknown=lambda texts: _unknown(site, issue, texts),
        issue=issue,
        consistent=(lambda bundle: judge.ask(issue, bundle)) if judge and config.selection.consistency else None,
    )

    def emit(name: str | None) -> Emit:
        keep = run.emit if name is None else parts[name].emit
        named = {} if name is None else {"episode": name}

        def say(kind: str, data: Mapping[str, Any]) -> None:
            keep(kind, data)
            view(kind, {**named, **data})

        return say

    roles = request.episodes
    tests: dict[str, Seat | Gate] = {
        name: parts[name].gate() or seat(name) for name, role in roles.items() if role == "test"
    }
    fixes = {name: seat(name) for name, role in roles.items() if role == "repair"}
    asked = replace(harness, verify=verdicts.verify, qualify=verdicts.alone(harness.qualify))
    try:
        selected = resolve_several(tests, fixes, asked, bench, config.loop, config.selection, emit)
    except BaseException:
        cancel.set()  # whatever still waits for the harness is to find it closed
        raise
    _keep(run, selected, config.selection.threshold)
    return selected


def _keep(run: Run, selected: Selected, threshold: float) -> None:
    run.write_json("selection.json", selecting.whole(selected, threshold))
    if patch := selected.resolution.repair.patch:
        run.write("fix.patch", patch)
    bundle = selected.resolution.gate.bundle
    kept = run.directory / "test" / "bundle"
    if kept.exists() and (bundle is None or FrozenBundle.load(kept).id != bundle.id):
        shutil.rmtree(kept)  # of an attempt that broke off after it had chosen otherwise
        (run.directory / "test.patch").unlink(missing_ok=True)
    run.freeze(bundle)


def _unknown(site: Site, issue: str, texts: Collection[str]) -> set[str]:
    """Of some texts, those that neither the issue nor Base holds, white space and case apart."""
    left = {text: text.casefold() for text in texts}

    def leave_out(known: str) -> None:
        known = fold(known).casefold()
        for text in [text for text, wanted in left.items() if wanted in known]:
            del left[text]

    leave_out(issue)
    oids = [entry.oid for path, entry in site.entries.items() if path.endswith(_TEXT)]
    for start in range(0, len(oids), _BATCH):
        if left:
            for data in site.base.store.read_blobs(oids[start : start + _BATCH]).values():
                leave_out(data.decode("utf-8", "replace"))
    return set(left)
