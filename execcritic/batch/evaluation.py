"""evaluation.json: what the official evaluator said of a batch, repeat by repeat, of its Round 0s, and of Gold."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from execcritic import outfile
from execcritic.batch import official, runrecord
from execcritic.batch.official import Asked, Evaluator, Outcome
from execcritic.batch.results import DONE, Grade, Results
from execcritic_scaffold.errors import UsageError


@dataclass(frozen=True)
class How:
    """What is the same for all evaluations of a batch."""

    evaluator: Evaluator
    dataset: str
    split: str
    workers: int = 4
    seconds: int = 1800
    namespace: str | None = None


def repeats(results: Results, how: How, which: Iterable[int], say: Callable[[str], None]) -> None:
    """Have the submitted patches of these repeats graded and keep the answers."""
    for repeat in which:
        patches = {row.instance: _patch(results, row.instance, repeat) for row in results.rows if row.repeat == repeat
                   and row.ending in DONE}  # fmt: skip
        _keep(results, how, "repeats", str(repeat), _graded(results, how, f"repeat{repeat}", patches, say))


def round0(results: Results, how: How, which: Iterable[int], say: Callable[[str], None]) -> None:
    """Have the Round-0 patches graded that are not what was submitted in the end; the others have that grade."""
    for repeat in which:
        records = {r.instance: _record(results, r.instance, repeat) for r in results.rows if r.repeat == repeat}
        patches = {
            name: one.round0 for name, one in records.items() if one.round0 is not None and one.round0 != one.patch
        }
        found = _graded(results, how, f"round0-{repeat}", patches, say, ids=list(patches))
        _keep(results, how, "round0", str(repeat), found)


def gold(results: Results, how: How, say: Callable[[str], None]) -> None:
    """Have the reference patches graded here: the control run."""
    ids = list(dict.fromkeys(row.instance for row in results.rows))
    asked = _asked(results, how, official.GOLD, f"gold-{how.evaluator.version}", ids)
    say(f"swebench {how.evaluator.version} runs {len(ids)} reference patches; it writes to {asked.work}.")
    report = official.evaluate(how.evaluator, asked) if ids else {}
    _keep(results, how, "gold", None, official.outcomes(report, asked, {}))


def read(results: Results) -> dict[str, Any]:
    """evaluation.json as it is, an empty one where there is none. Raises UsageError where it is damaged."""
    try:
        body = json.loads(results.folder.evaluation.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{results.folder.evaluation} cannot be read ({error}); remove it to start anew.") from None
    if not isinstance(body, dict):
        raise UsageError(f"{results.folder.evaluation} is not what `evaluate` writes; remove it to start anew.")
    return body


def predictions(patches: Mapping[str, bytes], model: str) -> list[dict[str, str]]:
    """Rows as both versions read them. A byte that is not UTF-8 stands as a lone surrogate, which the evaluator
    refuses for this instance alone."""
    return [
        {"instance_id": name, "model_name_or_path": model, "model_patch": patch.decode("utf-8", "surrogateescape")}
        for name, patch in patches.items()
    ]


def model_name(results: Results) -> str:
    """The batch's name in a form that is a file name everywhere."""
    return re.sub(r"[^A-Za-z0-9_.+-]", "-", results.name)[:100] or "execcritic"


def _graded(
    results: Results,
    how: How,
    name: str,
    patches: Mapping[str, bytes],
    say: Callable[[str], None],
    ids: Sequence[str] | None = None,
) -> dict[str, Outcome]:
    if ids is None:
        ids = list(dict.fromkeys(row.instance for row in results.rows))
    model = model_name(results)
    rows = json.dumps(predictions(patches, model)).encode()
    # The evaluator keeps what it graded under a run's name, so other patches need another name.
    run = f"{name}-{hashlib.sha256(rows + f'{how}'.encode()).hexdigest()[:12]}"
    path = results.folder.root / "evaluation" / f"{run}.predictions.json"
    asked = _asked(results, how, str(path.absolute()), run, ids)
    if not any(patch.strip() for patch in patches.values()):  # nothing to run; 4.1 fails on an empty file
        return official.outcomes({"empty_patch_ids": list(patches)}, asked, {})
    path.parent.mkdir(exist_ok=True)
    outfile.write(path, rows, "DIR")
    say(f"swebench {how.evaluator.version} grades {len(patches)} patches; it writes to {asked.work}.")
    report = official.evaluate(how.evaluator, asked)
    return official.outcomes(report, asked, dict.fromkeys(patches, model))


def _asked(results: Results, how: How, patches: str, run: str, ids: Sequence[str]) -> Asked:
    work = (results.folder.root / "evaluation").absolute()
    return Asked(how.dataset, how.split, ids, patches, run, work, how.workers, how.seconds, how.namespace)


def _keep(results: Results, how: How, part: str, key: str | None, found: Mapping[str, Outcome]) -> None:
    graded = {name: {**asdict(one), "grade": one.grade.value} for name, one in found.items()}
    body = read(results)
    old = body.get(part)
    body |= {
        "swebench": how.evaluator.version,
        "dataset": how.dataset,
        "split": how.split,
        "time": round(time.time(), 3),
        part: graded if key is None else {**(old if isinstance(old, dict) else {}), key: graded},
    }
    outfile.write(results.folder.evaluation, (json.dumps(body, indent=1) + "\n").encode(), "DIR")


def _record(results: Results, instance: str, repeat: int) -> runrecord.Record:
    return runrecord.read(results.folder.run(instance, repeat), [])


def _patch(results: Results, instance: str, repeat: int) -> bytes:
    return _record(results, instance, repeat).patch


def not_graded(body: Mapping[str, Any]) -> int:
    """Answers of evaluation.json, of all repeats together, that are no grade."""
    found = [one for repeat in body.get("repeats", {}).values() for one in repeat.values()]
    return sum(one["grade"] == Grade.NOT_GRADED for one in found)
