"""The verdicts of one run on pairs of a frozen test and a patch: each is made once and kept in the run directory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

from execcritic import records, runs
from execcritic.runs import Run
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import Interrupted
from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.qualification import Qualification
from execcritic_scaffold.settings import VerifySettings
from execcritic_scaffold.site import Site


class Verdicts:
    """Asks the harness one thing at a time: runs beside each other would disturb each other's time limits.

    Inconclusive verdicts are not kept beyond the process; they are worth a new run.
    """

    def __init__(self, run: Run, site: Site, settings: VerifySettings, over: threading.Event) -> None:
        self._run, self._site, self._settings, self._over = run, site, settings, over
        self._quick = settings.model_copy(update={"repeats": 1, "guard": "off", "twin": False})
        self._busy = threading.RLock()
        self._known: dict[str, Verdict] = {}

    def verify(self, bundle: FrozenBundle, patch: bytes, previous: Verdict | None = None) -> Verdict:
        """See `execcritic_scaffold.verify.verify`; `previous` counts only where the verdict is not known yet."""
        return self._judge("full", self._settings, bundle, patch, previous)

    def quick(self, bundle: FrozenBundle, patch: bytes) -> Verdict:
        """One run of the frozen nodes, without the guard."""
        return self._judge("quick", self._quick, bundle, patch, None)

    def alone(self, qualify: Callable[[Submission], Qualification]) -> Callable[[Submission], Qualification]:
        """`qualify`, in turn with everything else that is asked of the harness."""

        def asked(submission: Submission) -> Qualification:
            with self._busy:
                self._check()
                return qualify(submission)

        return asked

    def _judge(
        self, kind: str, settings: VerifySettings, bundle: FrozenBundle, patch: bytes, previous: Verdict | None
    ) -> Verdict:
        from execcritic_scaffold.verify import verify

        digest = runs.digest(patch)
        name = f"verdicts/{bundle.id[:24]}-{digest[:24]}-{kind}.json"
        with self._busy:
            self._check()
            if known := self._known.get(name) or self._read(name):
                return known
            verdict = verify(self._site, bundle, patch, settings, role="agent", previous=previous)
            self._known[name] = verdict
            if verdict.decision is not Decision.INCONCLUSIVE:
                body = {"bundle": bundle.id, "patch": digest, "kind": kind, "verdict": records.plain(verdict)}
                self._run.write_json(name, body)
            return verdict

    def _read(self, name: str) -> Verdict | None:
        try:
            return records.verdict(json.loads((self._run.directory / name).read_bytes())["verdict"])
        except FileNotFoundError:
            return None

    def _check(self) -> None:
        if self._over.is_set():
            raise Interrupted("Interrupted; start again with --resume to go on.")
