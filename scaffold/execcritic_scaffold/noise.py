"""Changes to source that change nothing: a test must not notice them.

A test that reads source text (a hash, a line number, a phrase) fails on Base and passes with any edit at all. So some
runs of an admission are made over source with a blank line in front and a comment behind (HARNESS 2, A5).
"""

from __future__ import annotations

from collections.abc import Iterable

from execcritic_scaffold import syntax
from execcritic_scaffold.files import Changes, File
from execcritic_scaffold.paths import PathKind
from execcritic_scaffold.site import Site

_MOST = 400


def over(site: Site, executed: Iterable[str]) -> Changes:
    """The source files that a test ran, with text added that is no code. Files where a first line has a meaning (an
    interpreter, an encoding), and what does not parse, are left as they are."""
    changed: dict[str, File | None] = {}
    for path in sorted(executed)[:_MOST]:
        data = site.read(path) if site.runner.discovery.kind(path) is PathKind.SOURCE else None
        if data is None or not path.endswith(".py") or data.startswith(b"#!") or b"coding" in data[:200]:
            continue
        if data.startswith(b"\xef\xbb\xbf") or syntax.parse(data) is None:
            continue
        changed[path] = File(b"\n" + data + b"\n# \n", site.entries[path].mode)
    return changed
