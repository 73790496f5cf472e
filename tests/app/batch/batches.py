"""Batch folders made by hand, in the form of `execcritic.batch.folder`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from execcritic.batch.folder import Folder


class Batch:
    """A batch folder that is being written."""

    def __init__(self, root: Path, ids: Sequence[str], mode: str = "resolve", repeats: int = 1, **more: Any) -> None:
        root.mkdir(parents=True)
        self.folder = Folder(root)
        body = {"schema": 1, "ids": list(ids), "mode": mode, "repeats": repeats, "models": {"repair": "openai:m"}}
        body["dataset"] = {"name": "data.jsonl", "split": "test", "digest": "0"}
        self.folder.manifest.write_text(json.dumps(body | more))

    def journal(self, event: str, instance: str, repeat: int = 0, **more: Any) -> None:
        line = {"time": 1.0, "event": event, "instance": instance, "repeat": repeat, "attempt": 1}
        line |= {"fresh": True} if event == "started" else {"cost": 0.5}
        line |= more
        with self.folder.journal.open("a") as out:
            out.write(json.dumps(line) + "\n")

    def ended(
        self,
        instance: str,
        repeat: int = 0,
        ending: str = "finished",
        patch: str = "diff",
        round0: str | None = None,
        **body: Any,
    ) -> None:
        """A run that was started and ended; `body` is laid over an ordinary verdict.json."""
        run = self.folder.run(instance, repeat)
        (run / "repair" / "checks").mkdir(parents=True)
        if patch:
            (run / "fix.patch").write_text(patch)
        if round0 is not None:
            (run / "repair" / "checks" / "1.patch").write_text(round0)
        verdict = {
            "status": "RESOLVED",
            "verdict": "PASS",
            "bundle_id": f"bundle-{instance}",
            "rounds": 1,
            "turns": 10,
            "tokens": {"input": 900, "cached": 0, "output": 100},
            "cost": 0.5,
            "seconds": 60.0,
        } | body
        self.journal("started", instance, repeat)
        reason = None if ending == "finished" else "It broke; start again."
        self.journal("ended", instance, repeat, ending=ending, reason=reason, body=verdict)

    def graded(self, grades: Mapping[str, str], part: str = "repeats", repeat: int = 0) -> None:
        """evaluation.json with these official words; each grade is what follows from the word alone."""
        path = self.folder.evaluation
        body = json.loads(path.read_text()) if path.exists() else {}
        given = {"resolved": "resolved", "unresolved": "unresolved", "empty": "unresolved"}
        entries = {
            name: {"official": word, "grade": given.get(word, "not graded"), "infra": None}
            for name, word in grades.items()
        }
        body.setdefault(part, {})[str(repeat)] = entries
        path.write_text(json.dumps(body))

    def audited(self, instance: str, base_to_gold: bool | None, **more: Any) -> None:
        line = {"kind": "bundle", "instance": instance, "bundle": f"bundle-{instance}", "base_to_gold": base_to_gold}
        self.line(line | more)

    def line(self, line: Mapping[str, Any]) -> None:
        with self.folder.audit.open("a") as out:
            out.write(json.dumps(line) + "\n")
