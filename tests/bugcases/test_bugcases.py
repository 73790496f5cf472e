"""Public bug reports as small fixtures (../shared/bugcases): each is asked through the console script.

What is compared is only what case.json says. `answers` are sentences such as "REJECTED: crashed" or "PASS, flagged in
the report": the first word is the status, "flagged" wants a finding, "naming X" wants X in the answer. A rejection
must be for a reason of one of the kinds in `expected.reason_any_of`; CODES says which of our codes are of which kind.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _console import Answer, execcritic
from _realset import commit

from execcritic_scaffold.base import snapshot
from execcritic_scaffold.site import default_python
from execcritic_scaffold.store import Store

CASES = Path(__file__).resolve().parents[3] / "shared" / "bugcases"
Case = dict[str, Any]

CODES = {
    "collection_error": {"COLLECTION_ERROR"},
    "crashed": {"CRASHED"},
    "environment_error": {"ENVIRONMENT"},
    "fixture_error": {"SETUP_ERROR"},
    "flaky": {"FLAKY"},
    "import_error": {"COLLECTION_ERROR"},
    "internal_error": {"COLLECTION_ERROR", "RUNNER_USAGE"},
    "leaked_process": {"LEAVES_PROCESSES"},
    "missing_report": {"NO_REPORT", "REPORT_EXIT_MISMATCH"},
    "modifies_tree": {"MODIFIES_TREE"},
    "no_tests_collected": {"NO_TESTS_COLLECTED", "NO_TEST_FILE"},
    "passes_on_base": {"PASSES_ON_BASE"},
    "setup_error": {"SETUP_ERROR"},
    "state_leak": {"FLAKY", "WRITES_HOME", "WRITES_FILES", "MODIFIES_TREE"},
    "usage_error": {"RUNNER_USAGE"},
    "wrong_reason": {"WRONG_REASON"},
    "xfail": {"XFAIL"},
}
"""Our codes for each kind of reason that the cases name for a rejection."""


def load() -> list[Case]:
    cases = [json.loads(file.read_text()) for file in sorted(CASES.glob("*/case.json"))]
    return [case for case in cases if case["stage"] in ("qualify", "verify")]


pytestmark = [
    pytest.mark.bubblewrap,
    pytest.mark.skipif(not CASES.is_dir(), reason="../shared/bugcases is not here"),
]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of the program for all cases."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def home(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HOME, as the cases ask for."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return tmp_path / "home"


@pytest.fixture
def repo(case: Case, tmp_path: Path, home: Path) -> Path:
    """Base: the case's repository with one commit, and the doings of its setup.sh unless those are what is verified."""
    tree = tmp_path / "repo"
    shutil.copytree(CASES / case["id"] / "repo", tree, symlinks=True)
    commit(tree)
    if "patch" in case:
        run_setup(case, tree)
    return tree


@pytest.mark.parametrize("case", load(), ids=lambda case: case["id"])
def test_public_report(case: Case, repo: Path, tmp_path: Path) -> None:
    qualified = qualify(case, repo, tmp_path)
    if case["stage"] == "qualify":
        check(case, qualified)
    else:
        assert qualified.status == "QUALIFIED", (qualified.body, qualified.stderr)
        check(case, verify(case, repo, tmp_path, patch_of(case, repo, tmp_path)))
    if control := case.get("control_patch"):
        answer = verify(case, repo, tmp_path, CASES / case["id"] / control)
        assert case["control_expected"] == "VERIFIED" and answer.status == "PASS", (answer.body, answer.stderr)


def qualify(case: Case, repo: Path, tmp_path: Path) -> Answer:
    """Freeze the case's test, offered as a person's own."""
    laid = tmp_path / "laid"
    shutil.copytree(repo, laid, symlinks=True)
    shutil.copytree(CASES / case["id"] / case["test_dir"], laid, dirs_exist_ok=True)
    patch, issue = tmp_path / "test.patch", tmp_path / "issue.md"
    patch.write_bytes(git(laid, "add", "-A", "-f") + git(laid, "diff", "--cached", "--binary", "HEAD"))
    issue.write_text(case["issue"] + "\n")
    declared = [word for node in nodes(case, laid) for word in ("--node", node)]
    return ask(case, repo, "qualify", "--repo", repo, "--issue", issue, "--test-patch", patch, *declared,
               "--python", default_python(), "--out", tmp_path / "run")  # fmt: skip


def verify(case: Case, repo: Path, tmp_path: Path, patch: Path) -> Answer:
    return ask(case, repo, "verify", "--bundle", tmp_path / "run", "--repo", repo, "--patch", patch)


def ask(case: Case, repo: Path, *argv: str | Path) -> Answer:
    """Call the console script from inside the repository, with the case's variables set."""
    limit = case.get("limit_s", 120)
    try:
        answer = execcritic(*argv, env=case.get("env"), cwd=repo, limit=limit)
    except subprocess.TimeoutExpired:
        pytest.fail(f"no answer within {limit} s")
    assert not answer.orphans, "processes were left behind"
    return answer


def nodes(case: Case, laid: Path) -> list[str]:
    """The nodes to declare: what fails by hand where the case counts it, else every function of the test file that
    is a test (or stands where one should be)."""
    if "failing" in case["expected"]:
        return failing_by_hand(laid, case["test_file"])
    tree = ast.parse((laid / case["test_file"]).read_bytes())
    found = list(functions(tree, case["test_file"]))
    return [node for node in found if node.split("::")[-1].startswith("test")] or found


def functions(tree: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
    for part in tree.body:
        if isinstance(part, ast.FunctionDef):
            yield f"{prefix}::{part.name}"
        elif isinstance(part, ast.ClassDef):
            yield from functions(part, f"{prefix}::{part.name}")


def failing_by_hand(laid: Path, file: str) -> list[str]:
    program = (
        "import json, pytest, sys\n"
        "class Seen:\n"
        "    failed = []\n"
        "    def pytest_runtest_logreport(self, report):\n"
        "        self.failed += [report.nodeid] if report.failed else []\n"
        "pytest.main(['-q', '-p', 'no:cacheprovider', sys.argv[1]], plugins=[Seen()])\n"
        "json.dump(Seen.failed, open(sys.argv[2], 'w'))\n"
    )
    out = laid.with_suffix(".json")
    subprocess.run([sys.executable, "-c", program, file, out], cwd=laid, check=True, capture_output=True)
    failed: list[str] = json.loads(out.read_text())
    return failed


def patch_of(case: Case, repo: Path, tmp_path: Path) -> Path:
    """The patch to verify; where the case has none, what an agent's doings (setup.sh) left in the tree."""
    if "patch" in case:
        return CASES / case["id"] / case["patch"]
    store = Store(tmp_path / "store")
    before = snapshot(repo, store).tree
    run_setup(case, repo)
    first = tmp_path / "extracted.diff"
    first.write_bytes(store.diff(before, snapshot(repo, store).tree))
    return first


def run_setup(case: Case, tree: Path) -> None:
    if script := case.get("setup"):
        subprocess.run(["bash", CASES / case["id"] / script], cwd=tree, check=True, capture_output=True)


def git(tree: Path, *argv: str) -> bytes:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", *argv], cwd=tree, env=env, check=True, capture_output=True).stdout


def check(case: Case, answer: Answer) -> None:
    """Fail unless the answer is one of the case's right ones and none of its wrong ones."""
    told = (case["id"], case["what"], answer.body, answer.stderr[-2000:])
    assert not any(is_same(wrong, answer) for wrong in case.get("never") or []), told
    assert any(is_right(right, case, answer) for right in case["answers"]), told
    if answer.status == "QUALIFIED" and "passing" in case["expected"]:
        record = json.loads(next(Path(answer.body["bundle"]).rglob("bundle.json")).read_text())
        kinds = [node["kind"] for node in record["nodes"].values()]
        assert kinds.count("reproducing") == case["expected"]["failing"], told
        assert kinds.count("companion") == case["expected"]["passing"], told


def is_same(sentence: str, answer: Answer) -> bool:
    """Whether a sentence of `never` describes the answer."""
    if "without a finding" in sentence:
        return sentence.startswith(answer.status) and not answer.body["findings"]
    return re.match(rf"{answer.status}\b", sentence) is not None


def is_right(sentence: str, case: Case, answer: Answer) -> bool:
    """Whether a sentence of `answers` describes the answer."""
    if not re.match(rf"{answer.status}\b", sentence):
        return False
    if answer.status == "REJECTED":
        kinds = case["expected"]["reason_any_of"]
        return any(answer.body["code"] in CODES[kind] for kind in kinds)
    named = re.search(r"naming (\S+?),", sentence)
    return (not named or named.group(1) in json.dumps(answer.body)) and (
        "flagged" not in sentence or bool(answer.body["findings"])
    )
