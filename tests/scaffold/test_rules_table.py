"""Every row of rules.yaml has examples, and they are true: what breaks a rule is answered with its code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold import ruletable
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.base import snapshot
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.files import File
from execcritic_scaffold.qualification import Qualification
from execcritic_scaffold.qualify import qualify
from execcritic_scaffold.sandbox.registry import get
from execcritic_scaffold.settings import QualifySettings
from execcritic_scaffold.site import Site, open_site
from execcritic_scaffold.store import Store
from execcritic_scaffold.task import EnvironmentSpec

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ruletable.document()
EXAMPLES = [code for code, rule in ruletable.table().items() if rule.fails is not None]
SETTINGS = QualifySettings(repeats=2)
CONTRACT = {
    "entrypoint": "calc.add",
    "trigger": "add(2, 3)",
    "expected_output": "5",
    "issue_evidence": ["add(2, 3) gives -1 instead of 5"],
    "alternative_hypotheses": [],
    "non_assertions": [],
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("rules")
    for path, text in DOCUMENT["repository"].items():
        (folder / "repo" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "repo" / path).write_text(text)
    sandbox = get("bubblewrap")
    if sandbox.probe() is not None:
        sandbox = get("local")
    base = snapshot(folder / "repo", Store(folder / "store"))
    yield open_site(base, sandbox, EnvironmentSpec(), cache=folder / "cache")
    sandbox.close()


def admit(site: Site, example: Any, author: str = "agent", **settings: Any) -> Qualification:
    files: Mapping[str, str] = {"tests/test_new.py": example} if isinstance(example, str) else example
    node = files.get("node", "tests/test_new.py::test_new")
    changes = {path: File(text.encode()) for path, text in files.items() if path != "node"}
    store = site.base.store
    patch = store.diff(site.base.tree, store.edit(site.base.tree, changes))
    contract = CONTRACT | {"test_nodes": [node]}
    submission = Submission(patch, (node,), contract=contract, author=author)
    return qualify(site, submission, DOCUMENT["issue"], SETTINGS.model_copy(update=settings))


@pytest.mark.parametrize("code", EXAMPLES)
def test_what_breaks_a_rule_is_answered_with_its_code(site: Site, code: str) -> None:
    rule = ruletable.table()[code]
    answer = admit(site, rule.fails)
    if rule.agent == "hard":
        assert (answer.status, answer.code) == ("REJECTED", code), answer.detail
        assert answer.next_action
    else:
        assert answer.status == "QUALIFIED", answer.detail
        assert code in {f.code for f in answer.findings}


def test_the_plain_example_keeps_every_rule(site: Site) -> None:
    answer = admit(site, DOCUMENT["plain"])
    assert (answer.status, answer.findings) == ("QUALIFIED", ()), answer.detail


# One of each stage of an admission: the text, the nodes, the runs, the side effects, the last look.
SWITCHED = (
    "MISPLACED",
    "SLEEPS",
    "UNDECLARED_NODE",
    "NO_SOURCE_EXECUTED",
    "WRITES_FILES",
    "VALUE_SHAPE",
    "SETUP_UNSOUND",
)


@pytest.mark.parametrize(
    "code", [*SWITCHED[:2], *(pytest.param(code, marks=pytest.mark.slow) for code in SWITCHED[2:])]
)
def test_a_rule_can_be_switched_off_and_made_hard(site: Site, code: str) -> None:
    example = ruletable.table()[code].fails
    hard = admit(site, example, rules={code: "hard"})
    assert (hard.status, hard.code) == ("REJECTED", code)
    off = admit(site, example, rules={code: "off"})
    assert code != off.code
    assert code not in {f.code for f in off.findings}


def test_a_fixed_rule_cannot_be_switched(site: Site) -> None:
    with pytest.raises(UsageError, match="PASSES_ON_BASE cannot be switched"):
        admit(site, DOCUMENT["plain"], rules={"PASSES_ON_BASE": "off"})
    with pytest.raises(UsageError, match="no admission rule NONSENSE"):
        admit(site, DOCUMENT["plain"], rules={"NONSENSE": "off"})


def test_the_documentation_is_written_from_the_table() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "make_rules.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
