"""Patch: a unified diff as bytes, read but never rewritten.

Reading finds what `git apply` lets pass and then loses: surplus lines after a hunk whose header counts too few, and
sections cut off at their header. What a patch *does* is decided by applying it (`Store.apply`, `Store.changes`);
the paths given here are for messages and for showing lines.

unidiff reads the hunks, one section at a time. It is not given the headers: it takes `diff --git a/x b/y.py b/x b/y.py`
apart in the wrong place and leaves quoted names quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.patch_header import Header

if TYPE_CHECKING:
    from unidiff.patch import Hunk

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_SIGNATURE = re.compile(rb"-- ?\r?\n")


@dataclass(frozen=True)
class Section:
    """One file of a patch. `old` and `new` are its paths before and after, None where it is not there.

    `body` are the lines of its hunks. `line` and `body_line` are the numbers, in the patch, of the section's first
    line and of the body's. `old_oid` and `new_oid` are what its index line says, abbreviated or not.
    """

    old: str | None
    new: str | None
    line: int
    body: tuple[bytes, ...] = field(repr=False)
    body_line: int = 0
    binary: bool = False
    old_oid: str | None = None
    new_oid: str | None = None

    @property
    def path(self) -> str:
        return self.new or self.old or ""

    @property
    def hunks(self) -> list[Hunk]:
        """unidiff's hunks. Their text is the bytes decoded as Latin-1, which loses nothing."""
        from unidiff.patch import PatchSet

        lines = ["--- old\n", "+++ new\n", *(line.decode("latin-1") for line in self.body)]
        return list(PatchSet(lines)[0]) if self.body else []


@dataclass(frozen=True)
class Patch:
    """A patch that parses. `data` is exactly what was given."""

    data: bytes = field(repr=False)
    sections: tuple[Section, ...]

    @property
    def is_empty(self) -> bool:
        """True where there is nothing but white space."""
        return not self.sections

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path before or after, sorted."""
        return tuple(sorted({path for s in self.sections for path in (s.old, s.new) if path is not None}))

    def hunks(self, path: str) -> list[Hunk]:
        """The hunks of a file, by its path before or after."""
        return [hunk for section in self.sections if path in (section.old, section.new) for hunk in section.hunks]

    def added_lines(self, path: str) -> list[tuple[int, bytes]]:
        """Number (from 1, in the new file) and bytes, without line end, of every line added to a file."""
        return [
            (line.target_line_no or 0, _bytes(line.value))
            for hunk in self.hunks(path)
            for line in hunk
            if line.is_added
        ]

    def removed_lines(self, path: str) -> list[tuple[int, bytes]]:
        """Number (from 1, in the old file) and bytes, without line end, of every line removed from a file."""
        return [
            (line.source_line_no or 0, _bytes(line.value))
            for hunk in self.hunks(path)
            for line in hunk
            if line.is_removed
        ]


def parse(data: bytes) -> Patch:
    """Read a patch. Text before and between the diffs, as in a mail, is passed over.

    Raises PatchError with the number of the first bad line.
    """
    if not data.strip():
        return Patch(data, ())
    # Split at \n alone: form feeds, lone CRs, U+2028 and NEL are part of their line.
    lines = data.split(b"\n")
    last = lines.pop()
    lines = [line + b"\n" for line in lines]
    if last:
        lines.append(last)
        if not last.startswith(b"\\"):
            raise _bad(len(lines), "it has no line end, so the patch was cut or stripped")
    sections = tuple(_sections(lines))
    if not sections:
        raise _bad(1, "there is no diff in it")
    return Patch(data, sections)


def _sections(lines: list[bytes]) -> Iterator[Section]:
    header: Header | None = None
    start = body_start = 0
    body: list[bytes] = []
    old = new = 0
    closed = False  # a hunk ended and no other line has come since
    # Whoever made it leaves index lines out (SWE-bench's rows): then an empty file has none either, as git accepts it.
    bare = any(line.startswith(b"@@ -") for line in lines) and not any(line.startswith(b"index ") for line in lines)
    for number, line in enumerate(lines, 1):
        if old or new:
            kind = line[:1]
            if kind in (b" ", b"\r", b"\n"):
                old, new = old - 1, new - 1
            elif kind == b"-":
                old -= 1
            elif kind == b"+":
                new -= 1
            elif kind != b"\\":
                raise _bad(number, "it belongs to a hunk and does not start with ' ', '+' or '-'")
            if old < 0 or new < 0:
                raise _bad(number, "the hunk has other lines than its header counts")
            body.append(line)
            closed = not (old or new)
        elif line.startswith(b"\\") and closed:
            body.append(line)
        elif line.startswith(b"@@ -"):
            counts = _HUNK.match(line)
            if counts is None or header is None or not header.named:
                raise _bad(number, "it starts a hunk where none can be" if counts else "it is no hunk header")
            body_start = body_start if body else number
            old, new = (int(count) if count else 1 for count in counts.groups())
            body.append(line)
        elif line.startswith(b"diff --git ") or (line.startswith(b"--- ") and _starts(lines, number, header, body)):
            if header is not None:
                yield _section(header, start, body, body_start, bare)
            header, start, body, closed = Header(), number, [], False
            header.read(line)
        elif header is not None and header.binary:
            pass  # base 85, which git checks
        elif closed and line[:1] in (b"+", b"-", b" ") and not _SIGNATURE.fullmatch(line):
            raise _bad(number, "it is more than the header of its hunk counts")
        elif header is not None and not body:
            if line.startswith((b"--- ", b"+++ ")) and line.endswith(b"\r\n"):
                raise _bad(number, "its line end was converted to CR LF; export the patch without conversion")
            if line.startswith(b"Binary files "):
                raise _bad(number, "a binary change comes without its content; make the patch with --binary")
            header.read(line)
        else:
            closed = False
    if old or new:
        raise _bad(len(lines), "the patch ends inside a hunk")
    if header is not None:
        yield _section(header, start, body, body_start, bare)


def _starts(lines: list[bytes], number: int, header: Header | None, body: list[bytes]) -> bool:
    """Whether this `--- ` line (the next is `lines[number]`) starts a section without a `diff --git` line."""
    followed = number < len(lines) and lines[number].startswith(b"+++ ")
    return followed and (header is None or header.named or bool(body))


def _section(header: Header, start: int, body: list[bytes], body_start: int, bare: bool) -> Section:
    if not body and not (header.complete or (bare and header.empty_file)):
        raise _bad(start, "this file's diff has no content, so the patch was cut")
    try:
        old, new = header.paths()
    except ValueError as error:
        raise _bad(start, str(error)) from None
    return Section(old, new, start, tuple(body), body_start, header.binary, header.old_oid, header.new_oid)


def _bad(number: int, why: str) -> PatchError:
    return PatchError(
        f"Line {number} of the patch is bad: {why}; make the patch with `git diff --binary` and keep its bytes."
    )


def _bytes(value: str) -> bytes:
    return value.encode("latin-1").removesuffix(b"\n")
