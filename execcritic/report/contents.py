"""Everything that a report shows, put together from a run directory whatever state that is in."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from execcritic import certificate, records, runs, view
from execcritic.report import diffs, quotes, rounds, turns
from execcritic.report.diffs import Diff
from execcritic.report.quotes import Piece
from execcritic.report.reading import Folder
from execcritic.report.rounds import Step
from execcritic.report.shown import each
from execcritic.report.turns import Trajectory
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import ExecCriticError, UsageError
from execcritic_scaffold.outcome import Verdict

ISSUE_BYTES = 200_000
BUNDLE_BYTES = 64 << 20
T = TypeVar("T")
_RUN_FILES = ("manifest.json", "journal.jsonl", "verdict.json")


@dataclass
class Contents:
    """What the page shows. JSON values are as they were read: the template takes nothing of them for granted."""

    name: str
    manifest: dict[str, Any]
    result: dict[str, Any]
    said: str
    title: str
    issue: list[Piece]
    contract: list[tuple[str, Any]]
    quotes: list[tuple[int, str, bool]]
    fix: Diff | None
    test: Diff | None
    record: dict[str, Any]
    frozen: str
    check: dict[str, Any]
    certificate: dict[str, Any]
    command: str
    steps: list[Step] = field(default_factory=list)
    trajectories: list[Trajectory] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def collect(directory: Path) -> Contents:
    """Read a run. Raises UsageError for a folder that is none."""
    if not any((directory / name).exists() for name in _RUN_FILES):
        raise UsageError(f"{directory} is no run; name a folder that `resolve`, `test` or `repair` wrote.")
    folder = Folder(directory)
    manifest = folder.json("manifest.json", needed=True)
    result = folder.json("verdict.json")
    if not result:
        folder.note("There is no verdict.json: the run has not ended, or it broke off.")
    if isinstance(schema := manifest.get("schema"), int) and schema > runs.SCHEMA:
        folder.note("The run was written by a newer version; what that added is not shown.")
    issue = folder.text("issue.md", ISSUE_BYTES, needed=True) or ""
    fix = folder.data("fix.patch", diffs.PATCH_BYTES)
    bundle, record, frozen = _bundle(folder, manifest)
    check = _check(folder, fix, record)
    verdict = (
        _try(folder, "the verdict of the newest patch", lambda: records.verdict(check["verdict"])) if check else None
    )
    said = [str(quote) for quote in each(_under(record, "contract").get("issue_evidence"))]
    pieces = quotes.marked(issue, said)
    found = {number for piece in pieces for number in piece.quotes}
    return Contents(
        name=directory.resolve().name,
        manifest=manifest,
        result=result,
        said=(_try(folder, "verdict.json", lambda: view.summary(result).partition("\n")[0]) or "") if result else "",
        title=" ".join(issue.lstrip().partition("\n")[0][:300].split()),
        issue=pieces,
        contract=_contract(record),
        quotes=[(number, quote, number in found) for number, quote in enumerate(said, 1)],
        fix=diffs.read(fix, "fix.patch"),
        test=diffs.read(folder.data("test.patch", diffs.PATCH_BYTES), "test.patch")
        or (diffs.read(bundle.blob(bundle.record.test_patch), "test.patch") if bundle else None),
        record=record,
        frozen=frozen,
        check=check,
        certificate=_certificate(folder, bundle, verdict, fix),
        command=_try(folder, "How to check again", lambda: _command(folder, manifest, bundle)) or "",
        steps=_try(folder, "The journal", lambda: rounds.read(folder)) or [],
        trajectories=_try(folder, "A trajectory", lambda: turns.read(folder)) or [],
        notes=folder.notes,
    )


def _contract(record: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The contract's entries, those that every contract has first and in the order in which they are read."""
    said = dict(_under(record, "contract"))
    for elsewhere in ("issue_evidence", "test_nodes"):
        said.pop(elsewhere, None)
    first = ("trigger", "entrypoint", "expected_output", "non_assertions", "alternative_hypotheses")
    return [(name, said.pop(name)) for name in first if name in said] + list(said.items())


def _bundle(folder: Folder, manifest: Mapping[str, Any]) -> tuple[FrozenBundle | None, dict[str, Any], str]:
    """The frozen test where its hashes hold, its record as it lies there, and what was found out about the hashes."""
    where = folder
    given = _under(manifest, "request").get("bundle")
    name = "test/bundle"
    if isinstance(given, str) and "bundle.json" not in folder.names(name):
        where, name = Folder(Path(given), folder.notes), "."
    record = where.json(f"{name}/bundle.json")
    if not record:
        return None, {}, ""
    if where.size(f"{name}/files") > BUNDLE_BYTES:
        return None, record, "were not checked: the bundle is too large for a report"
    try:
        return FrozenBundle.load(where.directory / name), record, ""
    except (ExecCriticError, OSError, ValueError, RecursionError) as error:
        return None, record, f"do not hold: {error}"


def _check(folder: Folder, fix: bytes | None, record: Mapping[str, Any]) -> dict[str, Any]:
    """The harness's answer to the newest patch, from the checks or, of several episodes, from the pairs' verdicts."""
    if fix is None:
        return {}
    wanted = runs.digest(fix)
    checked = [f"{name}/checks" for name in folder.names("") if name.split("-")[0] == "repair"]
    for place in ["verdicts", *checked]:
        for name in reversed(folder.names(place)):
            if not name.endswith(".json") or name.endswith("-quick.json"):
                continue
            body = folder.json(f"{place}/{name}")
            if body.get("patch") == wanted and body.get("bundle") in (None, record.get("id")):
                return body
    return {}


def _certificate(
    folder: Folder, bundle: FrozenBundle | None, verdict: Verdict | None, fix: bytes | None
) -> dict[str, Any]:
    if bundle is None or verdict is None or fix is None:
        return {}
    return _try(folder, "The certificate", lambda: certificate.data(bundle, verdict, fix)) or {}


def _command(folder: Folder, manifest: Mapping[str, Any], bundle: FrozenBundle | None) -> str:
    """How anybody checks the patch again, without a model; empty where there is nothing to check."""
    fix = folder.directory / "fix.patch"
    if bundle is None or not fix.exists():
        return ""
    asked = _under(manifest, "request")
    repo = str(asked.get("repo") or "REPOSITORY")
    if "://" in repo or not Path(repo).is_dir():
        clone = folder.directory / "repository"
        repo = str(clone.absolute()) if clone.is_dir() else "REPOSITORY"
    given = None if (folder.directory / "test" / "bundle").is_dir() else asked.get("bundle")
    command = ["execcritic", "verify", "--bundle", str(given or folder.directory.absolute()), "--repo", repo]
    return shlex.join([*command, "--patch", str(fix.absolute())])


def _under(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = body.get(key)
    return found if isinstance(found, Mapping) else {}


def _try(folder: Folder, what: str, make: Callable[[], T]) -> T | None:
    """What `make` returns; None with a note where the values that it reads are not of the kinds they should be."""
    try:
        return make()
    except (LookupError, AttributeError, TypeError, ValueError, ArithmeticError, OSError, ExecCriticError) as error:
        folder.note(f"{what} cannot be shown: the record is damaged ({type(error).__name__}: {str(error)[:200]}).")
        return None
