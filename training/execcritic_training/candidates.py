"""Labelled candidate patches: pooled from anywhere, without doubles, and the few that a test is measured by.

Two patches are the same where they remove and add the same lines at the same places, whatever context, order of files,
index lines or white space at line ends they were written with. A patch that was labelled both ways has no label.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from execcritic.batch.instance import Candidate
from execcritic_scaffold import patch as patches
from execcritic_scaffold.errors import PatchError

MOST = 8


@dataclass(frozen=True)
class Pool:
    """The candidates of one instance, one of each, in the order of their digests; the rest is counted."""

    candidates: tuple[Candidate, ...]
    doubles: int = 0
    unlabelled: int = 0
    contradictory: int = 0
    unreadable: int = 0
    empty: int = 0


def digest(patch: bytes) -> str:
    """Names what a patch does: SHA-256, hex. Raises PatchError for one that does not parse."""
    whole = hashlib.sha256()
    for section in sorted(patches.parse(patch).sections, key=lambda s: (s.path, s.old or "")):
        whole.update(repr((section.old, section.new)).encode("utf-8", "surrogateescape"))
        if section.binary:
            whole.update(b"".join(section.body) or repr((section.old_oid, section.new_oid)).encode())
        for hunk in section.hunks:
            place = hunk.source_start
            for line in hunk:
                if line.is_added or line.is_removed:
                    whole.update(f"{line.line_type}{place}:{line.value.rstrip()}\n".encode())
                if not line.is_added:
                    place += 1
    return whole.hexdigest()


def pool(candidates: Iterable[Candidate]) -> Pool:
    """One candidate of each; the first id, by order, is kept. Doubles without a label take that of the others."""
    found: dict[str, list[Candidate]] = {}
    unreadable = empty = 0
    for candidate in candidates:
        if not candidate.patch.strip():
            empty += 1
            continue
        try:
            found.setdefault(digest(candidate.patch), []).append(candidate)
        except PatchError:
            unreadable += 1
    kept: list[Candidate] = []
    unlabelled = contradictory = 0
    for _, same in sorted(found.items()):
        labels = {one.resolved for one in same} - {None}
        if len(labels) == 1:
            kept.append(replace(min(same, key=lambda one: one.id), resolved=labels.pop()))
        elif labels:
            contradictory += 1
        else:
            unlabelled += 1
    doubles = sum(len(same) - 1 for same in found.values())
    return Pool(tuple(kept), doubles, unlabelled, contradictory, unreadable, empty)


def choose(candidates: Sequence[Candidate], salt: str, most: int = MOST) -> tuple[Candidate, ...]:
    """At most `most` labelled candidates, half of them correct; where a class has too few, the other fills up.

    The same for the same set whatever its order, and not by quality, age or source: by a hash of `salt` (the instance's
    id) and what the patch does. Doubles are left out.
    """
    order = {one.id: hashlib.sha256(f"{salt}\0{digest(one.patch)}".encode()).hexdigest() for one in candidates}
    known = sorted(pool(candidates).candidates, key=lambda one: order[one.id])
    right = [one for one in known if one.resolved]
    wrong = [one for one in known if not one.resolved]
    half = min(len(right), max(most // 2, most - len(wrong)))
    return (*right[:half], *wrong[: most - half])
