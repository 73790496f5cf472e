"""The parts of a report by themselves: diffs, colours, quotes, turns."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from execcritic.report import colours, diffs, quotes, turns
from execcritic.report.reading import Folder
from execcritic.report.shown import cut

LINE = st.text(alphabet=st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), max_size=30)


def diff(*body: str, path: str = "a.py") -> diffs.Diff:
    old = sum(not line.startswith("+") for line in body)
    new = sum(not line.startswith("-") for line in body)
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{old} +1,{new} @@\n"
    found = diffs.read((head + "".join(line + "\n" for line in body)).encode(), "x.patch")
    assert found is not None
    return found


def kinds(found: diffs.Diff) -> list[tuple[str, int | None, int | None]]:
    return [(row.kind, row.old, row.new) for _, rows in found.files[0].hunks for row in rows]


def test_an_old_line_stands_beside_the_new_one_that_it_became() -> None:
    found = diff(" a", "-value = compute(x)", "-gone", "+new = 1", "+value = compute(x + 1)", " z")
    assert kinds(found) == [
        ("same", 1, 1),
        ("added", None, 2),
        ("changed", 2, 3),
        ("removed", 3, None),
        ("same", 4, 4),
    ]
    assert "<b>" in found.files[0].hunks[0][1][2].right


def test_a_long_change_is_paired_in_its_order() -> None:
    found = diff(*(f"-old {n}" for n in range(60)), *(f"+new {n}" for n in range(61)))
    assert kinds(found)[-2:] == [("changed", 60, 60), ("added", None, 61)]


def test_a_binary_patch_a_removal_and_a_new_name() -> None:
    data = (
        b"diff --git a/x.png b/x.png\nindex 1111111..2222222 100644\n"
        b"GIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 0\nHcmV?d00001\n\n"
        b"diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n"
    )
    found = diffs.read(data, "x.patch")
    assert found is not None
    assert [(f.path, f.was, f.what, f.hunks) for f in found.files] == [
        ("x.png", None, "changed, binary", []),
        ("new.py", "old.py", "changed", []),
    ]


def test_what_is_no_patch_is_shown_as_it_is() -> None:
    found = diffs.read(b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n-\xff\n", "x.patch")
    assert found is not None and found.files == [] and "\ufffd" in found.raw
    assert found.note.startswith("x.patch does not read as a patch")


def test_rows_beyond_the_limit_are_told() -> None:
    data = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,0 +1,50 @@\n" + b"+a\n" * 50
    found = diffs.read(data, "x.patch", 10)
    assert found is not None and len(found.files[0].hunks[0][1]) == 10 and "x.patch has all of it" in found.note


def test_bytes_that_are_no_text_and_hidden_signs_show() -> None:
    found = diff("-a\u202eb", "+a\x00b\r", path="x.txt").files[0].hunks[0][1]
    texts = [re.sub("<[^>]*>", "", side) for row in found for side in (row.left, row.right) if side]
    assert texts == ["a\\u202eb", "a\\x00b\\x0d"]


def test_what_changed_between_two_patches() -> None:
    head = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n"
    assert diffs.changes(head + b"-a\n+b\n+--- c\n", head + b"-a\n+d\n") == [
        ("gone", "+b"),
        ("gone", "+--- c"),
        ("come", "+d"),
    ]


@settings(max_examples=30, deadline=None)
@given(st.lists(LINE, min_size=1, max_size=5), st.sampled_from(["a.py", "a.json", "a.yml", "a.c", "a.toml", "a.x"]))
def test_colours_change_no_character(texts: list[str], path: str) -> None:
    found = colours.lines(path, texts)
    for text, line in zip(texts, found, strict=True):
        marked = colours.markup(line, [(1, 3), (5, 6)])
        assert html.unescape(re.sub(r"</?(?:b|span)(?: class=\"k-\w+\")?>", "", marked)) == text


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=80), st.data())
def test_any_piece_of_the_issue_is_found_and_nothing_is_lost(issue: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(issue)))
    quote = issue[start : data.draw(st.integers(start, len(issue)))]
    pieces = quotes.marked(issue, [quote, "nowhere at all, ever"])
    assert "".join(piece.text for piece in pieces) == issue
    inside = "".join(piece.text for piece in pieces if 1 in piece.quotes)
    assert inside.split() == quote.split()
    assert sum(1 in piece.begins for piece in pieces) == bool(quote.split())
    assert not any(2 in piece.quotes for piece in pieces)


def test_quotes_may_overlap_and_break_lines_elsewhere() -> None:
    pieces = quotes.marked("one two\n  three four", ["one two three", "two three\nfour"])
    assert [(p.text, p.quotes, p.begins) for p in pieces] == [
        ("one ", (1,), (1,)),
        ("two\n  three", (1, 2), (2,)),
        (" four", (2,), ()),
    ]


def test_a_cut_text_names_where_the_whole_is() -> None:
    assert (
        cut("a" * 90, 30, "f, line 2") == "a" * 20 + "\n[… 60 characters left out; whole in f, line 2 …]\n" + "a" * 10
    )
    assert cut("short", 30, "f") == "short"


def test_long_outputs_are_bounded_and_named_by_their_line(tmp_path: Path) -> None:
    (tmp_path / "repair").mkdir()
    reply = {"event": "reply", "turn": 1, "message": {"content": [{"type": "text", "text": "parts"}]}}
    result = {"event": "message", "turn": 1, "message": {"role": "tool", "content": "x" * 100_000}}
    (tmp_path / "repair/trajectory.jsonl").write_text(f"{json.dumps(reply)}\n{json.dumps(result)}\n")
    (found,) = turns.read(Folder(tmp_path))
    assert found.turns[0].says == "parts"
    text = found.turns[0].parts[0].text
    assert len(text) < turns.LONGEST + 100 and "whole in repair/trajectory.jsonl, line 2" in text


def test_episodes_come_in_their_order(tmp_path: Path) -> None:
    for name in ("repair-10", "repair-2", "test-1", "testing"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trajectory.jsonl").write_text('{"event": "reply", "turn": 1, "message": {}}\n')
    assert [found.name for found in turns.read(Folder(tmp_path))] == ["test-1", "repair-2", "repair-10"]
