"""Patch policy, before anything runs (HARNESS 3.1): what a fix may touch, and what of it is set aside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.files import GITLINK, SYMLINK, Changes, Entry, File
from execcritic_scaffold.outcome import Finding
from execcritic_scaffold.paths import PathKind
from execcritic_scaffold.runners.pytest_config import CONFIG_NAMES, runner_section
from execcritic_scaffold.screening import screen
from execcritic_scaffold.shadow import shadows
from execcritic_scaffold.site import Site

Role = Literal["agent", "person"]
_RUNNER_FILES = frozenset(CONFIG_NAMES) - {"pyproject.toml", "tox.ini", "setup.cfg"}


@dataclass(frozen=True)
class Violation:
    """Why a patch is FORBIDDEN."""

    reason: str
    detail: str


@dataclass(frozen=True)
class SourcePatch:
    """A patch that may be judged: what of it is applied, what was set aside, what to look at."""

    changes: Changes
    set_aside: tuple[str, ...]
    findings: tuple[Finding, ...]


def admit(site: Site, bundle: FrozenBundle, patch: bytes, role: Role, limit: int) -> SourcePatch | Violation:
    """Apply the patch in the harness's own store and hold it against the policy.

    `changes` is empty for a patch that changes nothing (or nothing but what is set aside). Raises PatchError for
    one that does not parse, does not apply to Base, or is larger than `limit` bytes.
    """
    if len(patch) > limit:
        raise PatchError(
            f"The patch has {len(patch)} bytes, at most {limit} are read; leave generated files out of it."
        )
    if not patch.strip():
        return SourcePatch({}, (), ())
    store, base = site.base.store, site.base.tree
    return _Policy(site, bundle, role).judge(store.changes(base, store.apply(base, patch)))


class _Policy:
    def __init__(self, site: Site, bundle: FrozenBundle, role: Role) -> None:
        self.site = site
        self.frozen = bundle.changes
        self.bundle = bundle
        self.role = role
        self.applied: dict[str, File | None] = {}
        self.aside: list[str] = []
        self.findings: list[Finding] = []
        self.rules: tuple[Callable[[str, File | None, Entry | None, PathKind], Violation | bool], ...] = (
            self._special,
            self._frozen,
            self._hook,
            self._configuration,
            self._test,
        )

    def judge(self, changes: Changes) -> SourcePatch | Violation:
        for path, file in sorted(changes.items()):
            before = self.site.entries.get(path)
            kind = self.site.runner.discovery.kind(path)
            taken = False
            for rule in self.rules:
                answer = rule(path, file, before, kind)
                if isinstance(answer, Violation):
                    return answer
                if answer:
                    taken = True
                    break
            if not taken:
                self.applied[path] = file
        if shadowing := shadows(self.site, self.applied, self.bundle.record.files):
            return Violation("SHADOWS_MODULE", f"{shadowing[0]} would be imported in place of another module")
        screened = screen(self.site, self.bundle, self.applied)
        if screened.hard:
            first = screened.hard[0]
            return Violation(first.code, f"{first.path}:{first.line}: {first.detail}")
        return SourcePatch(self.applied, tuple(self.aside), (*self.findings, *screened.soft))

    def _special(self, path: str, file: File | None, before: Entry | None, kind: PathKind) -> Violation | bool:
        modes = {file.mode if file else "", before.mode if before else ""}
        if SYMLINK in modes or GITLINK in modes:
            return Violation("SPECIAL_FILE", f"{path} is a symbolic link or a submodule")
        return False

    def _frozen(self, path: str, file: File | None, before: Entry | None, kind: PathKind) -> Violation | bool:
        if path in self.frozen:
            if self.frozen[path] == file or (self.role == "person" and self._same_text(path, file)):
                return True  # a pull request that brings the frozen test itself
            return Violation("FROZEN_FILE", f"{path} belongs to the frozen test")
        if file is not None and any(p.startswith(path + "/") for p in self.frozen):
            return Violation("FROZEN_FILE", f"{path} stands where the folder of a frozen test is")
        return False

    def _same_text(self, path: str, file: File | None) -> bool:
        mine = self.frozen[path]
        return mine is not None and file is not None and mine.data == file.data

    def _hook(self, path: str, file: File | None, before: Entry | None, kind: PathKind) -> Violation | bool:
        if kind is PathKind.HOOK:
            return Violation("STARTUP_HOOK", f"{path} would be run by the interpreter or the runner by itself")
        if kind is PathKind.VCS:
            return Violation("VCS_DATA", f"{path} is version control data")
        if kind is PathKind.CONFTEST:
            return Violation("CONFTEST", f"{path} is part of how tests are run")
        return False

    def _configuration(self, path: str, file: File | None, before: Entry | None, kind: PathKind) -> Violation | bool:
        name = path.rsplit("/", 1)[-1]
        if kind is PathKind.CONFIG and name in _RUNNER_FILES:
            return Violation("RUNNER_CONFIG", f"{path} configures the runner")
        if kind is PathKind.SHARED_CONFIG:
            old = runner_section(name, self.site.read(path) if before else None)
            new = runner_section(name, file.data if file else None)
            if old != new:
                return Violation("RUNNER_CONFIG", f"{path} changes the runner's own section")
        if kind in (PathKind.CONFIG, PathKind.SHARED_CONFIG):
            self.findings.append(Finding("CONFIGURATION", "build, lock or CI configuration is changed", path))
        return False

    def _test(self, path: str, file: File | None, before: Entry | None, kind: PathKind) -> Violation | bool:
        if kind not in (PathKind.TEST, PathKind.SUPPORT):
            return False
        if self.role == "agent":
            return Violation("TEST_MODIFIED", f"{path} is a test file; change source only")
        self.aside.append(path)
        self.findings.append(Finding("SET_ASIDE", "the patch's own test file is not applied for the verdict", path))
        return True
