"""Every decision that `verify` can take, on real runs: what is FORBIDDEN, FAIL, INCONCLUSIVE, and what alone is PASS."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import PatchError
from execcritic_scaffold.files import EXECUTABLE, GITLINK, SYMLINK, File
from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.policy import Role
from execcritic_scaffold.sandbox.protocol import Command, Completed, Limits, Sandbox, Workspace
from execcritic_scaffold.site import Site
from tests.scaffold.harness import Files, Lab, codes, frozen, judge, offer, open_lab, patch_of

PKG = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
OLD = """from pkg import add, mul

READY = []


def test_zero():
    assert add(1, 0) == 1


def test_mul():
    assert mul(2, 3) == 6


def test_prepares():
    READY.append(1)


def test_needs_the_one_before():
    assert READY and mul(4, 5) == 20
"""
TEST = '''"""A secret docstring."""
from pkg import add


def test_add():
    left, right = 1000, 2345  # a secret comment
    assert add(left, right) == 3345


def test_zero():
    assert add(7, 0) == 7
'''
PYPROJECT = "[project]\nname = 'pkg'\n\n[tool.pytest.ini_options]\nxfail_strict = true\n"
BASE: Files = {"pkg/__init__.py": PKG, "tests/test_old.py": OLD, "pyproject.toml": PYPROJECT}
FROZEN = "tests/new/test_add.py"
ADD = f"{FROZEN}::test_add"
RIGHT = {"pkg/__init__.py": PKG.replace("a - b", "a + b")}
QUICK: Mapping[str, Any] = {"repeats": 1, "guard": "off"}


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    return lab.site(BASE)


@pytest.fixture(scope="module")
def bundle(site: Site) -> FrozenBundle:
    return frozen(site, {FROZEN: TEST}, ADD, soundness=False)


def source(text: str) -> Files:
    """The package with another `add`."""
    return {"pkg/__init__.py": PKG.replace("    return a - b", "    " + text.replace("\n", "\n    "))}


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
    Row("only a comment", {"pkg/__init__.py": PKG + "# a + b\n"}, Decision.FAIL, "FROZEN_TEST"),
    Row("a companion breaks", source("return a + b if b else 0"), Decision.FAIL, "FROZEN_TEST"),
    Row("raises", source("raise ValueError(a)"), Decision.FAIL, "FROZEN_TEST"),
    Row("no Python", source("return a +"), Decision.FAIL, "COLLECT_ERROR"),
    Row("the name is gone", {"pkg/__init__.py": "x = 1\n"}, Decision.FAIL, "COLLECT_ERROR"),
    Row("breaks a neighbour", {"pkg/__init__.py": RIGHT["pkg/__init__.py"].replace("a * b", "abs(a) * b + 1")},
        Decision.FAIL, "GUARD", {"repeats": 1}),
    Row("breaks a neighbour that needs another", {"pkg/__init__.py": RIGHT["pkg/__init__.py"].replace(
        "a * b", "a * b if a != 4 else 0")}, Decision.FAIL, "GUARD", {"repeats": 1}),
    Row("depends on the hash seed", source(ENV), Decision.INCONCLUSIVE, "FLAKY", {"repeats": 2, "guard": "off"}),
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


@pytest.mark.parametrize("change", [{"signature": "FAILED_ASSERT:x:y:z"}, {"base_outcome": "FAILED_EXCEPTION",
                                    "signature": "FAILED_EXCEPTION:builtins.KeyError:pkg/__init__.py#add:0"}])  # fmt: skip
def test_base_does_not_fail_as_recorded(site: Site, bundle: FrozenBundle, change: dict[str, str]) -> None:
    nodes = {**bundle.record.nodes, ADD: bundle.record.nodes[ADD].model_copy(update=change)}
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


# -- feedback ------------------------------------------------------------------------------------------------------


def test_feedback_says_what_failed_and_never_how_the_test_is_written(site: Site, bundle: FrozenBundle) -> None:
    verdict = judge(site, bundle, patch_of(site, source("raise ValueError('no way')")), **QUICK)
    assert "test_add: FAILED_EXCEPTION" in verdict.feedback and "ValueError: no way" in verdict.feedback
    assert "pkg/__init__.py:2 in add" in verdict.feedback
    told = [verdict.feedback, verdict.detail]
    told.append(judge(site, bundle, patch_of(site, source("return a * b")), **QUICK).feedback)
    told.append(judge(site, bundle, patch_of(site, source("return a +")), **QUICK).feedback)
    lines = [line.strip() for line in TEST.splitlines() if len(line.strip()) > 8 and not line.startswith("def ")]
    assert not [line for line in lines for text in told if line in text]


def test_feedback_says_what_changed(site: Site, bundle: FrozenBundle) -> None:
    wrong = patch_of(site, source("return a * b"))
    first = judge(site, bundle, wrong, "agent", **QUICK)
    assert "last check" not in first.feedback
    second = judge(site, bundle, wrong, "agent", first, **QUICK)
    assert second.feedback.startswith("Same failure as at the last check.")
    assert second.signature == first.signature
    third = judge(site, bundle, patch_of(site, source("return 0")), "agent", second, **QUICK)
    assert third.feedback.startswith("The failure differs from the last check's.")


def test_feedback_is_bounded(site: Site, bundle: FrozenBundle) -> None:
    loud = patch_of(site, source("raise ValueError('x' * 100_000)"))
    for limit in (300, 6000):
        verdict = judge(site, bundle, loud, "agent", feedback_characters=limit, **QUICK)
        assert len(verdict.feedback) <= limit and "left out" in verdict.feedback


# -- the guard -----------------------------------------------------------------------------------------------------


def test_a_guard_test_that_fails_on_base_too_is_left_out(lab: Lab) -> None:
    """It passed there only because of a neighbour that does not pass, and so is not in the guard."""
    old = "from pkg import add\nSEEN = []\n\ndef test_a():\n    SEEN.append(1)\n    assert add(1, 1) == 3\n"
    old += "\ndef test_b():\n    assert SEEN\n"
    site = lab.site({"pkg/__init__.py": PKG, "tests/test_old.py": old})
    bundle = frozen(site, {FROZEN: TEST}, ADD, k=1, soundness=False)
    verdict = judge(site, bundle, patch_of(site, RIGHT), repeats=1)
    assert verdict.decision is Decision.PASS
    assert verdict.guard.flaky == ("tests/test_old.py::test_b",) and "FLAKY_GUARD" in codes(verdict)


BREAKS_MUL = {"pkg/__init__.py": RIGHT["pkg/__init__.py"].replace("a * b", "a * b + 1")}
ZERO, MUL = "tests/test_old.py::test_zero", "tests/test_old.py::test_mul"


@pytest.mark.parametrize(
    ("listed", "guarded", "failing"),
    [
        ((ZERO,), 1, ()),
        ((ZERO, MUL), 2, (MUL,)),
        (("test_mul (tests.test_old)",), 1, (MUL,)),
        ((MUL, "tests/test_old.py::test_absent"), 1, (MUL,)),
        ((MUL, "tests/test_absent.py::test_x"), 1, (MUL,)),
        ((ZERO, ADD), 1, ()),
    ],
)
def test_a_listed_guard(
    site: Site, bundle: FrozenBundle, listed: tuple[str, ...], guarded: int, failing: tuple[str, ...]
) -> None:
    verdict = judge(site, bundle, patch_of(site, BREAKS_MUL), repeats=1, guard="list", guard_nodes=listed)
    report = verdict.guard
    assert (report.mode, report.nodes, report.not_run) == ("list", guarded, len(listed) - guarded)
    assert report.newly_failing == failing
    assert verdict.decision is (Decision.FAIL if failing else Decision.PASS)


def test_a_listed_guard_that_cannot_be_measured_gives_no_pass(lab: Lab) -> None:
    """Base's own suite breaks off, so nobody knows what passed there."""
    old = "import os\n\ndef test_a():\n    os._exit(0)\n\ndef test_b():\n    pass\n"
    site = lab.site({"pkg/__init__.py": PKG, "tests/test_old.py": OLD, "tests/far/away/deep/test_exit.py": old})
    bundle = frozen(site, {FROZEN: TEST}, ADD, k=1, soundness=False, guard="off")
    nodes = ("tests/far/away/deep/test_exit.py::test_b",)
    verdict = judge(site, bundle, patch_of(site, RIGHT), repeats=1, guard="list", guard_nodes=nodes)
    assert verdict.decision is Decision.INCONCLUSIVE


# -- what may not matter -------------------------------------------------------------------------------------------


def essence(verdict: Verdict) -> tuple[object, ...]:
    """A verdict without its times."""
    guard = replace(verdict.guard, seconds=0)
    return (verdict.decision, verdict.reason, dict(verdict.nodes), guard, verdict.findings, verdict.feedback,
            verdict.signature)  # fmt: skip


def test_the_order_of_files_in_a_patch(site: Site, bundle: FrozenBundle) -> None:
    files = {**source("from pkg.zero import nil\nreturn a * b + nil"), "pkg/zero.py": "nil = 0\n", "a.txt": "x\n"}
    parts = re.split(rb"(?m)^(?=diff --git )", patch_of(site, files))[1:]
    assert len(parts) == 3
    one, other = (judge(site, bundle, b"".join(p), **QUICK) for p in (parts, parts[::-1]))
    assert essence(one) == essence(other) and one.decision is Decision.FAIL


def test_another_checkout_of_the_same_base(site: Site, bundle: FrozenBundle, tmp_path: Path) -> None:
    """Other folders, other modification times, nothing cached."""
    with open_lab(tmp_path) as lab:
        elsewhere = lab.site(BASE)
        for patch in (patch_of(site, RIGHT), patch_of(site, source("return a * b"))):
            assert essence(judge(elsewhere, bundle, patch, **QUICK)) == essence(judge(site, bundle, patch, **QUICK))


def test_the_options_of_the_bundle_are_used_again(lab: Lab) -> None:
    """An option that this environment does not know was left out when the test was admitted."""
    site = lab.site({**BASE, "pyproject.toml": None, "pytest.ini": "[pytest]\naddopts = --option-of-a-plugin\n"})
    answer = offer(site, {FROZEN: TEST}, ADD, k=1, soundness=False)
    assert answer.bundle is not None and "OPTIONS_LEFT_OUT" in codes(answer), answer
    verdict = judge(site, answer.bundle, patch_of(site, RIGHT), **QUICK)
    assert verdict.decision is Decision.PASS, verdict


class Counted:
    """A sandbox that counts its runs."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.runs = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def run(self, workspace: Workspace, command: Command, limits: Limits, **more: bool) -> Completed:
        self.runs += 1
        return self._sandbox.run(workspace, command, limits, **more)


def test_a_second_verify_does_nothing_again_that_depends_on_base(
    site: Site, bundle: FrozenBundle, tmp_path: Path
) -> None:
    counted = Counted(site.sandbox)
    cold = replace(site, sandbox=counted, cache=tmp_path)
    patch = patch_of(site, RIGHT)
    settings = {"repeats": 1, "guard": "list", "guard_nodes": ("tests/test_old.py::test_zero",)}
    judge(cold, bundle, patch, **settings)
    first, counted.runs = counted.runs, 0
    judge(cold, bundle, patch, **settings)
    assert (first, counted.runs) == (4, 2)


def test_side_by_side_in_threads(site: Site, bundle: FrozenBundle, tmp_path: Path) -> None:
    cold = replace(site, cache=tmp_path)
    patches = [patch_of(site, RIGHT), patch_of(site, source("return a * b"))] * 2
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda patch: judge(cold, bundle, patch, **QUICK), patches))
    assert [v.decision for v in verdicts] == [Decision.PASS, Decision.FAIL] * 2
    assert essence(verdicts[1]) == essence(verdicts[3])


def test_side_by_side_in_processes(site: Site, bundle: FrozenBundle, tmp_path: Path) -> None:
    cold = replace(site, cache=tmp_path)
    patches = [patch_of(site, RIGHT), patch_of(site, source("return a * b"))]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        verdicts = list(pool.map(judge, [cold] * 2, [bundle] * 2, patches))
    assert [v.decision for v in verdicts] == [Decision.PASS, Decision.FAIL]
