"""What a selection came to, as JSON values: whole for selection.json, in brief for verdict.json."""

from __future__ import annotations

from typing import Any

from execcritic import records, runs
from execcritic_scaffold.selection.several import Selected

SCHEMA = 1


def brief(selected: Selected) -> dict[str, Any]:
    """The chosen pair, why, and the scores."""
    choice = selected.choice
    return {
        "test": choice.test,
        "patch": choice.patch,
        "abstained": choice.abstained,
        "reasons": list(choice.reasons),
        "gate": selected.gate,
        "scores": {test: round(score.value, 3) for test, score in selected.appraisal.scores.items()},
    }


def whole(selected: Selected, threshold: float) -> dict[str, Any]:
    """Everything the choice rests on: each episode's end, the matrix of verdicts, every signal."""
    found = selected.appraisal
    return {
        "schema": SCHEMA,
        **brief(selected),
        "threshold": threshold,
        "tests": {
            name: {
                "status": gate.status.name if gate.bundle is None else "QUALIFIED",
                "bundle_id": gate.bundle.id if gate.bundle else None,
                "submissions": gate.submissions,
                "error": str(gate.error) if gate.error else None,
                "same_as": _other(found.same.get(name), name),
                "standing": records.plain(found.scores[name]) if name in found.scores else None,
            }
            for name, gate in selected.gates.items()
        },
        "patches": {
            name: {
                "sha256": runs.digest(repair.patch) if repair.patch else None,
                "rounds": repair.rounds,
                "checks": repair.checks,
                "stopped": records.plain(repair.stop.kind) if repair.stop else None,
                "error": str(repair.error) if repair.error else None,
                "ruling": records.plain(repair.ruling),
                "same_as": _other(found.same.get(name), name),
            }
            for name, repair in selected.repairs.items()
        },
        "matrix": {
            test: {
                patch: f"{verdict.decision} {verdict.reason}"
                for patch in found.matrix.patches
                if (verdict := found.verdicts.get((test, patch)))
            }
            for test in found.matrix.tests
        },
        "missing": list(found.missing),
    }


def _other(stands_for: str | None, name: str) -> str | None:
    return None if stands_for == name else stands_for
