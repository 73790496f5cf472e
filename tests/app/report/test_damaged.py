"""Runs that are half-written, damaged, of another version, or hostile: the report still renders, and says it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from execcritic.report import page
from execcritic.report.reading import Folder
from execcritic_scaffold.errors import UsageError

JSON = ("manifest.json", "verdict.json", "repair/checks/2.json", "test/bundle/bundle.json")
LINES = ("journal.jsonl", "test/trajectory.jsonl", "repair/trajectory.jsonl")
PATCHES = ("fix.patch", "test.patch", "repair/checks/1.patch", "test/submissions/1.patch")


@pytest.mark.parametrize("name", [*JSON, *LINES, *PATCHES, "issue.md", "test/bundle/test.patch"])
def test_a_missing_file(make: Any, taken_apart: Any, name: str) -> None:
    folder = make()
    (folder / name).chmod(0o600)
    (folder / name).parent.chmod(0o700)
    (folder / name).unlink()
    text = taken_apart(page.make(folder)).text
    assert {
        "manifest.json": "manifest.json is missing",
        "verdict.json": "the run has not ended",
        "repair/checks/2.json": "The newest patch has no verdict",
        "test/bundle/bundle.json": "No test is frozen",
        "journal.jsonl": "The journal is missing or empty",
        "fix.patch": "There is no patch",
        "repair/checks/1.patch": "repair/checks/1.patch is missing",
        "test/submissions/1.patch": "test/submissions/1.patch is missing",
        "issue.md": "issue.md is missing",
        "test/bundle/test.patch": "do not hold",
    }.get(name, "Certificate") in text


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null", b'{"a": ' + b"9" * 5000 + b"}"])
def test_json_that_is_none(make: Any, taken_apart: Any, name: str, body: bytes) -> None:
    folder = make()
    (folder / name).chmod(0o600)
    (folder / name).write_bytes(body)
    assert f"{name} is not a whole JSON object" in taken_apart(page.make(folder)).text


@pytest.mark.parametrize("wrong", [None, 1e400, "text", ["x"], {"a": {}}])
def test_values_of_any_other_kind(make: Any, taken_apart: Any, wrong: Any) -> None:
    """Each value in turn is replaced, at every depth, and the page still comes."""
    folder = make(count=1)
    (folder / "test/bundle/bundle.json").chmod(0o600)
    for name in (*JSON, *LINES):
        path = folder / name
        whole = path.read_bytes()
        bodies = [json.loads(line) for line in whole.splitlines()] if name in LINES else [json.loads(whole)]
        changed = [_replaced(body, depth, wrong) for depth in range(1, 5) for body in bodies]
        if name in LINES:
            path.write_bytes(b"".join(json.dumps(body).encode() + b"\n" for body in changed))
            taken_apart(page.make(folder))
        else:
            for body in changed:
                path.write_text(json.dumps(body))
                taken_apart(page.make(folder))
        path.write_bytes(whole)


def _replaced(body: Any, depth: int, wrong: Any) -> Any:
    if depth == 0:
        return wrong
    if isinstance(body, dict):
        return {
            key: value if key in ("event", "role") else _replaced(value, depth - 1, wrong)
            for key, value in body.items()
        }
    return [_replaced(value, depth - 1, wrong) for value in body] if isinstance(body, list) else body


def test_a_torn_line_is_counted_and_the_rest_is_shown(make: Any, taken_apart: Any) -> None:
    folder = make()
    with open(folder / "repair/trajectory.jsonl", "ab") as file:
        file.write(b'{"event": "reply", "mess')
    text = taken_apart(page.make(folder)).text
    assert "repair/trajectory.jsonl has 1 line(s) that cannot be read" in text and "turn 3" in text


def test_a_newer_version_is_told(make: Any, taken_apart: Any) -> None:
    folder = make()
    (folder / "manifest.json").write_text('{"schema": 99}')
    assert "written by a newer version" in taken_apart(page.make(folder)).text


def test_a_changed_bundle_is_told(make: Any, taken_apart: Any) -> None:
    folder = make()
    (blob, *_) = (folder / "test/bundle/files").iterdir()
    blob.chmod(0o600)
    blob.write_bytes(b"other")
    text = taken_apart(page.make(folder)).text
    assert "was changed; do not trust this bundle" in text and "execcritic verify" not in text


def test_huge_files_are_not_read_whole(make: Any, taken_apart: Any) -> None:
    folder = make()
    for name in ("issue.md", "fix.patch", "verdict.json", "repair/checks/1.patch"):
        os.truncate(folder / name, 1 << 32)
    text = taken_apart(page.make(folder)).text
    assert "Of fix.patch, which has 4294967296 bytes, only the first 1048576 were read." in text


def test_long_lines_are_passed_over_in_bounded_memory(tmp_path: Path) -> None:
    with open(tmp_path / "x.jsonl", "wb") as file:
        file.truncate(9 << 20)
        file.seek(0, 2)
        file.write(b'\n{"event": "last"}\n')
    folder = Folder(tmp_path)
    assert list(folder.lines("x.jsonl")) == [(2, {"event": "last"})]
    assert folder.notes == ["x.jsonl has 1 line(s) that cannot be read: torn, no JSON object, or too long."]


@pytest.mark.parametrize("where", ["fix.patch", "issue.md", "repair"])
def test_links_out_of_the_run_are_not_followed(make: Any, tmp_path: Path, where: str) -> None:
    folder, outside = make(), tmp_path / "outside"
    outside.mkdir()
    (outside / "trajectory.jsonl").write_text('{"event": "reply", "message": {"content": "secret words"}}\n')
    (folder / where).rename(folder / "old")
    (folder / where).symlink_to(outside if where == "repair" else outside / "trajectory.jsonl")
    assert b"secret words" not in page.make(folder)


def test_a_pipe_is_not_waited_for(make: Any, taken_apart: Any) -> None:
    folder = make()
    (folder / "journal.jsonl").unlink()
    os.mkfifo(folder / "journal.jsonl")
    assert "journal.jsonl is no regular file" in taken_apart(page.make(folder)).text


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no run"):
        page.make(tmp_path)
