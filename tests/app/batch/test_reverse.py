"""Diffs turned round: what git makes of two trees, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from execcritic.batch.reverse import reverse
from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.files import EXECUTABLE, REGULAR, File
from execcritic_scaffold.store import EMPTY_TREE, Store

LINES = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"\n", b"--- c\n", b"+++ d\n", b"@@ -1 +1 @@\n", b"\xff\r\n"]), max_size=8
)
FILES = st.builds(
    lambda lines, end, mode: File(b"".join(lines) + end, mode),
    LINES,
    st.sampled_from([b"", b"no newline"]),
    st.sampled_from([REGULAR, EXECUTABLE]),
)
TREES = st.dictionaries(st.sampled_from(["a.py", "d/b c.py", "é.txt", "a/x b/y"]), FILES, max_size=3)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    yield Store(tmp_path_factory.mktemp("reverse") / "store")


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TREES, TREES)
def test_the_reverse_takes_a_diff_back(store: Store, old: dict[str, File], new: dict[str, File]) -> None:
    before, after = store.edit(EMPTY_TREE, old), store.edit(EMPTY_TREE, new)
    diff = store.diff(before, after)
    if b"GIT binary patch" in diff:
        return
    assert store.apply(after, reverse(diff)) == before
    assert reverse(reverse(diff)) == diff


@pytest.mark.parametrize(
    ("diff", "words"),
    [
        (b"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n", "shorter than its header"),
        (b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n", "shorter"),
        (b"--- a/x\n", "no [+][+][+] line"),
        (b"diff --git a/x b/x\nGIT binary patch\nliteral 0\n", "binary files"),
        (b"diff --git a/x b/y\nrename from x\nrename to y\n", "renames"),
    ],
)
def test_what_is_not_turned_round(diff: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(PatchError, match=words):
        reverse(diff)
