"""A run directory made by hand: a frozen test with real hashes, two checks, both trajectories."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.bundle import BundleRecord, FrozenBundle, blob_of

VOID = {"meta", "col", "input", "br"}
Make = Callable[..., Path]


class Page(HTMLParser):
    """A page taken apart. Raises AssertionError where it is not well-formed."""

    def __init__(self, data: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.source = data.decode("utf-8")
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.own: dict[str, str] = {"style": "", "script": ""}
        self.text = ""
        self._open: list[str] = []
        self.feed(self.source)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in self.own:
            self.own[self._open[-1]] += data
        else:
            self.text += data

    def values(self, name: str) -> list[str]:
        return [value or "" for _, attributes in self.tags for key, value in attributes.items() if key == name]


def patch(path: str, old: str, new: str) -> bytes:
    return (
        f"diff --git a/{path} b/{path}\nindex 1111111..2222222 100644\n--- a/{path}\n+++ b/{path}\n"
        f"@@ -1,3 +1,3 @@\n def f(x):\n-    return {old}\n+    return {new}\n \n"
    ).encode()


def frozen(said: str) -> FrozenBundle:
    """A frozen test whose every free text is `said`."""
    test = b"def test_f():\n    assert f(1) == 2\n"
    diff = b"diff --git a/tests/test_f.py b/tests/test_f.py\nnew file mode 100644\nindex 0000000..2222222\n"
    diff += b"--- /dev/null\n+++ b/tests/test_f.py\n@@ -0,0 +1,2 @@\n" + b"".join(
        b"+" + x + b"\n" for x in test.split(b"\n")[:2]
    )
    node = {"kind": "reproducing", "tier": "assertion", "base_outcome": "FAILED_ASSERT", "signature": "FAILED_ASSERT:x"}
    run = {"run": said, "status": "VALID", "detail": said, "hash_seed": "0+0", "timezone": "UTC", "order": "given"}
    record = BundleRecord(
        harness="0.1.0",
        created="2026-01-01T00:00:00+00:00",
        base_tree="ab" * 20,
        base_commit="cd" * 20,
        delta=None,
        environment_files={},
        issue_sha256="00" * 32,
        author="agent",
        runner="pytest",
        runner_options={},
        files={f"tests/{said}.py": blob_of(test)},
        readonly=[],
        nodes={f"tests/test_f.py::{said}": {**node, "message": said}},  # type: ignore[dict-item]
        superseded=[{"node": said, "reason": said, "issue_quote": said}],
        contract={"trigger": said, "entrypoint": "f", "expected_output": said, "issue_evidence": [said, "elsewhere"]},
        environment={"sandbox": "bubblewrap", "python": said, "version": "3.11"},
        guard={},
        evidence=[{**run, "seconds": 1.5, "collected": 1, "passed": 0, "nodes": {said: "FAILED_ASSERT:x"}}],
        findings=[{"code": "TEST_EDITED", "detail": said, "path": said, "line": 3}],
        test_patch=blob_of(diff),
    )
    return FrozenBundle(record, {hashlib.sha256(data).hexdigest(): data for data in (test, diff)})


def verdict(decision: str, said: str) -> dict[str, Any]:
    outcome = "PASSED" if decision == "PASS" else "FAILED_ASSERT"
    guard = {"mode": "auto", "nodes": 2, "passed": 1, "newly_failing": [said], "flaky": [said], "not_run": 0}
    return {
        "decision": decision,
        "reason": decision,
        "detail": said,
        "nodes": {f"tests/test_f.py::{said}": outcome},
        "guard": {**guard, "seconds": 0.5},
        "findings": [{"code": "SET_ASIDE", "detail": said, "path": said, "line": None}],
        "feedback": said,
        "runs": [{"status": "VALID", "detail": said, "seconds": "0.5"}],
        "seconds": 1.0,
        "signature": "",
    }


def turns(role: str, count: int, said: str) -> list[dict[str, Any]]:
    """A trajectory's events."""
    out: list[dict[str, Any]] = [{"event": "start", "role_name": role, "turn": 0, "model": said}]
    out.append({"event": "message", "turn": 0, "message": {"role": "system", "content": said}})
    for n in range(1, count + 1):
        call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": said})}}
        message = {"role": "assistant", "content": f"turn {n} {said}", "tool_calls": [call]}
        usage = {"input_tokens": 1000, "cached_tokens": 10, "output_tokens": 20, "cost": 0.01}
        out.append({"event": "reply", "turn": n, "message": message, "usage": usage, "seconds": 1.0})
        action = {"exit_code": n % 2, "timed_out": False, "seconds": 0.1, "bytes": 9, "left_behind": 0, "spooled": None}
        out.append({"event": "message", "turn": n, "message": {"role": "tool", "content": said}, "action": action})
    return [*out, {"event": "stop", "turn": count, "kind": "check", "reason": said}]


def lines(events: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps({"time": 1.5 * n, **event}).encode() + b"\n" for n, event in enumerate(events))


def write(folder: Path, said: str, count: int = 3) -> Path:
    """A run that says `said` wherever a stranger may say something."""
    wrong, right = patch("src/f.py", "x", "x * 1"), patch("src/f.py", "x", "x + 1")
    clean = said.replace("\ud800", "")  # which a bundle cannot hold
    bundle = frozen(clean)
    bundle.save(folder / "test" / "bundle")
    test = bundle.blob(bundle.record.test_patch)
    judged = {
        "status": "QUALIFIED",
        "code": "QUALIFIED",
        "detail": said,
        "next_action": said,
        "nodes": {said: "PASSED"},
    }
    journal: list[dict[str, Any]] = [
        {"event": "run.started", "command": "resolve"},
        {"event": "test.submitted", "number": 1, "nodes": [said]},
        {"event": "test.rejected", "number": 1, "detail": said},
        {"event": "test.qualification", "number": 1, "qualification": {**judged, "findings": []}},
        {"event": "test.ended", "gate": {"bundle": bundle.id}},
        {"event": "round.started", "round": 0, "turns": 9},
        *({"event": "check", "number": n, "verdict": verdict(d, said)} for n, d in ((1, "FAIL"), (2, "PASS"))),
        {"event": "dispute", "node": said, "quote": said, "reason": said, "answer": said},
        {"event": "patch.refused", "detail": said},
        {"event": "run.broken", "error": said},
        {"event": "run.ended", "status": "RESOLVED"},
    ]
    result = {"status": "RESOLVED", "exit_code": 0, "verdict": "PASS", "reason": "PASS", "detail": said, "turns": 6}
    result |= {"tokens": {"input": 6000, "cached": 0, "output": 120}, "cost": 0.06, "seconds": 9.5, "rounds": 1}
    result |= {"checks": 2, "test": {"status": "QUALIFIED", "code": "QUALIFIED", "submissions": 1}, "error": said}
    result |= {"refused": said, "stopped": None, "fix_patch": "f", "test_patch": None, "bundle": None, "run": said}
    asked = {"command": "resolve", "repo": said, "models": {"test": said, "repair": said}, "bundle": None}
    files = {
        "manifest.json": {"schema": 1, "request": asked, "base": {"tree": "ab" * 20, "commit": "cd" * 20}},
        "verdict.json": {
            **result,
            "selection": {"test": None, "patch": said, "abstained": None, "scores": {}, "reasons": [said]},
        },
        "repair/checks/1.json": {"number": 1, "patch": "00", "verdict": verdict("FAIL", said)},
        "repair/checks/2.json": {"patch": hashlib.sha256(right).hexdigest(), "verdict": verdict("PASS", said)},
        "repair/checks/1.patch": wrong,
        "repair/checks/2.patch": right,
        "test/submissions/1.patch": test,
        "test.patch": test,
        "fix.patch": right,
        "issue.md": f"f is wrong\n\n{clean} is what f(1) gives. {said}\n".encode("utf-8", "surrogatepass"),
        "journal.jsonl": lines(journal),
        "test/trajectory.jsonl": lines(turns("test", count, said)),
        "repair/trajectory.jsonl": lines(turns("repair", count, said)),
    }
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body if isinstance(body, bytes) else json.dumps(body).encode())
    return folder


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a run: what is said in it, and how many turns each trajectory has."""

    def written(said: str = "the sum", count: int = 3, name: str = "run") -> Path:
        return write(tmp_path / name, said, count)

    return written


@pytest.fixture
def taken_apart() -> type[Page]:
    return Page
