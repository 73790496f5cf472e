"""What git does not say about applying a patch: which line does not match, and whether hunks are missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.files import Entry
from execcritic_scaffold.patch import Patch, Section

_FAILED = re.compile(r"patch failed: (?P<path>.+):(?P<line>\d+)", re.DOTALL)
_ABBREVIATED = 7
"""Shortest abbreviation of a blob id that is taken for one."""
_SHOWN = 120


def first_mismatch(patch: Patch, complaint: str, read: Callable[[str], bytes | None]) -> str | None:
    """For git's complaint "patch failed: PATH:LINE", the first line of that hunk that is not what the file has there.

    `read` gives the bytes of a file of the tree, None where it has no such file.
    """
    failed = _FAILED.fullmatch(complaint)
    data = read(failed["path"]) if failed else None
    if failed is None or data is None:
        return None
    lines = data.removesuffix(b"\n").split(b"\n")
    for section in patch.sections:
        if failed["path"] in (section.old, section.new):
            for hunk in section.hunks:
                if hunk.source_start == int(failed["line"]):
                    for line in hunk.source_lines():
                        at = line.source_line_no or 1
                        found = lines[at - 1] if at <= len(lines) else b"(end of file)"
                        wanted = line.value.encode("latin-1").removesuffix(b"\n")
                        if found != wanted:
                            number = section.body_line + (line.diff_line_no or 0) - 3
                            return f"line {number} of the patch expects {_show(wanted)}, Base has {_show(found)}"
    return None


def refuse_missing_hunks(patch: Patch, changed: Mapping[str, tuple[Entry | None, Entry | None]]) -> None:
    """Raise PatchError where a file was what a section's index line starts from, and did not become what it names.

    Then the patch was cut at a hunk, or edited. Index lines that do not fit Base (models invent them) say nothing.
    """
    touched = Counter(path for section in patch.sections for path in {section.old, section.new} if path is not None)
    for section in patch.sections:
        before = changed.get(section.old or "", (None, None))[0]
        after = changed.get(section.new or "", (None, None))[1]
        once = all(touched[path] == 1 for path in (section.old, section.new) if path)
        if once and after and _starts_from(section, before) and not _names(section.new_oid, after):
            raise PatchError(
                f"The diff of {section.path} (line {section.line} of the patch) does not give the file that its index "
                "line names, so the patch was cut or edited; make it again, or remove the index lines if you edited it."
            )


def _starts_from(section: Section, before: Entry | None) -> bool:
    """Whether the index line certainly speaks of this file. Of new files only a full id counts: models, which write
    `index 0000000..e69de29` over any content, do not invent those."""
    if section.old is None:
        return before is None and len(section.new_oid or "") == 40
    return before is not None and len(section.old_oid or "") >= _ABBREVIATED and _names(section.old_oid, before)


def _names(oid: str | None, entry: Entry) -> bool:
    return oid is not None and entry.oid.startswith(oid)


def _show(line: bytes) -> str:
    text = repr(line.decode("utf-8", "backslashreplace"))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
