"""Small data sets of real checkouts, with a recording for each instance."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ..conftest import NODE, SAMPLE, TEST_FILE, Cli, Ran, call, diff, recording

RIGHT = "sed -i 's/(merged\\[-1\\]\\[0\\], end)/(merged[-1][0], max(merged[-1][1], end))/' spans/merge.py"
WRONG = "sed -i 's/in sorted(spans):/in sorted(set(spans)):/' spans/merge.py"
CONTRACT = {
    "entrypoint": "spans.merge",
    "trigger": "a contained span",
    "expected_output": "the containing span",
    "issue_evidence": ["When one span lies inside another"],
    "alternative_hypotheses": ["none"],
    "non_assertions": ["none"],
    "test_nodes": [NODE],
}
WRITE_TEST = call("test", "bash", command=f"cat > tests/test_contained.py <<'EOF'\n{TEST_FILE.decode()}EOF\n")
GOOD_TEST = (WRITE_TEST, call("test", "submit_test", nodes=[NODE], contract=CONTRACT))
DONE = call("repair", "submit", reason="done")


def bash(command: str) -> dict[str, Any]:
    return call("repair", "bash", command=command)


Replies = Mapping[str, Sequence[Mapping[str, Any]]]


class Study:
    """A data set and the command that runs it."""

    def __init__(self, cli: Cli, folder: Path, template: Path, engine: str) -> None:
        self.cli, self.folder, self.template = cli, folder, template
        self.out = folder / "out"
        self.arguments: list[object] = [
            *("swebench", "run", "--dataset", folder / "set.jsonl", "--model", "replay:replies/{instance}.jsonl"),
            *("--sandbox", engine, "--set", "environment.check=false", "--set", "qualify.repeats=1"),
            *("--set", "verify.repeats=1", "--set", "verify.guard=off", "--set", "qualify.guard=off"),
        ]

    def write(self, replies: Replies) -> None:
        """Make one checkout, one row and one recording for each."""
        (self.folder / "replies").mkdir(exist_ok=True)
        rows = []
        for name, recorded in replies.items():
            repo = self.folder / "repos" / name
            if not repo.exists():
                shutil.copytree(self.template, repo)
            recording(self.folder / "replies" / f"{name}.jsonl", *recorded)
            test = diff(repo, {"tests/test_contained.py": TEST_FILE}).decode()
            issue = (SAMPLE / "issue.md").read_text()
            rows.append(
                {"instance_id": name, "repo": "o/spans", "path": str(repo), "problem_statement": issue}
                | {"patch": "", "test_patch": test, "FAIL_TO_PASS": [NODE]}
            )
        (self.folder / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(self, *more: object, **kw: Any) -> Ran:
        return self.cli(*self.arguments, "--out", self.out, "--json", *more, **kw)

    def lines(self) -> list[dict[str, Any]]:
        """The journal."""
        return [json.loads(line) for line in (self.out / "journal.jsonl").read_text().splitlines() if line]

    def ends(self) -> list[tuple[str, str]]:
        return [(line["instance"], line["ending"]) for line in self.lines() if line["event"] == "ended"]

    def predictions(self) -> dict[str, str]:
        rows = json.loads((self.out / "preds.json").read_bytes())
        lines = [json.loads(line) for line in (self.out / "preds.jsonl").read_text().splitlines()]
        assert lines == list(rows.values())
        return {name: row["model_patch"] for name, row in rows.items()}


Studies = Callable[[Replies], Study]


@pytest.fixture
def study(cli: Cli, tmp_path: Path, template: Path, engine: str) -> Studies:
    def make(replies: Replies) -> Study:
        made = Study(cli, tmp_path, template, engine)
        made.write(replies)
        return made

    return make
