"""Static admission of a test patch: A1 (it applies, and is nothing but files) and A2 (it touches tests only)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from execcritic_scaffold import removals, superseded
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.files import GITLINK, SYMLINK, Changes
from execcritic_scaffold.hooks import changed_hooks
from execcritic_scaffold.outcome import Finding
from execcritic_scaffold.paths import Discovery, PathKind
from execcritic_scaffold.qualification import Refusal
from execcritic_scaffold.ruletable import Strictness
from execcritic_scaffold.shadow import shadows
from execcritic_scaffold.site import Site


@dataclass(frozen=True)
class TestPatch:
    """A test patch that passed A1 and A2: the tree with it, its changes relative to Base, what to look at."""

    tree: str
    changes: Changes
    findings: tuple[Finding, ...] = ()

    def files(self, discovery: Discovery) -> tuple[str, ...]:
        """The test files it adds or changes (what a runner is given)."""
        return tuple(sorted(p for p, f in self.changes.items() if f is not None and discovery.kind(p) is PathKind.TEST))


_WHY: Mapping[PathKind, str] = {
    PathKind.SOURCE: "source, which a test patch must not touch",
    PathKind.CONFIG: "configuration of the runner, the build or CI",
    PathKind.SHARED_CONFIG: "configuration of the runner, the build or CI",
    PathKind.HOOK: "code the interpreter would run at start-up, or compiled code",
    PathKind.VCS: "version control data",
}


def admit(site: Site, submission: Submission, limit: int, strictness: Strictness) -> TestPatch | Refusal:
    """A1 and A2. The patch is applied in the harness's own store; no file is written anywhere."""
    store, base = site.base.store, site.base.tree
    if not submission.patch.strip():
        return Refusal("EMPTY_PATCH", "the test patch is empty", "Add a test file or a test, then submit.")
    if len(submission.patch) > limit:
        return Refusal(
            "PATCH_TOO_LARGE",
            f"the test patch has {len(submission.patch)} bytes, at most {limit} are admitted",
            "Submit only the test and the small data it needs.",
        )
    try:
        tree = store.apply(base, submission.patch)
    except PatchError as error:
        return Refusal("PATCH_DOES_NOT_APPLY", str(error), "Make the patch against Base and submit it whole.")
    changes = store.changes(base, tree)
    if not changes:
        return Refusal("EMPTY_PATCH", "the test patch changes nothing", "Add a test file or a test, then submit.")
    return _classify(site, TestPatch(tree, changes), submission.superseded, strictness)


def _classify(
    site: Site, patch: TestPatch, excused: Iterable[Mapping[str, str]], strictness: Strictness
) -> TestPatch | Refusal:
    discovery = site.runner.discovery
    findings: list[Finding] = []
    for path, file in sorted(patch.changes.items()):
        before = site.entries.get(path)
        if any("\ud800" <= c <= "\udfff" for c in path):
            return Refusal("SPECIAL_FILE", f"the name {path!r} is not UTF-8", "Use a plain file name.")
        if file is not None and file.mode in (SYMLINK, GITLINK):
            return Refusal("SPECIAL_FILE", f"{path} is a symbolic link or submodule", "Use regular files only.")
        if before is not None and before.mode in (SYMLINK, GITLINK):
            return Refusal("SPECIAL_FILE", f"{path} is a symbolic link or submodule of Base", "Leave it alone.")
        kind = discovery.kind(path)
        if kind in _WHY:
            return Refusal(
                "NOT_TEST_ONLY",
                f"{path} is {_WHY[kind]}",
                "Change only test files below the repository's test folders.",
            )
        if kind is PathKind.CONFTEST:
            findings.append(Finding("CONFTEST", "shared fixtures are added or changed", path))
            hooks = changed_hooks(site.read(path) or b"", file.data) if file else []
            findings += [
                Finding("RUNNER_HOOK", f"it defines a hook of the runner ({hook})", path) for hook in hooks[:1]
            ]
        if file is None:
            findings.append(Finding("TEST_REMOVED", "an existing file is deleted", path))
        elif before is not None and kind is PathKind.TEST:
            findings.append(Finding("TEST_EDITED", "an existing test file is changed", path))
            named = superseded.functions(excused, site.runner, path)
            lost = removals.removals(path, site.read(path) or b"", file.data, named)
            if lost and lost.code == "SYNTAX_ERROR":
                return lost
            findings += [Finding(lost.code, lost.detail, path)] if lost else []
    tests = patch.files(discovery)
    others = [p for p in patch.changes if discovery.kind(p) is not PathKind.CONFTEST]
    if shadowing := shadows(site, others, tests):
        return Refusal(
            "SHADOWS_MODULE", f"{shadowing[0]} would be imported in place of another module", "Choose another name."
        )
    if not tests:
        return Refusal(
            "NO_TEST_FILE",
            "the patch adds or changes no file that the runner collects tests from",
            f"Name the test file as the runner asks ({', '.join(discovery.patterns)}), beside the existing tests.",
        )
    findings += at_home(site, patch.changes, tests)
    settled = strictness.findings(findings)
    return settled if isinstance(settled, Refusal) else TestPatch(patch.tree, patch.changes, tuple(settled))


def at_home(site: Site, changes: Changes, tests: Iterable[str]) -> list[Finding]:
    """A3: a new test file lies beside existing tests and uses the framework that its neighbours use."""
    existing = [p for p in site.entries if site.runner.discovery.kind(p) is PathKind.TEST]
    homes = {p.rsplit("/", 1)[0] if "/" in p else "" for p in existing}
    findings: list[Finding] = []
    for path in (t for t in tests if t not in site.entries):
        home = path.rsplit("/", 1)[0] if "/" in path else ""
        if existing and home not in homes and not site.runner.discovery.in_tests(path):
            findings.append(Finding("MISPLACED", "a new test file does not lie beside existing tests", path))
        near = [p for p in existing if (p.rsplit("/", 1)[0] if "/" in p else "") == home][:5]
        styles = {removals.is_unittest(site.read(p) or b"") for p in near} - {None}
        file = changes[path]
        mine = removals.is_unittest(file.data) if file else None
        if len(styles) == 1 and mine is not None and mine not in styles:
            findings.append(Finding("FRAMEWORK", "the test uses another framework than its neighbours", path))
    return findings
