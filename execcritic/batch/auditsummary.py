"""What an audit has come to, from audit.jsonl: counts, sentences and the exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from execcritic.batch import statistics
from execcritic.batch.audit import balanced_accuracy
from execcritic.batch.auditing import Task, done, kind, latest
from execcritic.batch.tables import Rate, shown
from execcritic_scaffold.errors import InfrastructureError


@dataclass(frozen=True)
class Summary:
    """`lines` are those of the tasks, the newest of each; `tasks` the number that was asked for."""

    path: Path
    tasks: int
    lines: Sequence[Mapping[str, Any]]

    @property
    def exit_code(self) -> int:
        """0 where everything has an answer."""
        complete = self.tasks == sum(map(done, self.lines)) > 0
        return 0 if complete else InfrastructureError.exit_code

    @property
    def body(self) -> dict[str, Any]:
        """The `--json` form. `candidates` are pooled over all frozen tests."""
        frozen = [line for line in self.lines if line["kind"] == "bundle"]
        controls = [line for line in self.lines if line["kind"] == "control"]
        judged = [one for line in frozen for one in line.get("candidates", ())]
        sure = [(one["label"], one["passed"]) for one in judged if None not in (one["label"], one["passed"])]
        answers = [line["base_to_gold"] for line in frozen if line.get("base_to_gold") is not None]
        return {
            "audit": str(self.path),
            "bundles": len(frozen),
            "base_to_gold": sum(answers),
            "base_to_gold_known": len(answers),
            "candidates": len(judged),
            "candidates_labelled_and_conclusive": len(sure),
            "candidates_as_labelled": sum(label == passed for label, passed in sure),
            "wrongly_passed": sum(passed and not label for label, passed in sure),
            "wrongly_failed": sum(label and not passed for label, passed in sure),
            "balanced_accuracy": balanced_accuracy(sure),
            "operational": [f"{line['instance']}, {said}" for line in frozen for said in line.get("operational", ())],
            "errors": [f"{line['instance']}: {line['error']}" for line in self.lines if "error" in line],
            "gold_passes": sum(line.get("passes") is True for line in controls),
            "gold_fails": [line["instance"] for line in controls if line.get("passes") is False],
            "controls": len(controls),
            "exit_code": self.exit_code,
        }

    @property
    def text(self) -> str:
        """For a person."""
        body = self.body
        rate = Rate(body["base_to_gold"], body["bundles"], statistics.wilson(body["base_to_gold"], body["bundles"]))
        accuracy = "-" if body["balanced_accuracy"] is None else f"{body['balanced_accuracy']:.3f}"
        lines = [
            f"Base-to-Gold       {shown(rate)} % of frozen tests",
            f"candidates         {body['candidates_as_labelled']} of {body['candidates_labelled_and_conclusive']} as "
            f"labelled (wrongly passed {body['wrongly_passed']}, wrongly failed {body['wrongly_failed']})",
            f"balanced accuracy  {accuracy}",
            f"control            Gold passes the official test in {body['gold_passes']} of {body['controls']}",
            *(f"  {name}: Gold does not pass here" for name in body["gold_fails"]),
            *(f"  operational: {said}" for said in body["operational"]),
            *(f"  {said}" for said in body["errors"]),
            f"audit              {self.path}",
        ]
        if self.tasks == 0:
            lines.append("EMPTY: there is no frozen test in the folder.")
        elif self.exit_code:
            lines.append("INCOMPLETE: the same command again tries what has no answer.")
        return "\n".join(lines)


def summary(path: Path, tasks: Sequence[Task]) -> Summary:
    """The summary of these tasks; lines of others do not count."""
    known = latest(path)
    keys = [(kind(task), task.instance.id, task.key) for task in tasks]
    return Summary(path, len(tasks), [known[key] for key in keys if key in known])


def sentence(line: Mapping[str, Any]) -> str:
    """One line of audit.jsonl for a person."""
    name = line["instance"]
    if "error" in line:
        return f"{name}: {line['error']}"
    if line["kind"] == "control":
        return f"{name}: Gold under the official test: {line['decision']} {line['reason']}"
    told = {True: "fails on Base, passes on Gold", False: "rejects Gold", None: "no answer on Base or Gold"}
    extra = f"; kept apart: {'; '.join(line['operational'])}" if line.get("operational") else ""
    return f"{name}: the frozen test {told[line.get('base_to_gold')]}{extra}"
