"""Where candidate patches come from: batch folders, single runs, and files of predictions with their reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from execcritic.batch import predictions
from execcritic.batch.folder import Folder
from execcritic.batch.instance import Candidate
from execcritic_scaffold.errors import UsageError
from execcritic_training.admission import Found
from execcritic_training.candidates import Pool, pool

_LISTS = {
    "resolved_ids": True,
    "resolved": True,
    "unresolved_ids": False,
    "unresolved": False,
    "empty_patch_ids": False,
}


def runs_of(path: Path) -> Iterator[Found]:
    """The run directories at a path: of a batch folder, or the one it is itself (its instance is its parent's name).

    Raises UsageError for a folder that is neither.
    """
    if (path / "batch.json").is_file():
        for run in sorted((path / "runs").glob("*/*")):
            if (run / "journal.jsonl").is_file():
                yield Found(run.parent.name, run)
    elif (path / "journal.jsonl").is_file():
        yield Found(path.absolute().parent.name, path)
    else:
        raise UsageError(f"{path} is neither a batch folder nor a run directory; name one that this program wrote.")


def gather(sources: Iterable[str]) -> dict[str, Pool]:
    """The pool of each instance. A source is a batch folder, or PREDICTIONS=REPORT, or PREDICTIONS whose labels are not
    known. Raises UsageError for what cannot be read."""
    found: dict[str, list[Candidate]] = {}
    for source in sources:
        for instance, candidate in _of(source):
            found.setdefault(instance, []).append(candidate)
    return {instance: pool(candidates) for instance, candidates in sorted(found.items())}


def labels(path: Path) -> dict[str, bool]:
    """Instance to official label, from an evaluator's report: lists of ids, or an object with `resolved` for each id.

    Instances whose evaluation broke have no label. Raises UsageError for a file that is none of these.
    """
    body = _object(path)
    known: dict[str, bool] = {}
    for key, label in _LISTS.items():
        if isinstance(ids := body.get(key), list):
            known |= dict.fromkeys((str(name) for name in ids), label)
    for name, value in body.items():
        if isinstance(value, Mapping) and isinstance(value.get("resolved"), bool):
            known[name] = value["resolved"]
    if not known:
        raise UsageError(f"{path} holds no labels; name the report that the evaluator wrote for these predictions.")
    return known


def _of(source: str) -> Iterator[tuple[str, Candidate]]:
    file, equals, report = source.partition("=")
    path = Path(file)
    if path.is_dir():
        yield from _of_batch(path, Path(report) if equals else None)
        return
    known = labels(Path(report)) if equals else {}
    for name, one in predictions.read(path).items():
        yield name, Candidate(f"{one.model or path.stem}", _ended(one.patch), known.get(name))


def _of_batch(path: Path, report: Path | None) -> Iterator[tuple[str, Candidate]]:
    """Every patch that a batch's Repair agents had checked or ended with; the official label is of the last one of
    repeat 0, which is what the evaluator is given."""
    report = report or Folder(path).evaluation
    known = labels(report) if report.is_file() else {}
    for found in runs_of(path):
        last = found.run / "fix.patch"
        for patch in (last, *sorted((found.run / "repair" / "checks").glob("*.patch"))):
            if not patch.is_file():
                continue
            label = known.get(found.instance) if patch == last and found.run.name == "0" else None
            name = f"{path.name}/{found.run.name}/{patch.stem}"
            yield found.instance, Candidate(name, _ended(patch.read_bytes()), label)


def _ended(patch: bytes) -> bytes:
    """With the line end that many predictions lost to a strip()."""
    return patch + b"\n" if patch.strip() and not patch.endswith(b"\n") else patch


def _object(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); name the evaluator's report.") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON ({error}); name the evaluator's report.") from None
    if not isinstance(body, dict):
        raise UsageError(f"{path} is no JSON object; name the evaluator's report.")
    return body


def row(instance: str, pool: Pool) -> dict[str, Any]:
    """A pool as data sets carry it. A patch whose bytes are not UTF-8 has a lone surrogate for each such byte."""
    listed = [
        {"source": one.id, "patch": one.patch.decode("utf-8", "surrogateescape"), "resolved": one.resolved}
        for one in pool.candidates
    ]
    return {"instance_id": instance, "candidate_patches": listed}


def totals(pools: Iterable[Pool]) -> dict[str, int]:
    """What became of all patches together."""
    every = list(pools)
    kept = [one for pool in every for one in pool.candidates]
    return {
        "candidates": len(kept),
        "correct": sum(bool(one.resolved) for one in kept),
        "doubles": sum(pool.doubles for pool in every),
        "without a label": sum(pool.unlabelled for pool in every),
        "labelled both ways": sum(pool.contradictory for pool in every),
        "unreadable": sum(pool.unreadable for pool in every),
        "empty": sum(pool.empty for pool in every),
    }
