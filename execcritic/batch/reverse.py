"""The reverse of a unified diff, byte for byte, without the files it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from execcritic_scaffold.errors import PatchError

_HUNK = re.compile(rb"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@(.*)", re.DOTALL)
_INDEX = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)(.*)", re.DOTALL)
_TURNED = {b"+": b"-", b"-": b"+"}
_REFUSED = {
    b"GIT binary patch": "binary files",
    b"Binary files": "binary files",
    b"rename ": "renames",
    b"copy ": "copies",
}


def reverse(patch: bytes) -> bytes:
    """The diff that takes `patch` back. Raises PatchError for binary files, renames, and hunks that are cut short."""
    return b"".join(_turned(iter(patch.splitlines(keepends=True))))


def _turned(lines: Iterator[bytes]) -> Iterator[bytes]:
    for line in lines:
        if hunk := _HUNK.fullmatch(line):
            old, old_count, new, new_count, rest = (group or b"" for group in hunk.groups())
            yield b"@@ -%b%b +%b%b @@%b" % (new, new_count, old, old_count, rest)
            yield from _body(lines, int(old_count[1:] or b"1"), int(new_count[1:] or b"1"))
        elif index := _INDEX.fullmatch(line):
            yield b"index %b..%b%b" % (index[2], index[1], index[3])
        elif line.startswith(b"--- "):
            after = _second(lines, b"+++ ")
            yield b"--- " + _side(after[4:], b"b/", b"a/")
            yield b"+++ " + _side(line[4:], b"a/", b"b/")
        elif line.startswith(b"old mode "):
            after = _second(lines, b"new mode ")
            yield b"old" + after[3:]
            yield b"new" + line[3:]
        elif line.startswith(b"new file mode "):
            yield b"deleted" + line[3:]
        elif line.startswith(b"deleted file mode "):
            yield b"new" + line[7:]
        else:
            for start, what in _REFUSED.items():
                if line.startswith(start):
                    raise PatchError(f"A diff with {what} is not turned round; give one of text files.")
            yield line


def _body(lines: Iterator[bytes], old: int, new: int) -> Iterator[bytes]:
    """The lines of one hunk, of which `old` and `new` belong to the two sides."""
    while old > 0 or new > 0:
        line = next(lines, b"")
        sign = b" " if line in (b"\n", b"\r\n") else line[:1]
        if sign not in (b" ", b"+", b"-", b"\\"):
            raise PatchError("A hunk of the diff is shorter than its header says; give the whole diff.")
        old -= sign in b" -"
        new -= sign in b" +"
        yield _TURNED.get(sign, sign) + line[1:] if sign in _TURNED else line


def _second(lines: Iterator[bytes], start: bytes) -> bytes:
    line = next(lines, b"")
    if not line.startswith(start):
        raise PatchError(f"A header of the diff has no {start.decode().strip()} line; give the whole diff.")
    return line


def _side(name: bytes, prefix: bytes, turned: bytes) -> bytes:
    """A file's name for the other side of the header; it may be quoted, or /dev/null."""
    quote = b'"' if name.startswith(b'"') else b""
    rest = name.removeprefix(quote)
    return quote + turned + rest.removeprefix(prefix) if rest.startswith(prefix) else name
