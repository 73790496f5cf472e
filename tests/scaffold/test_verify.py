"""Every decision of `verify` on real runs: what is FORBIDDEN, FAIL or INCONCLUSIVE, and what alone is PASS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.files import EXECUTABLE, GITLINK, SYMLINK, File
from execcritic_scaffold.outcome import Decision
from execcritic_scaffold.policy import Role
from execcritic_scaffold.site import Site
from tests.scaffold.harness import Files, Lab, codes, frozen, judge, patch_of
from tests.scaffold.verified import ADD, BASE, FROZEN, PKG, PYPROJECT, QUICK, RIGHT, TEST, Counted, source


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    return lab.site(BASE)


@pytest.fixture(scope="module")
def bundle(site: Site) -> FrozenBundle:
    return frozen(site, {FROZEN: TEST}, ADD, soundness=False)


def test_pass(site: Site, bundle: FrozenBundle) -> None:
    verdict = judge(site, bundle, patch_of(site, RIGHT))
    assert (verdict.decision, verdict.reason) == (Decision.PASS, "PASS"), verdict
    assert verdict.nodes == {ADD: "PASSED", f"{FROZEN}::test_zero": "PASSED"}
    assert (verdict.guard.mode, verdict.guard.nodes, verdict.guard.passed) == ("auto", 4, 4)
    assert [run["status"] for run in verdict.runs] == ["VALID", "VALID"]
    assert codes(verdict) <= {"NOT_ISOLATED"}


@dataclass(frozen=True)
class Row:
    """A patch, and what it must be answered."""

    name: str
    files: Files
    decision: Decision
    reason: str
    settings: Mapping[str, Any] = field(default_factory=lambda: QUICK)
    findings: tuple[str, ...] = ()
    role: Role = "person"


ENV = "import os\nreturn a + b if os.environ['PYTHONHASHSEED'] == '0' else 0"
RUN = [
    Row("wrong", source("return a * b"), Decision.FAIL, "FROZEN_TEST"),
    Row("only a comment", {"pkg/__init__.py": PKG + "# a + b\n"}, Decision.FAIL, "NO_EFFECT"),
    Row("a companion breaks", source("return a + b if b else 0"), Decision.FAIL, "FROZEN_TEST"),
    Row("raises", source("raise ValueError(a)"), Decision.FAIL, "FROZEN_TEST"),
    Row("no Python", source("return a +"), Decision.FAIL, "COLLECT_ERROR", findings=("SOURCE_UNREADABLE",)),
    Row("the name is gone", {"pkg/__init__.py": "x = 1\n"}, Decision.FAIL, "COLLECT_ERROR"),
    Row("breaks a neighbour", {"pkg/__init__.py": RIGHT["pkg/__init__.py"].replace("a * b", "abs(a) * b + 1")},
        Decision.FAIL, "GUARD", {"repeats": 1}),
    Row("breaks a neighbour that needs another", {"pkg/__init__.py": RIGHT["pkg/__init__.py"].replace(
        "a * b", "a * b if a != 4 else 0")}, Decision.FAIL, "GUARD", {"repeats": 1}),
    Row("depends on the hash seed", source(ENV), Decision.INCONCLUSIVE, "FLAKY", {"repeats": 2, "guard": "off"},
        ("READS_ENVIRONMENT",)),
    Row("hangs", source("while True: pass"), Decision.INCONCLUSIVE, "TIMEOUT",
        {"repeats": 1, "guard": "off", "test_seconds": 4}),
    Row("crashes", source("import os\nos.abort()"), Decision.INCONCLUSIVE, "CRASHED",
        findings=("KILLS_PROCESS",)),
    Row("leaves", source("import sys\nsys.exit(0)"), Decision.FAIL, "FROZEN_TEST"),
    Row("skips", source("import unittest\nraise unittest.SkipTest"), Decision.INCONCLUSIVE, "NOT_EXECUTED"),
    Row("says it is another file", {"pkg/__init__.py": "__file__ = '/usr/lib/pkg.py'\n" + RIGHT["pkg/__init__.py"]},
        Decision.INCONCLUSIVE, "WRONG_IMPORT_TARGET"),
    Row("brings its own test too", {**RIGHT, "tests/test_mine.py": "def test_x():\n    assert 0\n"}, Decision.PASS,
        "PASS", findings=("SET_ASIDE",)),
    Row("changes a test too", {**RIGHT, "tests/test_old.py": "assert 0\n"}, Decision.PASS, "PASS",
        findings=("SET_ASIDE",)),
    Row("brings the frozen test itself", {**RIGHT, FROZEN: TEST}, Decision.PASS, "PASS"),
    Row("brings it executable", {**RIGHT, FROZEN: File(TEST.encode(), EXECUTABLE)}, Decision.PASS, "PASS"),
    Row("an agent brings the frozen test itself", {**RIGHT, FROZEN: TEST}, Decision.PASS, "PASS", role="agent"),
    Row("soft screening", {**RIGHT, "pkg/more.py": "import gc, atexit\n"}, Decision.PASS, "PASS",
        findings=("INTERPRETER_INTERNALS", "EXIT_HANDLER")),
    Row("the frozen values", source("return 3345 if a == 1000 else a + b"), Decision.PASS, "PASS",
        findings=("REPEATS_TEST_INPUT",)),
    Row("build configuration", {**RIGHT, "pyproject.toml": PYPROJECT.replace("'pkg'", "'other'")}, Decision.PASS,
        "PASS", findings=("CONFIGURATION",)),
]  # fmt: skip


@pytest.mark.parametrize("row", RUN, ids=lambda row: row.name)
def test_runs(site: Site, bundle: FrozenBundle, row: Row) -> None:
    verdict = judge(site, bundle, patch_of(site, row.files), row.role, **row.settings)
    assert (verdict.decision, verdict.reason) == (row.decision, row.reason), (verdict.detail, verdict.guard)
    assert codes(verdict) - {"NOT_ISOLATED"} == set(row.findings)
    assert verdict.detail
    assert verdict.decision in (Decision.PASS,) or verdict.feedback, "the Repair agent is told something"


def forbidden(name: str, reason: str, files: Files, role: Role = "person") -> Row:
    return Row(name, files, Decision.FORBIDDEN, reason, role=role)


def answered(name: str, files: Files, findings: tuple[str, ...] = ()) -> Row:
    return Row(name, files, Decision.FAIL, "EMPTY_PATCH", findings=findings)


STATIC = [
    answered("nothing", {}),
    answered("only the frozen test", {FROZEN: TEST}),
    answered("only a test of its own", {"tests/test_mine.py": ""}, ("SET_ASIDE",)),
    forbidden("changes the frozen test", "FROZEN_FILE", {**RIGHT, FROZEN: TEST + "\n"}),
    forbidden("a file where its folder is", "FROZEN_FILE", {**RIGHT, "tests/new": ""}),
    forbidden("another mode, by an agent", "FROZEN_FILE", {**RIGHT, FROZEN: File(TEST.encode(), EXECUTABLE)}, "agent"),
    forbidden("a link", "SPECIAL_FILE", {**RIGHT, "pkg/x.py": File(b"../tests/test_old.py", SYMLINK)}),
    forbidden("a submodule", "SPECIAL_FILE", {**RIGHT, "sub": File(b"1" * 40, GITLINK)}),
    forbidden(".pth", "STARTUP_HOOK", {**RIGHT, "x.pth": "import os"}),
    forbidden("sitecustomize", "STARTUP_HOOK", {**RIGHT, "sitecustomize.py": ""}),
    forbidden("byte code", "STARTUP_HOOK", {**RIGHT, "pkg/__pycache__/__init__.cpython-311.pyc": b"\0"}),
    forbidden("plugin metadata", "STARTUP_HOOK", {**RIGHT, "x.egg-info/entry_points.txt": ""}),
    forbidden("submodule list", "VCS_DATA", {**RIGHT, ".gitmodules": ""}),
    forbidden("conftest at the root", "CONFTEST", {**RIGHT, "conftest.py": ""}),
    forbidden("conftest of the tests", "CONFTEST", {**RIGHT, "tests/conftest.py": ""}),
    forbidden("new runner configuration", "RUNNER_CONFIG", {**RIGHT, "pytest.ini": "[pytest]\naddopts = -k x\n"}),
    forbidden("the runner's section", "RUNNER_CONFIG", {**RIGHT, "pyproject.toml": PYPROJECT + "addopts = '-x'\n"}),
    forbidden("its section gone", "RUNNER_CONFIG", {**RIGHT, "pyproject.toml": "[project]\nname = 'pkg'\n"}),
    forbidden("a section of its own", "RUNNER_CONFIG", {**RIGHT, "tox.ini": "[pytest]\naddopts = -x\n"}),
    forbidden("shadows the runner", "SHADOWS_MODULE", {**RIGHT, "pytest.py": ""}),
    forbidden("shadows the library", "SHADOWS_MODULE", {**RIGHT, "json/__init__.py": ""}),
    forbidden("screened", "IMPORTS_RUNNER", {"pkg/__init__.py": "import _pytest\n" + RIGHT["pkg/__init__.py"]}),
    forbidden("an agent's own test", "TEST_MODIFIED", {**RIGHT, "tests/test_mine.py": ""}, "agent"),
    forbidden("an agent's test data", "TEST_MODIFIED", {**RIGHT, "tests/data.txt": ""}, "agent"),
    forbidden("an agent deletes a test", "TEST_MODIFIED", {**RIGHT, "tests/test_old.py": None}, "agent"),
]


@pytest.mark.parametrize("row", STATIC, ids=lambda row: row.name)
def test_nothing_is_run_for_these(site: Site, bundle: FrozenBundle, row: Row) -> None:
    counted = Counted(site.sandbox)
    verdict = judge(replace(site, sandbox=counted), bundle, patch_of(site, row.files), row.role)
    assert (verdict.decision, verdict.reason) == (row.decision, row.reason), verdict.detail
    assert set(row.findings) <= codes(verdict)
    assert verdict.feedback and not counted.runs


@pytest.mark.parametrize("patch", [b"", b"\n \n"])
def test_an_empty_patch(site: Site, bundle: FrozenBundle, patch: bytes) -> None:
    assert judge(site, bundle, patch).reason == "EMPTY_PATCH"


@pytest.mark.parametrize(
    "patch",
    [
        b"not a patch\n",
        b"--- a/pkg/__init__.py\n+++ b/pkg/__init__.py\n@@ -1 +1 @@\n-of another Base\n+x\n",
        b"--- /dev/null\n+++ b/../x.py\n@@ -0,0 +1 @@\n+x\n",
    ],
)
def test_a_patch_that_cannot_be_applied_is_an_error_with_the_next_step(
    site: Site, bundle: FrozenBundle, patch: bytes
) -> None:
    with pytest.raises(PatchError, match=r"; .*\.$|\. .*\.$"):
        judge(site, bundle, patch)


def test_a_patch_that_is_too_large(site: Site, bundle: FrozenBundle) -> None:
    patch = patch_of(site, RIGHT)
    with pytest.raises(PatchError, match="leave generated files out"):
        judge(site, bundle, patch, patch_bytes=len(patch) - 1)


def test_another_base(lab: Lab, bundle: FrozenBundle) -> None:
    other = lab.site({**BASE, "README": "x"})
    verdict = judge(other, bundle, patch_of(other, RIGHT))
    assert (verdict.decision, verdict.reason) == (Decision.INCONCLUSIVE, "BASE_NOT_FOUND")


@pytest.mark.parametrize(
    "signature", ["FAILED_ASSERT:x:y:z", "FAILED_EXCEPTION:builtins.KeyError:pkg/__init__.py#add:0"]
)
def test_base_does_not_fail_as_recorded(site: Site, bundle: FrozenBundle, signature: str) -> None:
    nodes = {**bundle.record.nodes, ADD: bundle.record.nodes[ADD].model_copy(update={"signature": signature})}
    other = replace(bundle, record=bundle.record.model_copy(update={"nodes": nodes}))
    verdict = judge(site, other, patch_of(site, RIGHT))
    assert (verdict.decision, verdict.reason) == (Decision.INCONCLUSIVE, "BASE_NOT_REPRODUCED")
    assert verdict.feedback


def test_another_environment_is_a_finding(lab: Lab, bundle: FrozenBundle) -> None:
    environment = {**bundle.record.environment, "digest": "another"}
    other = replace(bundle, record=bundle.record.model_copy(update={"environment": environment}))
    site = lab.site(BASE)
    verdict = judge(site, other, patch_of(site, RIGHT), **QUICK)
    assert verdict.decision is Decision.PASS and "ENVIRONMENT_DIFFERS" in codes(verdict)


AFTER_THE_END = """import os

if os.fork() == 0:
    parent = os.getppid()
    while os.getppid() == parent:
        pass
    for descriptor in range(3, 12):
        try:
            os.write(descriptor, %r)
        except OSError:
            pass
    os.kill(os.getpid(), 9)
__file__ = "/usr/lib/pkg.py"
"""


@pytest.mark.parametrize("text", [b"x", b'{"imports": {}}', b"x\n"])
def test_what_a_child_writes_after_the_end(site: Site, bundle: FrozenBundle, text: bytes) -> None:
    """It neither stops the harness nor stands for the end record that it follows."""
    forged = AFTER_THE_END % text
    verdict = judge(site, bundle, patch_of(site, {"pkg/__init__.py": forged + RIGHT["pkg/__init__.py"]}), **QUICK)
    assert verdict.decision in (Decision.TAMPERED, Decision.INCONCLUSIVE), verdict
