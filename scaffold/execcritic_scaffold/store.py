"""Store: trees and blobs in a bare git directory of the harness's own, content-addressed, without history.

Everything goes through git plumbing (`plumbing.Git`), so nothing a repository says is executed and no byte is
converted: what is written is what is read back. Two processes may use one store at the same time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from execcritic_scaffold.errors import InfrastructureError, PatchError, UsageError
from execcritic_scaffold.files import GITLINK, Changes, Entry, File
from execcritic_scaffold.patch import parse
from execcritic_scaffold.patch_check import first_mismatch, refuse_missing_hunks
from execcritic_scaffold.patch_header import quote_names
from execcritic_scaffold.plumbing import Git, GitFailure, create

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_BATCH = 64 << 20
"""Bytes of file content held in memory while blobs are written."""
_DIFF = ("diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv")


class Store:
    """Content-addressed files. Tree and blob ids are git's (hex SHA-1)."""

    def __init__(self, directory: Path) -> None:
        """Open the store at `directory`, creating it if it is absent. Raises UsageError where that is impossible."""
        self.directory = directory.absolute()
        try:
            create(self.directory)
        except OSError as error:
            raise UsageError(
                f"The store {directory} cannot be made ({error.strerror}); name a folder that can be written."
            ) from None
        self.git = Git(self.directory)

    def write_blob(self, data: bytes) -> str:
        """Store one file's bytes; its id."""
        return self.write_blobs([data])[0]

    def write_blobs(self, datas: Iterable[bytes]) -> list[str]:
        """Store many; their ids in the same order. Content the store has already is not written again.

        The iterable is drawn lazily, and at most about 64 MB of it (or one file, if larger) is held in memory.
        """
        oids: list[str] = []
        batch: dict[str, bytes] = {}
        held = 0
        for data in datas:
            oid = blob_id(data)
            oids.append(oid)
            if oid not in batch:
                batch[oid] = data
                held += len(data)
            if held >= _BATCH:
                self._write(batch)
                batch, held = {}, 0
        self._write(batch)
        return oids

    def read_blob(self, oid: str) -> bytes:
        """Bytes of one blob. Raises InfrastructureError where the store has no such object."""
        return self.read_blobs([oid])[oid]

    def read_blobs(self, oids: Iterable[str]) -> dict[str, bytes]:
        """Bytes of many blobs by id. Raises InfrastructureError where one is not in the store."""
        wanted = list(dict.fromkeys(oids))
        if not wanted:
            return {}
        try:
            return dict(zip(wanted, self.git.blobs(wanted), strict=True))
        except KeyError as error:
            raise InfrastructureError(
                f"The store {self.directory} has no object {error.args[0]}; remove that directory and run again."
            ) from None

    def write_tree(self, entries: Mapping[str, Entry]) -> str:
        """Store a tree of blobs that are already stored; its id. PatchError for a path that git refuses."""
        with self._index() as git:
            _update(git, ((path, entry) for path, entry in entries.items()))
            return _line(git.need("write-tree"))

    def read_tree(self, tree: str) -> dict[str, Entry]:
        """All paths of a tree with mode and id, in git's order."""
        listing = self.git.need("ls-tree", "-r", "-z", "--full-tree", tree)
        return dict(parse_entry(line) for line in listing.split(b"\0") if line)

    def edit(self, tree: str, changes: Changes) -> str:
        """The tree with these changes; its id. A file laid where a folder was replaces the folder, and the reverse.

        Deleting a path that is not there changes nothing. Raises PatchError for a path that git refuses.
        """
        if not changes:
            return tree
        present = {path: file for path, file in changes.items() if file is not None}
        blobs = [file.data for file in present.values() if file.mode != GITLINK]
        oids = iter(self.write_blobs(blobs))
        entries = {
            path: Entry(file.mode, file.data.decode() if file.mode == GITLINK else next(oids))
            for path, file in present.items()
        }
        with self._index(tree) as git:
            _update(git, ((path, entries.get(path)) for path in sorted(changes, key=lambda path: path in present)))
            return _line(git.need("write-tree"))

    def changes(self, old: str, new: str) -> dict[str, File | None]:
        """How tree `new` differs from tree `old`, so that `edit(old, changes(old, new)) == new`.

        A submodule comes as a File of mode 160000 whose data is the commit id.
        """
        entries = {path: after for path, (_, after) in self._changed(old, new).items()}
        blobs = self.read_blobs(entry.oid for entry in entries.values() if entry and entry.mode != GITLINK)
        return {
            path: None if entry is None else File(blobs.get(entry.oid, entry.oid.encode()), entry.mode)
            for path, entry in entries.items()
        }

    def diff(self, old: str, new: str) -> bytes:
        """Unified diff from tree `old` to tree `new`, byte-exact and binary-safe; empty when they are equal."""
        return quote_names(self.git.need(*_DIFF, old, new), self._changed(old, new))

    def apply(self, tree: str, patch: bytes) -> str:
        """The tree with the whole patch applied; its id. No fuzz, never reversed, all or nothing.

        An empty patch gives the same tree. Raises PatchError for the first bad line, or with git's first complaint.
        """
        parsed = parse(patch)
        if parsed.is_empty:
            return tree
        with self._index(tree) as git:
            try:
                git.run("apply", "--cached", "--whitespace=nowarn", "-p1", "-", stdin=patch)
            except GitFailure as failure:
                where = first_mismatch(parsed, failure.complaint, lambda path: self._file(tree, path))
                said = f"{failure.complaint}: {where}" if where else failure.complaint
                raise PatchError(
                    f"The patch does not apply ({said}); make it against exactly this Base, with "
                    "`git diff --binary --src-prefix=a/ --dst-prefix=b/`, and hand over its bytes unchanged."
                ) from None
            result = _line(git.need("write-tree"))
        refuse_missing_hunks(parsed, self._changed(tree, result))
        return result

    def materialise(self, tree: str, directory: Path) -> None:
        """Write the tree's files, modes and symbolic links into `directory`, which must be new or empty.

        A submodule becomes an empty folder. Raises UsageError where the directory holds something already, or
        cannot be written.
        """
        target = directory.absolute()
        try:
            target.mkdir(parents=True, exist_ok=True)
            occupied = next(target.iterdir(), None)
        except OSError as error:
            raise UsageError(f"{directory} cannot be written ({error.strerror}); name another folder.") from None
        if occupied is not None:
            raise UsageError(f"{directory} is not empty ({occupied.name}); name a new folder.")
        with self._index(tree) as git:
            Git(git.directory, git.index, target.resolve()).need("checkout-index", "--all", "--quiet")

    def _changed(self, old: str, new: str) -> dict[str, tuple[Entry | None, Entry | None]]:
        """Paths that differ, with their entries before and after."""
        raw = self.git.need("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
        fields = iter(raw.split(b"\0"))
        changed: dict[str, tuple[Entry | None, Entry | None]] = {}
        for status, path in zip(fields, fields, strict=False):
            old_mode, new_mode, old_oid, new_oid, kind = status.decode().removeprefix(":").split(" ")
            before = None if kind == "A" else Entry(old_mode, old_oid)
            after = None if kind == "D" else Entry(new_mode, new_oid)
            changed[os.fsdecode(path)] = before, after
        return changed

    def _file(self, tree: str, path: str) -> bytes | None:
        entry = self.read_tree(tree).get(path)
        return None if entry is None or entry.mode == GITLINK else self.read_blob(entry.oid)

    def _write(self, batch: Mapping[str, bytes]) -> None:
        if not self.git.missing(batch):
            return
        with self._alone():
            absent = self.git.missing(batch)
            stream = b"".join(b"blob\ndata %d\n%b\n" % (len(batch[oid]), batch[oid]) for oid in absent)
            # One process, one pack (loose objects for a few); --depth=0 because deltas cost more than they save.
            self.git.need("fast-import", "--quiet", "--depth=0", "--done", stdin=stream + b"done\n")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other writers of packs out: two with the same pack would meet at its .keep file, and one that is
        killed there leaves it behind."""
        try:
            with open(self.directory / "writing", "wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                for stale in (self.directory / "objects" / "pack").glob("*.keep"):
                    stale.unlink()
                yield
        except OSError as error:
            raise UsageError(
                f"The store {self.directory} cannot be written ({error.strerror}); name a folder that can be written."
            ) from None

    @contextmanager
    def _index(self, tree: str | None = None) -> Iterator[Git]:
        """A temporary index, holding `tree` where one is given."""
        with tempfile.TemporaryDirectory(prefix="execcritic-index-") as folder:
            git = Git(self.directory, Path(folder) / "index")
            if tree is not None:
                self._fill(git, tree, Path(folder) / "index")
            yield git

    def _fill(self, git: Git, tree: str, index: Path) -> None:
        """Read a tree into an index. Reading a large one takes a while, so the index is kept beside the objects."""
        kept = self.directory / "indexes" / tree
        try:
            shutil.copyfile(kept, index)
            return
        except OSError:
            git.need("read-tree", tree)
        partial = kept.with_name(f"{tree}.{uuid.uuid4().hex}")
        try:
            kept.parent.mkdir(exist_ok=True)
            shutil.copyfile(index, partial)
            partial.replace(kept)
        except OSError:
            partial.unlink(missing_ok=True)  # kept for speed only


def blob_id(data: bytes) -> str:
    """git's id of a blob with these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def parse_entry(line: bytes) -> tuple[str, Entry]:
    """One NUL-free record of `git ls-tree -z`."""
    head, _, path = line.partition(b"\t")
    mode, _, oid = head.decode().split(" ")
    return os.fsdecode(path), Entry(mode, oid)


def _update(git: Git, entries: Iterable[tuple[str, Entry | None]]) -> None:
    records = []
    for path, entry in entries:
        mode, oid = (entry.mode, entry.oid) if entry else ("0", "0" * 40)
        records.append(f"{mode} {oid}\t".encode() + os.fsencode(path) + b"\0")
    if not records:
        return
    try:
        done = git.call("update-index", "-z", "--replace", "--index-info", stdin=b"".join(records))
        if b"Ignoring path " in done.stderr:  # a path outside the tree or in .git: git leaves it out and goes on
            raise GitFailure("update-index", done.stderr)
    except GitFailure as failure:
        raise PatchError(
            f"git refuses a path ({failure.complaint}); use only paths inside the repository and outside .git."
        ) from None


def _line(output: bytes) -> str:
    return output.decode().strip()
