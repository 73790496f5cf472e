"""The store: bytes in, the same bytes out, and `apply(diff(tree)) == tree` for any two trees."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from execcritic_scaffold.disk import Disk
from execcritic_scaffold.errors import InfrastructureError, PatchError, UsageError
from execcritic_scaffold.files import EXECUTABLE, GITLINK, REGULAR, SYMLINK, Entry, File
from execcritic_scaffold.store import EMPTY_TREE, Store, blob_id

Tree = dict[str, File]

NAMES = st.one_of(
    st.sampled_from(
        ["a", "b", "two words.py", 'q"uote', "tab\tname", "line\nname", "näive.py", "a b", "b.py ", "\\", "-"]
    ),
    st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=6),
    st.binary(min_size=1, max_size=6).map(lambda raw: os.fsdecode(raw.replace(b"/", b"_").replace(b"\0", b"_"))),
).filter(lambda name: name not in (".", "..") and not name.lower().startswith((".git", "git~")))
LINES = st.sampled_from(
    [b"x\n", b"y\n", b"z\r\n", b"\n", b"\x0c\n", b"caf\xe9\n", b"p\rq\n", "\u2028\x85\n".encode(), b" \n"]
)
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.lists(LINES, max_size=30).map(b"".join),
    st.lists(LINES, max_size=30).map(lambda lines: b"".join(lines).rstrip(b"\n")),
)
FILES = st.one_of(
    st.builds(File, CONTENTS, st.sampled_from([REGULAR, EXECUTABLE])),
    st.builds(File, st.binary(min_size=1, max_size=20).map(lambda raw: raw.replace(b"\0", b"_")), st.just(SYMLINK)),
)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Any tree that a disk can hold: no path lies below a file."""
    paths = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
    tree: Tree = {}
    for path, file in draw(st.dictionaries(paths, FILES, max_size=6)).items():
        below = any(other.startswith(path + "/") or path.startswith(other + "/") for other in tree)
        if not below:
            tree[path] = file
    return tree


@st.composite
def edited(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """A tree, and another that keeps some of it, changes some and renames some."""
    old = draw(trees())
    new = draw(trees())
    for path, file in old.items():
        what = draw(st.sampled_from(["keep", "change", "mode", "rename", "drop"]))
        moved = path + "2" if what == "rename" else path
        if what != "drop" and not any((moved + "/").startswith(p + "/") or p.startswith(moved + "/") for p in new):
            data = draw(CONTENTS) + file.data if what == "change" and file.mode != SYMLINK else file.data
            mode = EXECUTABLE if what == "mode" and file.mode == REGULAR else file.mode
            new[moved] = File(data, mode)
    return old, new


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("shared") / "store")


def put(store: Store, tree: Tree) -> str:
    oids = store.write_blobs(file.data for file in tree.values())
    return store.write_tree({p: Entry(f.mode, oid) for (p, f), oid in zip(tree.items(), oids, strict=True)})


quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(edited())
def test_apply_undoes_diff(shared: Store, pair: tuple[Tree, Tree]) -> None:
    old, new = put(shared, pair[0]), put(shared, pair[1])
    patch = shared.diff(old, new)
    assert (patch == b"") == (old == new)
    assert shared.apply(old, patch) == new
    assert shared.edit(old, shared.changes(old, new)) == new


@quick
@given(tree=trees())
def test_what_is_written_is_what_lies_on_disk(
    shared: Store, tmp_path_factory: pytest.TempPathFactory, tree: Tree
) -> None:
    folder = tmp_path_factory.mktemp("out")
    shared.materialise(put(shared, tree), folder)
    disk = Disk(folder)
    assert {path: disk.file(path) for path in walk(folder)} == tree


def walk(folder: Path) -> Iterator[str]:
    for above, folders, names in os.walk(folder):
        links = [name for name in folders if Path(above, name).is_symlink()]
        for name in names + links:
            yield os.path.relpath(f"{above}/{name}", folder)


def test_blobs_are_gits_and_written_once(store: Store) -> None:
    assert store.write_blob(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391" == blob_id(b"")
    many = [b"%d\n" % n for n in range(300)] + [b"0\n"]
    oids = store.write_blobs(many)
    assert list(store.read_blobs(oids).values()) == many[:-1]
    assert oids[0] == oids[-1]
    before = sorted(store.directory.rglob("*"))
    assert store.write_blobs(many) == oids
    assert sorted(store.directory.rglob("*")) == before


def test_empty_tree(store: Store) -> None:
    assert store.write_tree({}) == EMPTY_TREE
    assert store.read_tree(EMPTY_TREE) == {}


def test_unknown_objects_are_an_infrastructure_error(store: Store) -> None:
    with pytest.raises(InfrastructureError, match="has no object 1111"):
        store.read_blob("1" * 40)
    with pytest.raises(InfrastructureError, match="run again"):
        store.write_tree({"a": Entry(REGULAR, "1" * 40)})
    with pytest.raises(InfrastructureError, match="run again"):
        store.diff(EMPTY_TREE, "2" * 40)


def test_a_store_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="name a folder"):
        Store(tmp_path / "file" / "store")


def test_what_a_killed_writer_left_is_no_obstacle(store: Store, tmp_path: Path) -> None:
    datas = [b"%d" % number for number in range(150)]
    store.write_blobs(datas)
    packs = [path for path in (store.directory / "objects" / "pack").iterdir() if path.suffix == ".pack"]
    other = Store(tmp_path / "other")
    (other.directory / "objects" / "pack" / packs[0].with_suffix(".keep").name).touch()
    assert other.write_blobs(datas) == store.write_blobs(datas)


def test_processes_may_share_a_new_store(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from execcritic_scaffold.store import Store\n"
        "print(*Store(Path(sys.argv[1])).write_blobs(b'%d' % n for n in range(150)))\n"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "store")]
    running = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(3)]
    answers = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(answers) == 1
    assert len(Store(tmp_path / "store").read_blobs(answers.pop().decode().split())) == 150
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize(
    "path", ["../x", "/x", ".git/config", "a/.GIT/x", "", "a//b", "a/./b", "x/", "a/../../x", ".git"]
)
def test_paths_outside_are_refused(store: Store, path: str) -> None:
    with pytest.raises(PatchError, match="only paths inside"):
        store.edit(EMPTY_TREE, {path: File(b"x")})


def test_edit_replaces_folders_by_files_and_back(store: Store) -> None:
    tree = put(store, {"a": File(b"1"), "b/c": File(b"2")})
    swapped = store.edit(tree, {"a/x": File(b"3"), "b": File(b"4"), "gone": None})
    assert store.read_tree(swapped).keys() == {"a/x", "b"}
    assert store.edit(tree, {}) == tree


def test_submodules_and_links_are_visible_in_changes(store: Store) -> None:
    tree = put(store, {"a": File(b"1")})
    commit = "1" * 40
    changes = {"sub": File(commit.encode(), GITLINK), "a": File(b"/etc/passwd", SYMLINK)}
    changed = store.edit(tree, changes)
    assert store.changes(tree, changed) == changes
    assert store.changes(tree, store.apply(tree, store.diff(tree, changed))) == changes


def test_materialise_keeps_out_of_used_folders(store: Store, tmp_path: Path) -> None:
    tree = put(store, {"run": File(b"#!/bin/sh\n", EXECUTABLE), "plain": File(b"")})
    store.materialise(tree, tmp_path / "new" / "folder")
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "new" / "folder").iterdir()}
    assert modes == {"run": 0o755, "plain": 0o644}
    with pytest.raises(UsageError, match="not empty"):
        store.materialise(tree, tmp_path / "new")


def test_materialise_ignores_attributes(store: Store, tmp_path: Path) -> None:
    tree = {
        ".gitattributes": File(b"* text eol=crlf ident working-tree-encoding=UTF-16\n*.x filter=lfs -diff\n"),
        "a.x": File(b"one\n$Id$\n"),
    }
    oid = put(store, tree)
    store.materialise(oid, tmp_path / "out")
    assert (tmp_path / "out" / "a.x").read_bytes() == b"one\n$Id$\n"
    patch = store.diff(oid, store.edit(oid, {"a.x": File(b"two\n$Id$\n")}))
    assert b"-one\n+two\n" in patch


def test_the_callers_git_variables_do_not_reach_git(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE", "GIT_EXEC_PATH"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    tree = put(store, {"a": File(b"1\n")})
    assert b"+1\n" in store.diff(EMPTY_TREE, tree)
