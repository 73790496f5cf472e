"""Source screening (HARNESS 3.5): what a fix has no reason to bring into source under test.

No scheme inside the tests' own process is absolute, so the kinds of patch that could fool it are looked for in the
patch itself. Only what a patch adds counts: what its files had on Base, wherever it moves it, does not. Hard kinds
are FORBIDDEN, soft ones are findings. Where the repository is the runner, everything is a finding.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.files import GITLINK, SYMLINK, Changes
from execcritic_scaffold.mark import Mark
from execcritic_scaffold.marks import marks
from execcritic_scaffold.outcome import Finding
from execcritic_scaffold.paths import PathKind
from execcritic_scaffold.site import Site
from execcritic_scaffold.specialcases import special_cases, test_literals
from execcritic_scaffold.testimports import test_imports
from execcritic_scaffold.trim import common_out

_COMPILED = re.compile(r"\.(?:so(?:\.\d+)*|pyd|dll|dylib)$", re.IGNORECASE)
_PROGRAMS = tuple(bytes.fromhex(m) for m in "7f454c46 feedface feedfacf cefaedfe cffaedfe cafebabe 0061736d".split())
"""How compiled code begins: ELF, Mach-O, Java, WebAssembly."""
_IN_ARCHIVE = (".py", ".pyc", ".pyo", ".pyd", ".so", ".pth", ".egg", ".whl")
_TRACING = re.compile(rb"set(?:trace|profile)|sys\.monitoring")
_PLUGIN = re.compile(rb"pytest11")
_IMPORTS = re.compile(rb"^\s*(?:import|from)\s+(?:_pytest|pytest|pluggy)\b", re.MULTILINE)


@dataclass(frozen=True)
class Screened:
    """What was found, hard and soft."""

    hard: tuple[Finding, ...]
    soft: tuple[Finding, ...]


def screen(site: Site, bundle: FrozenBundle, changes: Changes) -> Screened:
    """Findings for every changed Python file of source, and for compiled code."""
    old = {path: site.read(path) or b"" for path in changes if path.endswith(".py")}
    new = {path: file.data for path, file in changes.items() if file is not None and path in old}
    hard: list[Finding] = []
    soft: list[Finding] = []
    pairs = {path: common_out(old[path], text) for path, text in new.items()}
    old = {path: pairs[path][0] if path in pairs else text for path, text in old.items()}
    new = {path: after for path, (_, after) in pairs.items()}
    own = _own(site)
    for path, mark in added(old, new, own):
        target = hard if mark.hard and not _expected(site, mark, path) else soft
        target.append(Finding(mark.code, mark.text, path, mark.line))
    for path, file in sorted(changes.items()):
        if file is not None and (what := unreadable(path, file.data)):
            target = soft if site.runner_in_tree else hard
            target.append(Finding("COMPILED_CODE", what, path, 1))
    for path, text in sorted(new.items()):
        for line, name in test_imports(text, bundle.record.files, own):
            said = f"source imports a test module ({name})"
            (soft if site.runner_in_tree else hard).append(Finding("IMPORTS_TESTS", said, path, line))
    literals = test_literals(bundle)
    for path, text in sorted(new.items()):
        for line, literal in special_cases(old.values(), text, literals):
            said = f"source compares with {literal!r}, a value of the frozen test"
            soft.append(Finding("REPEATS_TEST_INPUT", said, path, line))
    return Screened(tuple(hard), tuple(soft))


def added(old: Mapping[str, bytes], new: Mapping[str, bytes], own: frozenset[str]) -> list[tuple[str, Mark]]:
    """Marks, with their paths, that the new texts have more often than the old ones. What one file lost, another
    may have got: code that is moved is not new."""
    moved: Counter[tuple[str, str]] = Counter()
    more: list[tuple[str, Mark]] = []
    for path in sorted({*old, *new}):
        had = Counter((m.code, m.text) for m in marks(old.get(path, b""), path, own))
        for mark in marks(new[path], path, own) if path in new else []:
            if had[mark.code, mark.text] > 0:
                had[mark.code, mark.text] -= 1
            else:
                more.append((path, mark))
        moved += had
    kept: list[tuple[str, Mark]] = []
    for path, mark in more:
        if moved[mark.code, mark.text] > 0:
            moved[mark.code, mark.text] -= 1
        else:
            kept.append((path, mark))
    return kept


def unreadable(path: str, data: bytes) -> str | None:
    """Why a file is code that nobody can review, by its name or by its bytes; None where it is not."""
    if _COMPILED.search(path) or data.startswith(_PROGRAMS) or (data.startswith(b"MZ") and b"\0" in data[:64]):
        return "compiled code cannot be read; build it from source that the patch brings"
    if b"PK\x05\x06" in data[-66_000:]:  # an archive may have anything before it, and is importable all the same
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                names = archive.namelist()
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
            return "an archive that cannot be read may hold code"
        if any(name.lower().endswith(_IN_ARCHIVE) for name in names):
            return "an archive with code in it cannot be reviewed; bring the files themselves"
    return None


def _own(site: Site) -> frozenset[str]:
    """Names importable from the repository, but for those that the standard library or the runner owns."""
    others = sys.stdlib_module_names | {"pytest", "_pytest", "pluggy"}
    return site.tops | (site.root_modules - others)


def _expected(site: Site, mark: Mark, path: str) -> bool:
    """A runner, or a plugin of one, has reason to deal with the runner; hooks in a new module are loaded by nobody."""
    if site.runner_in_tree:
        return True
    if mark.code == "TRACES":
        return _source_has(site, _TRACING)
    if mark.code == "RUNNER_HOOK":
        return _declares_plugin(site) or path not in site.entries
    return mark.code == "IMPORTS_RUNNER" and (_declares_plugin(site) or _source_has(site, _IMPORTS))


def _declares_plugin(site: Site) -> bool:
    return any(_PLUGIN.search(site.read(p) or b"") for p in ("pyproject.toml", "setup.cfg", "setup.py"))


def _source_has(site: Site, what: re.Pattern[bytes]) -> bool:
    """Whether Base's own source, tests apart, does so already."""
    kind = site.runner.discovery.kind
    source = [
        e.oid
        for p, e in site.entries.items()
        if p.endswith(".py") and e.mode not in (SYMLINK, GITLINK) and kind(p) is PathKind.SOURCE
    ]
    return any(what.search(data) for data in site.base.store.read_blobs(source).values())
