"""A patch as rows of two columns: each old line beside the new one that it became."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markupsafe import Markup

from execcritic.report import colours
from execcritic_roles.printable import printable
from execcritic_scaffold import patch as patches
from execcritic_scaffold.errors import PatchError

if TYPE_CHECKING:
    from unidiff.patch import Hunk, Line

PATCH_BYTES = 1 << 20
RAW = 20_000
"""Characters that are shown of a patch that is no patch."""
_LONGEST = 1000
_BLOCK = 40
"""Lines of one change up to which each is looked for among the others; a longer one is paired in its order."""
_ALIKE = 0.5


@dataclass(frozen=True)
class Row:
    """One row: kind is same, changed, removed or added; a side that is not there has no number."""

    kind: str
    old: int | None
    left: Markup
    new: int | None
    right: Markup


@dataclass
class FileDiff:
    """The change of one file."""

    path: str
    was: str | None
    what: str
    added: int = 0
    removed: int = 0
    hunks: list[tuple[str, list[Row]]] = field(default_factory=list)


@dataclass
class Diff:
    """A patch, or as `raw` text what does not parse; `note` tells what is left out or wrong."""

    files: list[FileDiff] = field(default_factory=list)
    note: str = ""
    raw: str = ""


def read(data: bytes | None, name: str, most: int = 2000) -> Diff | None:
    """The patch in the file `name`, up to `most` rows; None where there is none."""
    if data is None:
        return None
    note = ""
    if len(data) >= PATCH_BYTES:
        data = data[: data.rfind(b"\ndiff --git ") + 1] or data
        note = f"The patch is too long to show whole; {name} has all of it."
    try:
        parsed = patches.parse(data)
        made = Diff(note=note)
        for section in parsed.sections:
            made.files.append(_file(section, most))
            most -= sum(len(rows) for _, rows in made.files[-1].hunks)
    except (PatchError, ValueError, IndexError, TypeError) as error:
        return Diff(note=f"{name} does not read as a patch: {error}", raw=data.decode("utf-8", "replace")[:RAW])
    if most <= 0:
        made.note = f"Further lines of the patch are left out; {name} has all of it."
    return made


def changes(before: bytes | None, after: bytes | None) -> list[tuple[str, str]]:
    """What differs between two patches, as (kind, line): lines that only the earlier has, and only the newer."""
    if before is None or after is None:
        return []
    old, new = _body(before), _body(after)
    found = list(difflib.unified_diff(old, new, lineterm="", n=0))[2:]  # without the names of the two
    out = [("gone" if line[0] == "-" else "come", line[1:]) for line in found if not line.startswith("@@")]
    return out[:200]


def _body(patch: bytes) -> list[str]:
    """The changed lines of a patch, each with its sign and below the names of its files."""
    lines = patch[: PATCH_BYTES // 4].decode("utf-8", "replace").split("\n")
    return [line for line in lines if line.startswith(("+", "-")) and not line.startswith("--- ")][:4000]


def _file(section: patches.Section, most: int) -> FileDiff:
    what = "added" if section.old is None else "removed" if section.new is None else "changed"
    if section.binary:
        what += ", binary"
    was = section.old if section.old and section.new and section.old != section.new else None
    made = FileDiff(section.path, was, what)
    for hunk in [] if section.binary else section.hunks:
        made.added += hunk.added
        made.removed += hunk.removed
        if most > 0:
            rows = list(_rows(section.path, hunk))[:most]
            most -= len(rows)
            made.hunks.append((f"@@ -{hunk.source_start} +{hunk.target_start} @@ {_text(hunk.section_header)}", rows))
    return made


def _rows(path: str, hunk: Hunk) -> Iterator[Row]:
    kept = [line for line in hunk if line.is_context or line.is_added or line.is_removed]
    old = [line for line in kept if not line.is_added]
    new = [line for line in kept if not line.is_removed]
    left = dict(zip(map(id, old), colours.lines(path, [_text(line.value) for line in old]), strict=True))
    right = dict(zip(map(id, new), colours.lines(path, [_text(line.value) for line in new]), strict=True))
    removed: list[Line] = []
    added: list[Line] = []

    def flushed() -> Iterator[Row]:
        for a, b in _paired(removed, added):
            if a is not None and b is not None:
                gone, come = _marks(_text(a.value), _text(b.value))
                one, other = colours.markup(left[id(a)], gone), colours.markup(right[id(b)], come)
                yield Row("changed", a.source_line_no, one, b.target_line_no, other)
            elif a is not None:
                yield Row("removed", a.source_line_no, colours.markup(left[id(a)]), None, Markup(""))
            elif b is not None:
                yield Row("added", None, Markup(""), b.target_line_no, colours.markup(right[id(b)]))
        removed.clear()
        added.clear()

    for line in kept:
        if line.is_context:
            yield from flushed()
            one, other = colours.markup(left[id(line)]), colours.markup(right[id(line)])
            yield Row("same", line.source_line_no, one, line.target_line_no, other)
        elif line.is_removed:
            if added:
                yield from flushed()
            removed.append(line)
        else:
            added.append(line)
    yield from flushed()


def _paired(old: Sequence[Line], new: Sequence[Line]) -> Iterator[tuple[Line | None, Line | None]]:
    """Old and new lines in their order, those side by side that are alike."""
    if len(old) > _BLOCK or len(new) > _BLOCK:
        for number in range(max(len(old), len(new))):
            yield (old[number] if number < len(old) else None, new[number] if number < len(new) else None)
        return
    at = 0
    for line in old:
        rated = [(_ratio(line.value, new[n].value), -n) for n in range(at, len(new))]
        best, place = max(rated, default=(0.0, 0))
        if best < _ALIKE:
            yield line, None
            continue
        for n in range(at, -place):
            yield None, new[n]
        yield line, new[-place]
        at = 1 - place
    for rest in new[at:]:
        yield None, rest


def _ratio(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, a[:200].strip(), b[:200].strip(), autojunk=False).ratio()


def _marks(a: str, b: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The ranges of characters that differ between two lines; none where little is left the same."""
    matcher = difflib.SequenceMatcher(None, a[:400], b[:400], autojunk=False)
    if matcher.ratio() < _ALIKE:
        return [], []
    codes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return [(c[1], c[2]) for c in codes], [(c[3], c[4]) for c in codes]


def _text(value: str) -> str:
    """A line of unidiff's, which has bytes as Latin-1, as it is shown."""
    text = printable(value.removesuffix("\n").encode("latin-1", "replace").decode("utf-8", "replace"))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} [… {len(text) - _LONGEST} characters left out]"
