"""The journal: states, damage, and one writer at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from execcritic.batch import journal
from execcritic.batch.assignment import Ended, Ending
from execcritic.batch.journal import Journal
from execcritic_scaffold.errors import UsageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def write(path: Path, *names: str) -> None:
    book = Journal(path)
    for name in names:
        book.started((name, 0), 1, True)
        book.ended(Ended(name, 0, Ending.FINISHED, cost=0.5, body={"status": "RESOLVED"}), 1)
    book.close()


def test_states(path: Path) -> None:
    book = Journal(path)
    book.started(("a", 0), 1, True)
    book.ended(Ended("a", 0, Ending.INFRA_FAILED, "why", cost=0.25), 1)
    book.started(("a", 0), 2, False)
    book.ended(Ended("a", 0, Ending.FINISHED, cost=0.75, body={"status": "RESOLVED"}), 2)
    book.started(("a", 1), 1, True)
    book.close()
    states = journal.read(path).states
    first, second = states["a", 0], states["a", 1]
    assert (first.ending, first.attempts, first.open, first.costs) == (Ending.FINISHED, 2, False, [0.75])
    assert (second.ending, second.attempts, second.open) == (None, 1, True)
    assert journal.spent(states.values()) == 0.75


def test_a_run_directory_that_was_replaced_stays_paid(path: Path) -> None:
    book = Journal(path)
    for attempt, cost in ((1, 1.0), (2, 0.5)):
        book.started(("a", 0), attempt, True)
        book.ended(Ended("a", 0, Ending.FINISHED, cost=cost), attempt)
    book.started(("b", 0), 1, True)
    book.ended(Ended("b", 0, Ending.FINISHED, cost=None), 1)
    book.close()
    states = journal.read(path).states
    assert journal.spent([states["a", 0]]) == 1.5
    assert journal.spent(states.values()) is None


@pytest.mark.parametrize(
    "damage",
    [
        b'{"event": "ended", "inst',
        b"\0" * 4000,
        b"\xff\xfe{}",
        b"[" * 100_000,
        b"[]",
        b"null",
        b'{"event": "ended"}',
        b'{"event": "ended", "instance": 7, "repeat": 0, "attempt": 1, "ending": "finished", "cost": 0, "body": {}}',
        b'{"event": "ended", "instance": "b", "repeat": 0, "attempt": 1, "ending": "won", "cost": 0, "body": {}}',
        b'{"event": "ended", "instance": "b", "repeat": 0, "attempt": 1, "ending": "finished", "cost": 0, "body": 3}',
        b'{"event": "gone", "instance": "b", "repeat": 0, "attempt": 1}',
    ],
)
def test_a_damaged_line_costs_only_itself(path: Path, damage: bytes) -> None:
    write(path, "a")
    path.write_bytes(path.read_bytes() + damage)  # no line end: torn
    write(path, "c")
    found = journal.read(path)
    assert {name for name, _ in found.states} == {"a", "c"}
    assert found.damaged == (3,)


def test_the_last_line_may_be_torn_anywhere(path: Path) -> None:
    write(path, "a", "b")
    whole = path.read_bytes()
    for cut in range(len(whole) - 1, whole.rindex(b"\n", 0, -1) + 1, -1):
        path.write_bytes(whole[:cut])
        states = journal.read(path).states
        assert states["a", 0].ending is Ending.FINISHED
        assert states["b", 0].open or cut == len(whole) - 1


def test_a_second_process_is_refused(path: Path) -> None:
    book = Journal(path)
    code = f"from pathlib import Path; from execcritic.batch.journal import Journal; Journal(Path({str(path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "is in use by another process" in done.stderr
    book.close()
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    with pytest.raises(UsageError, match="in use"):
        one = Journal(path)
        try:
            Journal(path)
        finally:
            one.close()


def test_no_credential_of_a_url_is_written(path: Path) -> None:
    book = Journal(path)
    book.ended(Ended("a", 0, Ending.INFRA_FAILED, "https://me:secret@host/v1 is unreachable"), 1)
    book.close()
    assert "secret" not in path.read_text()
    assert json.loads(path.read_text())["reason"] == "https://***@host/v1 is unreachable"
