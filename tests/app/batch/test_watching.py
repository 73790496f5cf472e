"""What is shown of a batch, and every count of its summary."""

from __future__ import annotations

from pathlib import Path

import pyte
import pytest

from execcritic.batch import watching
from execcritic.batch.assignment import Ending, Mode
from execcritic.batch.folder import Folder
from execcritic.batch.journal import State
from execcritic.batch.summary import summary

SO_FAR = {"runs": 3, "resolved": 1, "spent": 0.5, "endings": {"finished": 1, "infra-failed": 1}}
STARTED = {"instance": "a__a-1", "repeat": 1, "attempt": 2}
ENDED = {
    **STARTED,
    **SO_FAR,
    "ending": "infra-failed",
    "status": None,
    "reason": "No engine \x1b[31m answers.",
    "cost": None,
    "seconds": 3.2,
}


def test_a_line_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    with watching.Log() as log:
        log.show("batch.started", {**SO_FAR, "todo": 2, "out": "/b"})
        log.show("instance.started", STARTED)
        log.show("instance.ended", {**ENDED, "spent": None})
    assert capsys.readouterr().err.splitlines() == [
        "/b: 2 of 3 runs to do, 2 have ended before",
        "a__a-1#1  started, attempt 2",
        "a__a-1#1  infra-failed  3 s  [2/3, 1 resolved, cost unknown]  No engine \\x1b[31m answers.",
    ]


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    table = watching.Table()
    table.show("batch.started", {**SO_FAR, "todo": 2, "out": "/b"})
    for number in range(20):
        table.show("instance.started", {**STARTED, "instance": f"i-{number}"})
    table.show("instance.ended", {**ENDED, "instance": "i-0"})
    screen = pyte.Screen(100, 40)
    from rich.console import Console

    console = Console(force_terminal=True, width=100, legacy_windows=False)
    with console.capture() as shown:
        console.print(table._render())
    pyte.Stream(screen).feed(shown.get().replace("\n", "\r\n"))
    text = "\n".join(line.rstrip() for line in screen.display)
    assert "i-1#1" in text and "i-0#1" not in text
    assert "and 7 more" in text
    assert "2/3, 1 resolved, $0.50  finished 1  infra-failed 1  about 0:00:0" in text


def test_every_run_that_was_asked_for_counts_once(tmp_path: Path) -> None:
    """Finished, failed, never started; an empty patch; a run of an earlier start that is not asked for any more."""
    folder = Folder(tmp_path)
    for name, patch in (("a", b"diff"), ("b", b"")):
        folder.run(name, 0).mkdir(parents=True)
        (folder.run(name, 0) / "fix.patch").write_bytes(patch)
    states = {
        ("a", 0): State(1, ending=Ending.FINISHED, body={"status": "RESOLVED"}, costs=[1.0]),
        ("b", 0): State(1, ending=Ending.FINISHED, body={"status": "UNQUALIFIED"}, costs=[0.5]),
        ("c", 0): State(2, ending=Ending.INFRA_FAILED, reason="Why.", costs=[0.0]),
        ("z", 0): State(1, ending=Ending.FINISHED, body={"status": "RESOLVED"}, costs=[2.0]),
    }
    found = summary(folder, Mode.RESOLVE, [("a", 0), ("b", 0), ("c", 0), ("d", 0)], states, 1.0)
    assert sum(found.endings.values()) == found.runs == 4
    assert found.body["endings"] == {
        "finished": 2,
        "model-failed": 0,
        "infra-failed": 1,
        "interrupted": 0,
        "missing": 1,
    }
    assert (found.statuses, found.empty, found.cost) == ({"RESOLVED": 1, "UNQUALIFIED": 1}, 1, 3.5)
    assert found.exit_code == 5
    assert "INCOMPLETE" in found.text and "c (0) infra-failed: Why." in found.text
    whole = summary(folder, Mode.RESOLVE, [("a", 0), ("b", 0)], states, 1.0)
    assert (whole.exit_code, "INCOMPLETE" in whole.text, "More than half" in whole.text) == (0, False, False)
    assert "More than half" in summary(folder, Mode.RESOLVE, [("b", 0)], states, 1.0).text


def test_nothing_at_all_is_counted_too(tmp_path: Path) -> None:
    found = summary(Folder(tmp_path), Mode.RESOLVE, [], {}, 0.0)
    assert (found.runs, sum(found.endings.values()), found.cost) == (0, 0, 0)
    assert "0 runs of 0 instances" in found.text
