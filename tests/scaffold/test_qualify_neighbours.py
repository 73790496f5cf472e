"""The neighbours (B1, B6): they are the control, they keep their meaning, and they become the guard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from execcritic_scaffold.site import Site
from tests.scaffold.harness import Files, Lab, codes, offer
from tests.scaffold.qualified import AGENT, CONTRACT, FILE, GOOD, HEAD, NODE, OLD, PKG, ask


@pytest.fixture(scope="module")
def bare(lab: Lab) -> Site:
    """A Base without a test: no control run, so one start tells."""
    return lab.site({"pkg/__init__.py": PKG})


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    return lab.site({"pkg/__init__.py": PKG, "tests/test_old.py": OLD})


def test_neighbours_are_the_control_and_the_guard(site: Site) -> None:
    answer = ask(site, GOOD)
    assert answer.bundle is not None and "NO_CONTROL" not in codes(answer)
    assert set(answer.bundle.record.guard) == {"tests/test_old.py::test_zero", "tests/test_old.py::test_negative"}


OLD_TOO = OLD + "\n\ndef test_new():\n    assert add(1, 2) == 3\n"
TO_OLD = "tests/test_old.py::test_new"
SUPERSEDED = ({"node": "tests/test_old.py::test_negative", "issue_quote": "must be 1", "reason": "encodes the bug"},)


@pytest.mark.parametrize(
    ("change", "code", "more"),
    [
        (("", ""), "QUALIFIED", {}),
        (("add(0, 1) == -1", "add(0, 1) == 1"), "TEST_WEAKENED", {}),
        (("add(0, 1) == -1", "add(0, 1) == 1"), "QUALIFIED", {"superseded": SUPERSEDED}),
        (("def test_negative", "@pytest.mark.skip\ndef test_negative"), "NEIGHBOUR_CHANGED", {}),
        (("assert add(0, 1) == -1", "assert True"), "TEST_WEAKENED", {}),
        (("add(0, 1) == -1", "add(0, 1) in (1, -1)"), "TEST_WEAKENED", {}),
    ],
)
def test_existing_tests_keep_their_meaning(
    site: Site, change: tuple[str, str], code: str, more: Mapping[str, Any]
) -> None:
    contract = {**CONTRACT, "test_nodes": [TO_OLD]}
    offered = {**AGENT, "contract": contract, "issue": "add(1, 2) is -1; add(0, 1) must be 1", **more}
    text = "import pytest\n" + (OLD_TOO.replace(*change) if change[0] else OLD_TOO)
    answer = offer(site, {"tests/test_old.py": text}, TO_OLD, k=1, soundness=False, **offered)
    assert answer.code == code, answer.detail
    if more:
        assert "SUPERSEDED" in codes(answer) and answer.bundle is not None
        assert SUPERSEDED[0]["node"] not in answer.bundle.record.guard


CASES = """import pytest

from pkg import add


@pytest.mark.parametrize("b, want", [(1, -1), (0, 0)])
def test_both(b, want):
    assert add(0, b) == want


class TestMore:
    def test_both(self):
        assert add(0, 0) == 0
"""
BOTH = "tests/test_cases.py::test_both"


@pytest.mark.parametrize(
    ("node", "change", "code"),
    [
        (f"{BOTH}[1--1]", ("(1, -1)", "(1, 1)"), "QUALIFIED"),
        (f"{BOTH}[1--1]", ("(1, -1), (0, 0)", "(1, 1)"), "NEIGHBOUR_CHANGED"),  # the other case goes too
        (f"{BOTH}[1--1]", ("add(0, b) == want", "add(0, b) in (want, b)"), "TEST_WEAKENED"),
        (BOTH, ("(1, -1), (0, 0)", "(1, 1)"), "QUALIFIED"),
        (BOTH, ("def test_both(self)", "def test_neither(self)"), "TEST_REMOVED"),
        (f"{BOTH}[7-7]", ("(1, -1)", "(1, 1)"), "SUPERSEDED"),
        ("tests/test_nowhere.py::test_both", ("(1, -1)", "(1, 1)"), "SUPERSEDED"),
    ],
)
def test_a_superseded_test_is_the_declared_one(lab: Lab, node: str, change: tuple[str, str], code: str) -> None:
    site = lab.site({"pkg/__init__.py": PKG, "tests/test_old.py": OLD, "tests/test_cases.py": CASES})
    entry = {"node": node, "issue_quote": "must be 1", "reason": "encodes the bug"}
    offered = {**AGENT, "issue": "add(1, 2) is -1; add(0, 1) must be 1", "superseded": (entry,)}
    files: Files = {FILE: HEAD + GOOD, "tests/test_cases.py": CASES.replace(*change)}
    rules: dict[str, Any] = {"UNDECLARED_NODE": "warn"}
    answer = offer(site, files, NODE, k=1, soundness=False, rules=rules, **offered)
    assert answer.code == code, answer.detail
    if answer.bundle is not None:
        guard = set(answer.bundle.record.guard)
        assert "tests/test_cases.py::TestMore::test_both" in guard and f"{BOTH}[1--1]" not in guard
        assert (f"{BOTH}[0-0]" in guard) == ("[" in node)


def test_a_person_may_change_neighbours(site: Site) -> None:
    text = OLD_TOO.replace("add(0, 1) == -1", "add(0, 1) == 1")
    answer = offer(site, {"tests/test_old.py": text}, TO_OLD, k=1, soundness=False)
    assert answer.status == "QUALIFIED" and "NEIGHBOUR_CHANGED" in codes(answer)


def test_shared_fixtures_must_leave_the_neighbours_alone(site: Site) -> None:
    """A2: a new conftest.py is admitted only where existing tests of its folder keep their status."""
    conftest = "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef broken(request):\n"
    conftest += "    if 'test_old' in request.node.nodeid:\n        raise OSError\n"
    harmless = conftest.replace("raise OSError", "pass")
    for text, code in ((harmless, "QUALIFIED"), (conftest, "NEIGHBOUR_CHANGED")):
        answer = ask(site, GOOD, files={"tests/conftest.py": text}, **AGENT)
        assert answer.code == code, answer.detail


HOOKS = """import pytest

SEEN = {}


def pytest_collection_modifyitems(items):
    SEEN.update((item.name, item) for item in items)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    SEEN[item.name]
    yield
"""
INI = "[pytest]\n"


@pytest.mark.parametrize(
    ("base", "code", "finding"),
    [
        ({"tests/test_old.py": "def test_a():\n    assert 0\n"}, "ENVIRONMENT", ""),
        ({"tests/test_old.py": "import not_installed_anywhere\n"}, "ENVIRONMENT", ""),
        ({"tests/test_old.py": OLD, "pytest.ini": f"{INI}minversion = 999\n"}, "RUNNER_USAGE", ""),
        ({"tests/test_old.py": OLD, "pytest.ini": f"{INI}addopts = --not-known -q\n"}, "QUALIFIED", "OPTIONS_LEFT_OUT"),
        ({"tests/test_old.py": OLD, "conftest.py": HOOKS}, "QUALIFIED", "NO_CANARIES"),
    ],
    ids=["fails", "cannot be imported", "too old a runner", "an unknown option", "hooks of the suite's own"],
)
def test_a_base_whose_own_tests_do_not_run(lab: Lab, base: Files, code: str, finding: str) -> None:
    answer = ask(lab.site({"pkg/__init__.py": PKG, **base}), GOOD)
    assert answer.code == code, answer.detail
    assert answer.status == ("QUALIFIED" if code == "QUALIFIED" else "INCONCLUSIVE")
    assert not finding or finding in codes(answer)


def test_code_without_a_file_is_not_the_repositorys(bare: Site) -> None:
    """B8: functions of the interpreter's own frozen modules do not count as source that ran."""
    text = "import os\n\n\ndef test_new():\n    assert os.path.join('a', 'b') == 'c'\n"
    answer = offer(bare, {FILE: text}, NODE, k=1, soundness=False)
    assert "NO_SOURCE_EXECUTED" in codes(answer)
