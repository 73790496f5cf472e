"""The run directory: the single record of what one command did (DESIGN 3), readable after any end.

::

    manifest.json   what was asked: command, options, versions, Base, environment, models     written once
    issue.md        the issue as the agents read it
    journal.jsonl   every step, one JSON object a line, appended and synced as it happens
    test/           trajectory.jsonl  qualification.json  bundle/
    repair/         trajectory.jsonl  checks/<n>.json  checks/<n>.patch
    fix.patch       the newest patch of the Repair agent      test.patch   the frozen test as a mergeable diff
    verdict.json    the result, when the run has ended
    report.html     all of it to look at, made from the rest (execcritic.report)

Several episodes have folders test-1/, repair-1/, …, each with its own bundle/ or fix.patch. verdicts/ holds the
verdicts of pairs; selection.json says why the pair was chosen that then lies in the places above.

Resuming replays the record. Not redone: a Test episode that ended (its frozen bundle is loaded and hashed again) and
checks of patches that were checked before. Redone: an episode that had not ended is started over, with the recorded
replies of the model as far as they go, so that its commands run again in a fresh workspace but nothing is paid twice.
"""

from __future__ import annotations

import copy
import fcntl
import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from execcritic import credentials, folders, records
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.outcome import Verdict
from execcritic_scaffold.resolution import Gate, Status

SCHEMA = 1


class Run:
    """One run directory, open for writing by this process alone. `emit` may be called from several threads."""

    def __init__(self, directory: Path, made: Sequence[Path] = ()) -> None:
        """`made`: the folders that were made for this run, the outermost first."""
        self.directory = directory
        self._folders = list(made)
        self._made = {"journal.jsonl", ".gitignore"}
        self._lock = threading.Lock()
        self._episode: str | None = None
        self._journal = open(directory / "journal.jsonl", "ab", buffering=0)  # noqa: SIM115 - closed by `close`
        try:
            fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._journal.close()
            raise UsageError(f"{directory} is in use by another process; wait for it or name another --out.") from None
        if self._journal.tell():
            self._journal.write(b"\n")  # a line torn by a crash must not swallow the next one

    @staticmethod
    def create(out: Path | None) -> Run:
        """Make a new run directory: `out`, which must be new or empty, or ./runs/<id>."""
        directory = folders.default() if out is None else out
        made = folders.make_new(directory, "or --resume it")
        try:
            folders.hide(directory)
            return Run(directory.absolute(), made)
        except OSError:
            (directory / ".gitignore").unlink(missing_ok=True)
            (directory / "journal.jsonl").unlink(missing_ok=True)
            folders.drop_empty(made)
            raise

    @staticmethod
    def reopen(directory: Path) -> Run:
        """Open an existing run to go on with it."""
        if not (directory / "manifest.json").is_file() or not (directory / "journal.jsonl").is_file():
            raise UsageError(f"{directory} is not a run that can be resumed; name a folder that `resolve` wrote.")
        return Run(directory.absolute())

    def part(self, episode: str) -> Run:
        """This run as one of several episodes sees it: what it makes lies in the episode's folder, its lines of the
        journal name it."""
        part = copy.copy(self)
        part._episode = episode
        return part

    def path(self, *parts: str) -> Path:
        """A path below the run directory, for something to be made there; its parent folder exists."""
        self._made.add(parts[0])
        path = self.directory.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def manifest(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads((self.directory / "manifest.json").read_bytes())
        if body.get("schema", 0) > SCHEMA:
            raise UsageError(f"{self.directory} was written by a newer version; upgrade execcritic.")
        return body

    def write_json(self, name: str, body: Mapping[str, Any]) -> None:
        self.write(name, (credentials.masked_urls(json.dumps(body, indent=1)) + "\n").encode())

    def write(self, name: str, data: bytes) -> None:
        """Replace a file as a whole: a reader sees the old bytes or the new ones, never half of them."""
        path = self.path(*name.split("/"))
        partial = path.with_name(f".{path.name}.{threading.get_ident()}")
        try:
            with open(partial, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Record a step of the loop: the journal line, and the files that the step makes."""
        line = {key: records.plain(value) for key, value in data.items()}
        test, repair = (self._episode or role for role in ("test", "repair"))
        if kind == "patch":
            self.write(self._top("fix.patch"), data["patch"])
        elif kind == "check.started":
            newest = (self.directory / self._top("fix.patch")).read_bytes()
            self.write(f"{repair}/checks/{data['number']}.patch", newest)
        elif kind == "check":
            self.write_json(f"{repair}/checks/{data['number']}.json", line)
        elif kind == "test.submitted":
            self.write(f"{test}/submissions/{data['number']}.patch", data["patch"])
        elif kind == "test.qualification":
            self.write_json(f"{test}/qualification.json", line["qualification"])
        elif kind == "test.ended":
            self.freeze(data["gate"].bundle)
        self.log(kind, line)

    def log(self, kind: str, data: Mapping[str, Any]) -> None:
        """Append one line to the journal and sync it."""
        named = {"episode": self._episode} if self._episode else {}
        body = {"time": round(time.time(), 3), "event": kind, **named, **data}
        line = credentials.masked_urls(json.dumps(body)) + "\n"
        with self._lock:
            self._journal.write(line.encode())
            os.fsync(self._journal.fileno())

    def events(self) -> Iterator[dict[str, Any]]:
        """The journal so far, without lines that a crash tore."""
        for line in (self.directory / "journal.jsonl").read_bytes().split(b"\n"):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event

    def result(self) -> dict[str, Any] | None:
        """verdict.json of a run that needs no going on; None where it broke, or failed for the machine's sake."""
        try:
            body: dict[str, Any] = json.loads((self.directory / "verdict.json").read_bytes())
        except FileNotFoundError:
            return None
        return body if body["status"] != Status.INFRASTRUCTURE.name else None

    def gate(self) -> Gate | None:
        """How the Test episode ended, if it did: the frozen test, or a Base gate that failed for good."""
        folder = self.directory / (self._episode or "test") / "bundle"
        if folder.is_dir():
            bundle = FrozenBundle.load(folder)
            self.freeze(bundle)
            return Gate(bundle)
        mine = [event for event in self.events() if event.get("episode") == self._episode]
        ended = [event for event in mine if event["event"] == "test.ended"]
        if ended and ended[-1]["gate"]["status"] == "UNQUALIFIED":
            return Gate(None, ended[-1]["gate"]["submissions"])
        return None

    def checks(self) -> dict[str, Verdict]:
        """Verdicts of this run by SHA-256 of the patch; inconclusive ones are left out, they are worth a new run."""
        known = {}
        for path in sorted((self.directory / "repair" / "checks").glob("*.json")):
            body = json.loads(path.read_bytes())
            verdict = records.verdict(body["verdict"])
            if verdict.decision != "INCONCLUSIVE":
                known[body["patch"]] = verdict
        return known

    def close(self) -> None:
        self._journal.close()

    def drop_unused(self) -> None:
        """Remove what a run made that broke before there was anything to resume, and nothing else."""
        if (self.directory / "manifest.json").exists():
            return
        for name in self._made:
            path = self.directory / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        folders.drop_empty(self._folders)

    def freeze(self, bundle: FrozenBundle | None) -> None:
        """Keep the frozen test. A crash between the two steps is made up for when the run is resumed (`gate`)."""
        if bundle is None:
            return
        folder = self.path(self._episode or "test", "bundle")
        if not folder.exists():
            bundle.save(folder)
        if not (self.directory / self._top("test.patch")).exists():
            self.write(self._top("test.patch"), bundle.blob(bundle.record.test_patch))

    def _top(self, name: str) -> str:
        return f"{self._episode}/{name}" if self._episode else name


def digest(patch: bytes) -> str:
    """How a patch is named in journals and checks: SHA-256, hex."""
    return hashlib.sha256(patch).hexdigest()
