"""What came of a batch: one row for each run that was asked for, whatever is there of it, half-written or not at all.

Three judges stand in columns of their own: the frozen test (`decision`), the official evaluator (`official`,
`infra`), and the audit (`base_to_gold`). None stands in for another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from execcritic.batch import journal, runrecord
from execcritic.batch.assignment import Ending, Mode
from execcritic.batch.folder import Folder, is_id
from execcritic_scaffold.errors import UsageError

NOT_STARTED, UNFINISHED = "not-started", "unfinished"
"""Beside the endings of a run: the journal knows no start of it; a start and no end."""
DONE = (Ending.FINISHED.value, Ending.MODEL_FAILED.value)

REPEATS = 1000
"""More than anybody runs: a manifest that says more is damaged."""


class Grade(StrEnum):
    """What the official evaluation came to. Only RESOLVED ever counts as resolved; all three are in the denominator."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    NOT_GRADED = "not graded"


@dataclass(frozen=True)
class Row:
    """One requested run. None means unknown, or that it was no part of this condition."""

    instance: str
    repo: str
    repeat: int
    ending: str = NOT_STARTED
    reason: str | None = None
    status: str | None = None
    empty: bool | None = None
    """Whether the run ended and submits no patch."""
    qualified: bool | None = None
    """Whether there was a frozen test; None where none was asked for, and where the run broke off before."""
    bundle: str | None = None
    decision: str | None = None
    """Of the frozen test on the submitted patch."""
    rounds: int | None = None
    turns: int | None = None
    tokens: int | None = None
    """Input and output together."""
    cost: float | None = None
    """US dollars."""
    seconds: float | None = None
    official: str | None = None
    """The evaluator's own word: resolved, unresolved, empty, error, missing."""
    grade: Grade = Grade.NOT_GRADED
    infra: str | None = None
    """Tier and reason of a failure that is, or may be, the machine's."""
    round0: Grade | None = None
    base_to_gold: bool | None = None
    balanced_accuracy: float | None = None
    control: bool | None = None
    """Whether the reference patch passes in this environment."""

    @property
    def damaged(self) -> bool | None:
        """Whether a wrong test turned a right Round 0 into a wrong submission."""
        if self.qualified is False or self.round0 in (Grade.UNRESOLVED,) or self.grade is Grade.RESOLVED:
            return False
        if self.base_to_gold is True:
            return False
        if self.base_to_gold is None or self.round0 is not Grade.RESOLVED or self.grade is Grade.NOT_GRADED:
            return None
        return True


@dataclass(frozen=True)
class Results:
    """All rows of a batch, in the order of its ids, repeat after repeat; `notes` say what could not be read."""

    name: str
    folder: Folder
    manifest: Mapping[str, Any] = field(repr=False)
    rows: tuple[Row, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def mode(self) -> str:
        return str(self.manifest.get("mode") or "")

    def key(self) -> dict[tuple[str, int], Row]:
        return {(row.instance, row.repeat): row for row in self.rows}


def load(root: Path, name: str | None = None) -> Results:
    """The results in a batch folder. Raises UsageError for a folder that is none, and where batch.json is damaged."""
    folder = Folder(root)
    manifest = _manifest(folder)
    ids, repeats = dict.fromkeys(manifest["ids"]), manifest["repeats"]
    mode, notes = manifest.get("mode"), list[str]()
    states = _journal(folder.journal, notes)
    audited, controls = _audit(folder.audit, notes)
    evaluation = _object(folder.evaluation, notes)
    if strangers := sorted({key[0] for key in states if key[0] not in ids}):
        notes.append(
            f"{len(strangers)} instances of the journal were not asked for and are left out: {strangers[0]}, …"
        )
    gold = _graded(evaluation, "gold")
    rows = []
    for repeat in range(repeats):
        official, round0 = (_graded(evaluation.get(part), str(repeat)) for part in ("repeats", "round0"))
        for instance in ids:
            record = runrecord.read(folder.run(instance, repeat), notes)
            row = _row(instance, repeat, mode, states.get((instance, repeat)), record)
            found = audited.get((instance, row.bundle or ""), {})
            control = controls.get(instance)
            if control is None and instance in gold:
                control = gold[instance]["grade"] == Grade.RESOLVED
            rows.append(_judged(row, record, official.get(instance), round0.get(instance), found, control))
    return Results(name or root.resolve().name, folder, manifest, tuple(rows), tuple(notes))


def repository(instance: str) -> str:
    """`owner/name` from an id as SWE-bench (`owner__name-12`) and SWE-smith (`owner__name.1fd52536.…`) write it, else
    the id without its number."""
    return re.sub(r"-\d+$|\.[0-9a-f]{8}\..*$", "", instance).replace("__", "/", 1)


def lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The objects of a file of JSON lines with their numbers from 1; None for a line that is damaged. No file, no
    lines."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                body = json.loads(line)
            except (ValueError, RecursionError):
                body = None
            yield number, body if isinstance(body, dict) else None


def _manifest(folder: Folder) -> dict[str, Any]:
    try:
        body = json.loads(folder.manifest.read_bytes())
        repeats, ids = body["repeats"], body["ids"]
    except FileNotFoundError:
        raise UsageError(f"{folder.root} holds no batch.json; name a folder that `swebench run` wrote.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder.manifest} cannot be read ({type(error).__name__}: {error}); get a complete copy of the batch."
        ) from None
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids) or not isinstance(repeats, int):
        raise UsageError(f"{folder.manifest} does not say which ids were asked for; get a complete copy of the batch.")
    if strange := [one for one in ids if not is_id(one)] or not 0 <= repeats <= REPEATS:
        what = f"the id {strange[0][:80]!r}" if isinstance(strange, list) else f"{repeats} repeats"
        raise UsageError(f"{folder.manifest} asks for {what}, which no batch does; do not trust this folder.")
    manifest: dict[str, Any] = body
    return manifest


def _journal(path: Path, notes: list[str]) -> Mapping[journal.Key, journal.State]:
    try:
        found = journal.read(path)
    except FileNotFoundError:
        return {}
    notes += [f"{path.name}, line {number} is damaged and was left out." for number in found.damaged]
    return found.states


def _audit(path: Path, notes: list[str]) -> tuple[dict[tuple[str, str], dict[str, Any]], dict[str, bool]]:
    """What was found of each bundle, by instance and id; whether Gold passed the official test, by instance."""
    bundles: dict[tuple[str, str], dict[str, Any]] = {}
    controls: dict[str, bool] = {}
    for number, line in lines(path):
        if line is None or not isinstance(line.get("instance"), str):
            notes.append(f"{path.name}, line {number} is damaged and was left out.")
        elif line.get("kind") == "bundle":
            bundles[line["instance"], str(line.get("bundle"))] = line
        elif line.get("kind") == "control" and isinstance(line.get("passes"), bool):
            controls[line["instance"]] = line["passes"]
    return bundles, controls


def _object(path: Path, notes: list[str]) -> dict[str, Any]:
    try:
        body = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        body = None
    if not isinstance(body, dict):
        notes.append(f"{path.name} is damaged and was left out; make it again.")
        return {}
    return body


def _row(instance: str, repeat: int, mode: object, state: journal.State | None, record: runrecord.Record) -> Row:
    known = state or journal.State()
    ended = known.ending is not None and not known.open
    body = (known.body if ended else None) or record.verdict or {}
    ending = NOT_STARTED
    if ended and known.ending is not None:
        ending = known.ending.value
    elif record.verdict is not None and record.verdict.get("status") != "INFRASTRUCTURE":
        ending = Ending.FINISHED.value  # killed between the run's end and the journal's line
    elif state is not None or record.there:
        ending = UNFINISHED
    tokens = body.get("tokens")
    spent = [_number(tokens if isinstance(tokens, dict) else {}, part) for part in ("input", "output")]
    bundle = body.get("bundle_id") or record.bundle
    qualified: bool | None = None
    if mode != Mode.NO_TEST and (bundle or ending in DONE):
        qualified = bundle is not None
    return Row(
        instance,
        repository(instance),
        repeat,
        ending,
        known.reason if ended else None,
        body.get("status"),
        record.patch == b"" if mode != Mode.TEST and ending in DONE else None,
        qualified,
        bundle,
        body.get("verdict"),
        _whole(body, "rounds"),
        _whole(body, "turns"),
        None if None in spent else int(sum(part or 0 for part in spent)),
        _number(body, "cost"),
        _number(body, "seconds"),
    )


def _judged(
    row: Row,
    record: runrecord.Record,
    official: Mapping[str, Any] | None,
    round0: Mapping[str, Any] | None,
    audited: Mapping[str, Any],
    control: bool | None,
) -> Row:
    grade = _grade(official)
    first = _grade(round0) if round0 else (grade if record.round0 in (None, record.patch) and official else None)
    label = (official or {}).get("infra")
    return replace(
        row,
        official=(official or {}).get("official"),
        grade=grade,
        infra=f"{label['tier']}: {label['reason']}" if label else None,
        round0=first,
        base_to_gold=False if row.qualified is False else audited.get("base_to_gold"),
        balanced_accuracy=audited.get("balanced_accuracy"),
        control=control,
    )


def _grade(official: Mapping[str, Any] | None) -> Grade:
    return Grade(official["grade"]) if official else Grade.NOT_GRADED


def _graded(part: object, key: str) -> dict[str, dict[str, Any]]:
    """The graded instances below a key of evaluation.json; what has another form is left out."""
    found = part.get(key) if isinstance(part, dict) else None
    entries = found.items() if isinstance(found, dict) else ()
    return {name: one for name, one in entries if isinstance(one, dict) and one.get("grade") in set(Grade)}


def _number(body: Mapping[str, Any], key: str) -> float | None:
    value = body.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(body: Mapping[str, Any], key: str) -> int | None:
    value = _number(body, key)
    return None if value is None else int(value)
