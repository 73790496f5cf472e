"""Reading a patch: lines and names as bytes, and damage that git would let pass."""

from __future__ import annotations

import pytest

from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.files import File
from execcritic_scaffold.patch import parse
from execcritic_scaffold.store import EMPTY_TREE, Store

SIMPLE = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"


def test_lines_are_split_at_line_feeds_only() -> None:
    odd = "x\x0cy\rz\u2028\x85\u00e4".encode() + b"\xe9"
    patch = parse(b"--- a/f\n+++ b/f\n@@ -3,2 +3,2 @@\n-%b\n c\r\n+new %b\r\n" % (odd, odd))
    assert patch.removed_lines("f") == [(3, odd)]
    assert patch.added_lines("f") == [(4, b"new " + odd + b"\r")]


def test_hunks_keep_their_place() -> None:
    patch = parse(SIMPLE + b"@@ -10 +10,2 @@ def g():\n x\n+y\n\\ No newline at end of file\n")
    assert [(hunk.source_start, hunk.target_length) for hunk in patch.hunks("f")] == [(1, 3), (10, 2)]
    assert patch.added_lines("f") == [(2, b"B"), (11, b"y")]
    assert patch.added_lines("other") == []


def test_empty() -> None:
    assert parse(b"").is_empty and parse(b" \n\n").is_empty
    assert not parse(SIMPLE).is_empty
    assert parse(b"").paths == ()


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "two words.py",
        "a b/b.py",
        'q"uote',
        "tab\there",
        "line\nend",
        "näive",
        "bad\udcff",
        "back\\slash",
        "a/b",
    ],
)
def test_names_are_read_as_git_writes_them(store: Store, name: str) -> None:
    tree = store.edit(EMPTY_TREE, {name: File(b"x\n"), "empty " + name: File(b"")})
    changed = store.edit(tree, {name: File(b"y\n"), "new " + name: File(b"")})
    bare = store.edit(changed, {name: File(b"y\n", "100755"), "empty " + name: None, "bin " + name: File(b"\0\1")})
    assert parse(store.diff(tree, changed)).paths == tuple(sorted([name, "new " + name]))
    assert set(parse(store.diff(changed, bare)).paths) == {name, "empty " + name, "bin " + name}
    assert parse(store.diff(tree, changed)).added_lines(name) == [(1, b"y")]


def test_renames_and_deletions_have_two_sides() -> None:
    moved = parse(
        b"diff --git a/old b/new name\nsimilarity index 100%\nrename from old\nrename to new name\n"
    ).sections[0]
    assert (moved.old, moved.new, moved.path) == ("old", "new name", "new name")
    gone = parse(b"diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n").sections[
        0
    ]
    assert (gone.old, gone.new, gone.path) == ("f", None, "f")


def test_mail_text_around_a_diff_is_passed_over() -> None:
    mail = b"From 1234 Mon Sep 17\nSubject: fix\n\n a list:\n- one\n+ two\n---\n f | 2 +-\n\n%b-- \n2.39.5\n\n" % SIMPLE
    assert parse(mail).paths == ("f",)
    assert parse(SIMPLE + b"\n\n" + SIMPLE.replace(b"f\n", b"g\n").replace(b"diff --git a/f b/g\n", b"")).paths == (
        "f",
        "g",
    )


def damage(old: bytes, new: bytes) -> bytes:
    assert old in SIMPLE
    return SIMPLE.replace(old, new)


@pytest.mark.parametrize(
    ("patch", "line"),
    [
        (damage(b" c\n", b" c"), 8),
        (damage(b" c\n", b""), 7),
        (damage(b" c\n", b"c\n"), 8),
        (damage(b" c\n", b" c\n+surplus\n"), 9),
        (damage(b" c\n", b" c\n surplus\n"), 9),
        (damage(b" c\n", b" c\n-surplus\n"), 9),
        (damage(b"-1,3 +1,3", b"-1,3 +1,2"), 8),
        (damage(b"-1,3 +1,3", b"-1,4 +1,4"), 8),
        (damage(b"@@ -1,3 +1,3 @@", b"@@ -1,3 @@"), 4),
        (damage(b"--- a/f\n+++ b/f\n", b""), 2),
        (damage(b"--- a/f\n+++ b/f\n", b"--- a/f\r\n+++ b/f\r\n"), 2),
        (SIMPLE + b"diff --git a/g b/g\n", 9),
        (SIMPLE + b"diff --git a/g b/g\nindex 1111111..2222222 100644\n", 9),
        (SIMPLE + b"diff --git a/g b/g\nindex 1111111..2222222 100644\n--- a/g\n", 9),
        (SIMPLE + b"diff --git a/g b/g\nindex 1111111..2222222 100644\n--- a/g\n+++ b/g\n", 9),
        (SIMPLE + b"diff --git a/g b/g\nold mode 100644\n", 9),
        (SIMPLE + b"diff --git a/g b/g\nold mode 100644\nnew mode 100755\nindex 1111111..2222222\n", 9),
        (SIMPLE + b"diff --git a/g b/g\nnew file mode 100644\nindex 0000000..2222222\n", 9),
        (SIMPLE + b"diff --git a/g b/g\nindex 1111111..2222222 100644\nBinary files a/g and b/g differ\n", 11),
        (SIMPLE + b"diff --git a/g b/h\nnew mode 100755\n", 9),
        (b"I have fixed it.\n", 1),
    ],
)
def test_the_first_bad_line_is_named(patch: bytes, line: int) -> None:
    with pytest.raises(PatchError, match=f"^Line {line} of the patch is bad: .+; make the patch with"):
        parse(patch)


def test_an_empty_file_of_a_patch_without_index_lines(store: Store) -> None:
    """As data sets keep patches; where another file has an index line, this one was cut."""
    base = store.edit(EMPTY_TREE, {"f": File(b"a\nb\nc\n")})
    empty = b"diff --git a/g b/g\nnew file mode 100644\n"
    for patch in (SIMPLE + empty, empty + SIMPLE):
        assert store.changes(base, store.apply(base, patch)) == {"f": File(b"a\nB\nc\n"), "g": File(b"")}
    with pytest.raises(PatchError, match="was cut"):
        parse(SIMPLE.replace(b"--- a/f", b"index 1111111..2222222 100644\n--- a/f") + empty)


def test_an_empty_file_whose_name_reads_as_two(store: Store) -> None:
    """Found by the property test: git cannot read its own header of such a section again."""
    for name in ("b.py /a", "a b/a", "x b/x b/x"):
        tree = store.edit(EMPTY_TREE, {name: File(b"")})
        assert store.apply(EMPTY_TREE, store.diff(EMPTY_TREE, tree)) == tree
        assert store.apply(tree, store.diff(tree, EMPTY_TREE)) == EMPTY_TREE
