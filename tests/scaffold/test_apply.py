"""Applying a patch: whole or not at all, and the answer names the first bad line."""

from __future__ import annotations

import pytest

from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.files import EXECUTABLE, SYMLINK, File
from execcritic_scaffold.store import EMPTY_TREE, Store

SPAN = b"""def clamp(value, low, high):
    \"\"\"Limit value to the closed range [low, high].\"\"\"
    if value > high:
        return high
    return value
"""
FIXED = SPAN.replace(b"    return value\n", b"    if value < low:\n        return low\n    return value\n")


@pytest.fixture
def base(store: Store) -> str:
    blanks = b"A = 1\n\n\n\nB = 2\n\n\n\n"
    files = {"gauge/span.py": File(SPAN), "gauge/__init__.py": File(b"from gauge.span import clamp\n")}
    return store.edit(EMPTY_TREE, files | {"gauge/tail.py": File(blanks)})


@pytest.fixture
def patch(store: Store, base: str) -> bytes:
    return store.diff(base, store.edit(base, {"gauge/span.py": File(FIXED)}))


def test_an_empty_patch_is_the_same_tree(store: Store, base: str) -> None:
    assert store.apply(base, b"") == store.apply(base, b"\n \n") == base


def test_a_patch_without_effect_is_the_same_tree(store: Store, base: str) -> None:
    same = b"--- a/gauge/span.py\n+++ b/gauge/span.py\n@@ -5 +5 @@\n-    return value\n+    return value\n"
    assert store.apply(base, same) == base


@pytest.mark.parametrize(
    "path", ["../f", "/tmp/f", ".git/config", "gauge/.GIT/config", "a/../../f", ".git", "gauge/../../../f"]
)
def test_paths_outside_are_refused(store: Store, base: str, path: str) -> None:
    new = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(PatchError, match="does not apply"):
        store.apply(base, new.encode())


def test_writing_through_a_link_of_the_same_patch_is_refused(store: Store, base: str) -> None:
    linked = store.diff(base, store.edit(base, {"out": File(b"/tmp", SYMLINK)}))
    through = b"diff --git a/out/f b/out/f\nnew file mode 100644\n--- /dev/null\n+++ b/out/f\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(PatchError, match="beyond a symbolic link"):
        store.apply(base, linked + through)


def test_a_wrong_context_line_is_named_and_nothing_is_applied(store: Store, base: str, patch: bytes) -> None:
    good = b"--- a/gauge/__init__.py\n+++ b/gauge/__init__.py\n@@ -1 +1,2 @@\n from gauge.span import clamp\n+x = 1\n"
    bad = patch.replace(b"     if value > high:", b"     if value >= high:").replace(b"index", b"xindex")
    with pytest.raises(PatchError, match=r"gauge/span\.py:2: line 12 of the patch expects '    if value >= high:'"):
        store.apply(base, good + bad)


def test_no_fuzz(store: Store, base: str, patch: bytes) -> None:
    with pytest.raises(PatchError, match=r"Base has '\(end of file\)'"):
        store.apply(base, patch.replace(b"@@ -2,4 +2,6 @@", b"@@ -2,5 +2,7 @@").replace(b"index", b"x") + b" more\n")


def test_never_reversed(store: Store, base: str, patch: bytes) -> None:
    with pytest.raises(PatchError, match="does not apply"):
        store.apply(store.apply(base, patch), patch)
    again = b"diff --git a/gauge/__init__.py b/gauge/__init__.py\nnew file mode 100644\n--- /dev/null\n" + (
        b"+++ b/gauge/__init__.py\n@@ -0,0 +1 @@\n+from gauge.span import clamp\n"
    )
    with pytest.raises(PatchError, match="already exists"):
        store.apply(base, again + patch)


def test_a_patch_cut_anywhere_is_refused_or_whole(store: Store, base: str) -> None:
    """Cut after any line, stripped or not: what is accepted is the whole change of the first so many files."""
    many = b"".join(b"%d\n" % n for n in range(40))
    with_many = store.edit(base, {"many": File(many), "run": File(b"")})
    changed = {
        "gauge/span.py": File(FIXED),
        "many": File(many.replace(b"\n3\n", b"\nthree\n").replace(b"\n33\n", b"\n")),
        "new": File(b"x"),
        "run": File(b"", EXECUTABLE),
    }
    patch = store.diff(with_many, store.edit(with_many, changed))
    lines = patch.splitlines(keepends=True)
    whole = [store.edit(with_many, dict(list(changed.items())[:n])) for n in range(5)]
    accepted = set()
    for cut in range(len(lines)):
        for text in {b"".join(lines[:cut]), b"".join(lines[:cut]).rstrip()}:
            try:
                accepted.add(store.apply(with_many, text))
            except PatchError:
                continue
    assert accepted == set(whole[:4])


def test_a_stripped_patch_is_refused(store: Store, base: str) -> None:
    tail = store.diff(base, store.edit(base, {"gauge/tail.py": File(b"A = 1\n\n\n\nB = 3\n\n\n\n")}))
    assert store.apply(base, tail) != base
    with pytest.raises(PatchError, match=r"Line \d+ of the patch is bad"):
        store.apply(base, tail.strip())
    with pytest.raises(PatchError, match=r"Line \d+ of the patch is bad"):
        store.apply(base, tail.strip() + b"\n")


def test_invented_index_lines_do_not_matter(store: Store, base: str, patch: bytes) -> None:
    head, _, rest = patch.partition(b"\nindex ")
    invented = head + b"\nindex 1234567..89abcde 100644\n" + rest.partition(b"\n")[2]
    assert store.apply(base, invented) == store.apply(base, patch)
    new = (
        b"diff --git a/n b/n\nnew file mode 100644\nindex 0000000..e69de29\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n"
    )
    assert store.read_tree(store.apply(base, new)).keys() >= {"n"}


def test_a_rename_of_anothers_patch_applies(store: Store, base: str) -> None:
    moved = b"diff --git a/gauge/tail.py b/two words.py\nsimilarity index 100%\n"
    moved += b"rename from gauge/tail.py\nrename to two words.py\n"
    tree = store.read_tree(store.apply(base, moved))
    assert tree["two words.py"] == store.read_tree(base)["gauge/tail.py"]
    assert "gauge/tail.py" not in tree


def test_fifty_megabytes(store: Store, base: str) -> None:
    text = b"".join(b"%060d\n" % n for n in range(820_000))
    big = store.edit(base, {"big.txt": File(text)})
    patch = store.diff(base, big)
    assert len(patch) > 50_000_000
    assert store.apply(base, patch) == big
    with pytest.raises(PatchError, match="Line 820006"):
        store.apply(base, patch[:-1])
