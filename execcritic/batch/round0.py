"""Round 0 of a run that has ended, as the beginning of another: the same first patch under other conditions."""

from __future__ import annotations

import json
from pathlib import Path

from execcritic_scaffold.errors import UsageError


def replies(run: Path) -> bytes:
    """The lines of its trajectory that hold the replies of Round 0, and the refusals for length between them.

    Raises UsageError for a run whose Round 0 did not come to an end.
    """
    last = turns(run)
    kept = []
    with open(run / "repair" / "trajectory.jsonl", "rb") as lines:
        for line in lines:
            if b'"event":"reply"' not in line and b'"event":"overflow"' not in line:
                continue
            event = json.loads(line)
            if event["turn"] <= (last if event["event"] == "reply" else last - 1):
                kept.append(line)
    return b"".join(kept)


def turns(run: Path) -> int:
    """Replies of Round 0, of the newest attempt. Raises UsageError as `replies`."""
    found = None
    try:
        for line in (run / "journal.jsonl").read_bytes().split(b"\n"):
            try:
                event = json.loads(line)
            except ValueError:
                continue  # torn by a crash
            if event.get("event") == "repair.stopped" and event["round"] == 0 and event["stop"]["kind"] != "model":
                found = int(event["turns"])
    except OSError:
        pass
    if found is None:
        raise UsageError(f"{run} has no complete Round 0; finish that batch first, or leave --round0 out.")
    return found
