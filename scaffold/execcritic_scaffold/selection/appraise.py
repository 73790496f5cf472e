"""From tests and patches to scores: asks the harness for the verdicts and for everything else that the signals need."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.disputes import Ruling
from execcritic_scaffold.errors import InfrastructureError, PatchError
from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.selection.agreement import accepts, dual, notices, rejects
from execcritic_scaffold.selection.evidence import evidence
from execcritic_scaffold.selection.matrix import Matrix, said_by_the_test
from execcritic_scaffold.selection.pinning import demanded, pinning
from execcritic_scaffold.selection.score import Score, Signal, score
from execcritic_scaffold.selection.settings import SelectionSettings

T = TypeVar("T")
_CAUGHT = (Decision.TAMPERED, Decision.FORBIDDEN)
Judge = Callable[[FrozenBundle, bytes], Verdict]


@dataclass(frozen=True)
class Bench:
    """What the selection asks of the harness, bound to one Base."""

    verify: Judge
    """The verdict on a patch, as `verify` gives it; asked again, it costs nothing."""
    quick: Judge
    """What the frozen nodes say in one run, without the guard: for mutants."""
    mutants: Callable[[bytes, int], Sequence[bytes]]
    """(patch, most) -> mutants of the patch."""
    unknown: Callable[[Collection[str]], set[str]]
    """Of some texts, those that neither the issue nor the repository holds."""
    issue: str
    consistent: Callable[[FrozenBundle], Ruling] | None = None
    """What a judge says of a frozen test; None where there is none."""


@dataclass(frozen=True)
class Appraisal:
    """Everything the choice rests on. `same`: a test or patch that another episode came to, by name, and under which
    name it stands here. `missing` says why pairs have no verdict."""

    matrix: Matrix
    scores: Mapping[str, Score]
    verdicts: Mapping[tuple[str, str], Verdict] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def accepted(self) -> dict[tuple[str, str], bool]:
        """Which pairs PASS, the guard included."""
        return {pair: verdict.decision is Decision.PASS for pair, verdict in self.verdicts.items()}


def appraise(
    tests: Mapping[str, FrozenBundle],
    patches: Mapping[str, bytes],
    bench: Bench,
    settings: SelectionSettings,
    demoted: Mapping[str, str],
) -> Appraisal:
    """Matrix and scores. `demoted`: tests that decide nothing, with the reason; a test that equals one of them, too.

    Verdicts take at most about `settings.seconds`. The machine's failures leave a pair without a verdict.
    """
    return _Appraiser(tests, patches, bench, settings).run(demoted)


def identity(bundle: FrozenBundle) -> str:
    """What makes two frozen tests the same: their files and what is expected of which node. Ids differ, because
    they also cover when and how a test was admitted."""
    record = bundle.record
    files = {path: blob.sha256 if blob else None for path, blob in record.files.items()}
    nodes = {node: one.kind for node, one in record.nodes.items()}
    return hashlib.sha256(json.dumps([files, nodes], sort_keys=True).encode()).hexdigest()


def distinct(named: Mapping[str, T], key: Callable[[T], object]) -> tuple[dict[str, T], dict[str, str]]:
    """Each value once, under the first name it comes with, and every name with the one it goes under."""
    first: dict[object, str] = {}
    same = {name: first.setdefault(key(value), name) for name, value in named.items()}
    return {name: named[name] for name in first.values()}, same


class _Appraiser:
    def __init__(
        self,
        tests: Mapping[str, FrozenBundle],
        patches: Mapping[str, bytes],
        bench: Bench,
        settings: SelectionSettings,
    ) -> None:
        self.tests, known = distinct(tests, identity)
        self.patches, made = distinct({name: patch for name, patch in patches.items() if patch.strip()}, bytes)
        self.same = {**known, **made}
        self.bench, self.settings = bench, settings
        self.deadline = time.monotonic() + settings.seconds
        self.missing: dict[str, None] = {}

    def run(self, demoted: Mapping[str, str]) -> Appraisal:
        verdicts: dict[tuple[str, str], Verdict] = {}
        for patch, data in self.patches.items():
            for test, bundle in self.tests.items():
                if verdict := self._ask(self.bench.verify, bundle, data):
                    verdicts[test, patch] = verdict
            if caught := next(
                (v for (_, name), v in verdicts.items() if name == patch and v.decision in _CAUGHT), None
            ):
                # What tampers with one test has not passed another, whatever that one says.
                verdicts |= {(test, patch): caught for test in self.tests}
        weights: dict[str, int] = {}
        for name in self.same.values():
            weights[name] = weights.get(name, 0) + 1
        passes = {pair: said for pair, v in verdicts.items() if (said := said_by_the_test(v)) is not None}
        matrix = Matrix(tuple(self.tests), tuple(self.patches), passes, weights)
        signals = self._signals(matrix)
        why = {self.same[name]: reason for name, reason in demoted.items() if name in self.same}
        scores = {test: score(signals[test], self.settings, why.get(test)) for test in self.tests}
        return Appraisal(matrix, scores, verdicts, self.same, tuple(self.missing))

    def _signals(self, matrix: Matrix) -> dict[str, dict[str, Signal]]:
        by_name = {
            "dual": dual(matrix),
            "accepts": accepts(matrix),
            "rejects": rejects(matrix),
            "mutants": self._mutants(matrix),
            "pinning": self._each(self._pinning),
            "evidence": self._each(lambda bundle: evidence(bundle.record.contract, self.bench.issue)),
            "judge": self._each(self._judged),
        }
        return {test: {name: found[test] for name, found in by_name.items() if test in found} for test in self.tests}

    def _each(self, signal: Callable[[FrozenBundle], Signal | None]) -> dict[str, Signal]:
        return {test: found for test, bundle in self.tests.items() if (found := signal(bundle)) is not None}

    def _pinning(self, bundle: FrozenBundle) -> Signal | None:
        literals = demanded(bundle)
        return pinning(literals, self.bench.unknown(literals) if literals else ())

    def _judged(self, bundle: FrozenBundle) -> Signal | None:
        if self.bench.consistent is None:
            return None
        ruling = self.bench.consistent(bundle).checked(self.bench.issue)
        return None if ruling.supported is None else Signal(float(ruling.supported))

    def _mutants(self, matrix: Matrix) -> dict[str, Signal]:
        """Mutants of the patch that most agree on, under the tests that it passes."""
        classes = matrix.classes()
        if not classes:
            return {}
        tests = max(classes, key=lambda tests: (sum(map(matrix.weight, classes[tests])), len(tests)))
        patch = max(classes[tests], key=matrix.weight)
        passes: dict[tuple[str, int], bool] = {}
        for number, mutant in enumerate(self.bench.mutants(self.patches[patch], self.settings.mutants)):
            for test in sorted(tests):
                verdict = self._ask(self.bench.quick, self.tests[test], mutant)
                said = said_by_the_test(verdict) if verdict else None
                if said is not None:
                    passes[test, number] = said
        return notices(passes)

    def _ask(self, judge: Judge, bundle: FrozenBundle, patch: bytes) -> Verdict | None:
        if time.monotonic() >= self.deadline:
            self.missing["the time for verdicts is used up (selection.seconds)"] = None
            return None
        try:
            return judge(bundle, patch)
        except PatchError as error:
            return Verdict(Decision.FORBIDDEN, "PATCH", str(error))
        except InfrastructureError as error:
            self.missing[str(error)] = None
            return None
