"""The header of one file in a git diff: paths as git quotes them, blob ids, and whether anything follows from it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
_INDEX = re.compile(rb"index ([0-9a-f]{4,40})\.\.([0-9a-f]{4,40})(?: \d+)?\r?\n?")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_QUOTED = rb'"(?:[^"\\]|\\.)*"'
_LETTERS = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class Header:
    """Collects the header's lines one by one."""

    def __init__(self) -> None:
        self.binary = False
        self.old_oid: str | None = None
        self.new_oid: str | None = None
        self._title = b""
        self._fields: dict[bytes, bytes] = {}

    def read(self, line: bytes) -> None:
        """Take one line in; lines that say nothing are passed over."""
        if line.startswith(b"diff --git "):
            self._title = line.removeprefix(b"diff --git ").rstrip(b"\r\n")
        elif match := _INDEX.fullmatch(line):
            self.old_oid, self.new_oid = (oid.decode() for oid in match.groups())
        elif line.startswith(b"GIT binary patch"):
            self.binary = True
        else:
            for name in _FIELDS:
                if line.startswith(name):
                    self._fields[name] = line.removeprefix(name).rstrip(b"\n")

    @property
    def named(self) -> bool:
        """True once the `--- ` and `+++ ` lines have come, after which a hunk may."""
        return b"--- " in self._fields and b"+++ " in self._fields

    @property
    def complete(self) -> bool:
        """Whether the file's diff can stand without hunks: a change of mode or name, an empty file, binary data."""
        if self.binary:
            return True
        if b"--- " in self._fields:
            return False
        if b"new file mode " in self._fields:
            # git always names the empty blob; without that, a patch cut here would make an empty file.
            return self.new_oid is not None and _EMPTY_BLOB.startswith(self.new_oid)
        if b"deleted file mode " in self._fields:
            return self.old_oid is None or _EMPTY_BLOB.startswith(self.old_oid)
        changed = self.old_oid != self.new_oid
        return not changed and any(n in self._fields for n in (b"new mode ", b"rename to ", b"copy to "))

    @property
    def empty_file(self) -> bool:
        """Whether it makes a file and says nothing of its content."""
        return b"new file mode " in self._fields and b"--- " not in self._fields and self.new_oid is None

    def paths(self) -> tuple[str | None, str | None]:
        """Paths before and after; None where the file is not there. ValueError where they cannot be told."""
        if self.named:
            return self._side(b"--- "), self._side(b"+++ ")
        for name in (b"rename", b"copy"):
            if name + b" from " in self._fields and name + b" to " in self._fields:
                old, new = (_unquote(self._fields[name + end]) for end in (b" from ", b" to "))
                return os.fsdecode(old), os.fsdecode(new)
        path = self._titled()
        return (
            None if b"new file mode " in self._fields else path,
            None if b"deleted file mode " in self._fields else path,
        )

    def _side(self, name: bytes) -> str | None:
        raw = self._fields[name]
        if not raw.startswith(b'"'):
            raw = raw.partition(b"\t")[0]  # a time stamp, or the mark that git sets after a name with blanks
        path = _unquote(raw)
        return None if path == b"/dev/null" else os.fsdecode(_strip(path))

    def _titled(self) -> str:
        """The path from the `diff --git` line, where it is the same before and after but for the prefix."""
        title = self._title
        if quoted := re.fullmatch(rb"(%b|\S+) (%b|\S+)" % (_QUOTED, _QUOTED), title):
            old, new = (_strip(_unquote(part)) for part in quoted.groups())
        else:
            middle = len(title) // 2
            old, new = _strip(title[:middle]), _strip(title[middle + 1 :])
        if old != new:
            raise ValueError("the two names in its `diff --git` line do not agree")
        return os.fsdecode(old)


_FIELDS = (
    b"--- ",
    b"+++ ",
    b"new file mode ",
    b"deleted file mode ",
    b"new mode ",
    b"rename from ",
    b"rename to ",
    b"copy from ",
    b"copy to ",
)


def _strip(path: bytes) -> bytes:
    """Without the first component (`a/` or `b/`), as `git apply -p1` does."""
    return path.partition(b"/")[2]


def _unquote(path: bytes) -> bytes:
    """git's C-style quoting undone."""
    if not (path.startswith(b'"') and path.endswith(b'"') and len(path) > 1):
        return path

    def character(match: re.Match[bytes]) -> bytes:
        code = match.group(1)
        return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _LETTERS.get(code, code)

    return _ESCAPE.sub(character, path[1:-1])


def quote_names(diff: bytes, paths: Iterable[str]) -> bytes:
    """The diff with names in quotes where git itself could not tell them apart again.

    A section of an empty or a binary file has its names in the `diff --git` line only, and git writes a name with
    blanks without quotes: `a/b.py /a b/b.py /a` can be cut in two ways.
    """
    for name in map(os.fsencode, paths):
        header = b"diff --git a/%b b/%b\n" % (name, name)
        start = 0 if diff.startswith(header) else diff.find(b"\n" + header) + 1
        if b" " not in name or (start == 0 and not diff.startswith(header)):
            continue
        end = diff.find(b"\ndiff --git ", start + 1)
        if b"\n--- " not in diff[start : end if end >= 0 else len(diff)]:
            quoted = b'diff --git "a/%b" "b/%b"\n' % (name, name)
            diff = diff[:start] + quoted + diff[start + len(header) :]
    return diff
