"""Admission on real runs: which failures on Base count, which do not, and what is frozen.

tests/scaffold/test_rules_table.py runs every example of rules.yaml; here are the other causes of each code, and beside
each refused test the nearest one that is admitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from execcritic_scaffold.qualification import Qualification
from execcritic_scaffold.site import Site
from tests.scaffold.harness import Files, Lab, codes, offer

PKG = """import json


class Reply:
    def __init__(self, text):
        self.text = text


def add(a, b):
    return a - b


def find(name):
    return None


def strict(text):
    if not text:
        raise KeyError(text)
    return text


def wrong_key():
    return {"b": 1}


def reply():
    return Reply("x")
"""
OLD = """from pkg import add


def test_zero():
    assert add(1, 0) == 1


def test_negative():
    assert add(0, 1) == -1
"""
HEAD = "import asyncio, os, random, subprocess, sys, time, unittest\nimport pytest\nimport pkg\n"
HEAD += "from pkg import add, find, reply, strict, wrong_key\n\n\n"
FILE = "tests/test_new.py"
NODE = f"{FILE}::test_new"
GOOD = "def test_new():\n    assert add(1, 2) == 3\n"


@pytest.fixture(scope="module")
def bare(lab: Lab) -> Site:
    """A Base without a test: no control run, so one start tells."""
    return lab.site({"pkg/__init__.py": PKG})


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    return lab.site({"pkg/__init__.py": PKG, "tests/test_old.py": OLD})


def ask(site: Site, text: str, *nodes: str, k: int = 1, **more: Any) -> Qualification:
    files: Files = {FILE: HEAD + text, **more.pop("files", {})}
    return offer(site, files, *(nodes or (NODE,)), k=k, **{"soundness": False, **more})


# -- B2, B3: how it fails on Base -----------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, str]] = {
    "passes": ("PASSES_ON_BASE", "def test_new():\n    assert add(1, 0) == 1"),
    "skips itself": ("SKIPPED", "def test_new():\n    if add(1, 2):\n        pytest.skip('x')"),
    "unittest's skip": ("SKIPPED", "class TestX(unittest.TestCase):\n    @unittest.skip('x')\n    def test_new(self):\n"
                        "        self.assertEqual(add(1, 2), 3)"),
    "a strict xfail": ("XFAIL", "@pytest.mark.xfail(strict=True)\n" + GOOD),
    "an xfail that passes": ("XFAIL", "@pytest.mark.xfail\ndef test_new():\n    assert add(1, 0) == 1"),
    "a fixture fails": ("SETUP_ERROR", "@pytest.fixture\ndef f():\n    assert add(1, 2) == 3\n\ndef test_new(f):\n"
                        "    pass"),
    "setUp fails": ("SETUP_ERROR", "class TestX(unittest.TestCase):\n    def setUp(self):\n        strict('')\n"
                    "    def test_new(self):\n        self.assertEqual(add(1, 2), 3)"),
    "clean-up fails": ("SETUP_ERROR", "@pytest.fixture\ndef f():\n    yield\n    strict('')\n\ndef test_new(f):\n"
                       "    add(1, 2)"),
    "a syntax error": ("COLLECTION_ERROR", "def test_new(:\n    pass"),
    "an error at import": ("COLLECTION_ERROR", "strict('')\n" + GOOD),
    "a module that is not there": ("COLLECTION_ERROR", "import not_installed_anywhere\n" + GOOD),
    "os._exit": ("CRASHED", "def test_new():\n    add(1, 2)\n    os._exit(0)"),
    "a signal": ("CRASHED", "def test_new():\n    add(1, 2)\n    os.kill(os.getpid(), 11)"),
    "os._exit at import": ("CRASHED", "os._exit(0)\n" + GOOD),
    "nobody awaits": ("NOT_AWAITED", "class TestX(unittest.TestCase):\n    async def test_new(self):\n"
                      "        self.assertEqual(add(1, 2), 3)"),
    "a misspelt name": ("WRONG_REASON", "def test_new():\n    assert ad(1, 2) == 3"),
    "its own dictionary": ("WRONG_REASON", "def test_new():\n    add(1, 2)\n    {}['x']"),
    "an environment variable": ("WRONG_REASON", "def test_new():\n    assert add(1, 2) == int(os.environ['NOT_SET'])"),
    "a file that is not there": ("WRONG_REASON", "def test_new():\n    open('absent.txt')\n    add(1, 2)"),
    "an absent attribute nobody asked for": ("WRONG_REASON", "def test_new():\n    assert pkg.subtract(3, 1) == 2"),
    "too few arguments": ("WRONG_REASON", "def test_new():\n    assert add(1) == 3"),
    "another name": ("NODE_NOT_FOUND", "def test_other():\n    assert add(1, 2) == 3"),
    "no test at all": ("NO_TESTS_COLLECTED", "def check_new():\n    assert add(1, 2) == 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(bare: Site, name: str) -> None:
    code, text = REFUSED[name]
    node = f"{FILE}::TestX::test_new" if "class TestX" in text else NODE
    answer = ask(bare, text + "\n", node)
    assert (answer.status, answer.code) == ("REJECTED", code), answer.detail
    assert answer.detail and answer.next_action.endswith(".") and answer.bundle is None
    assert code in answer.diagnostics() and len(answer.diagnostics()) <= 6000


ADMITTED = """
def test_assert():
    assert add(1, 2) == 3

def test_not_raised():
    with pytest.raises(ValueError):
        strict("x")

def test_fails_by_a_call():
    if add(1, 2) != 3:
        pytest.fail("x")

class TestX(unittest.TestCase):
    def test_unittest(self):
        self.assertEqual(add(1, 2), 3)

def test_source_raises():
    assert strict("") == ""

def test_helper_asserts():
    check(add(1, 2))

def check(value):
    assert value == 3

def test_awaited():
    async def inner():
        assert add(1, 2) == 3
    asyncio.run(inner())

def test_value():
    assert find("x").name == "x"

def test_key():
    assert wrong_key()["a"] == 1

def test_unpacked():
    found, rest = find("x")
    assert found

def test_attribute():
    assert pkg.subtract(3, 1) == 2

def test_of_an_object():
    assert reply().headline == "X"

def test_keyword():
    assert add(1, 2, strictly=True) == 3

@pytest.mark.parametrize("a", [1, "x y", "é::["])
def test_cases(a):
    assert add(a, 0) == "no" if a == 1 else add(1, 2) == 3
"""
TIERS = {
    "test_assert": "assertion",
    "test_not_raised": "assertion",
    "test_fails_by_a_call": "assertion",
    "TestX::test_unittest": "assertion",
    "test_source_raises": "source-exception",
    "test_helper_asserts": "assertion",
    "test_awaited": "assertion",
    "test_value": "value-shape",
    "test_key": "value-shape",
    "test_attribute": "api-absent",
    "test_of_an_object": "api-absent",
    "test_keyword": "api-absent",
    "test_cases[1]": "assertion",
    "test_cases[x y]": "assertion",
    "test_cases[\\xe9::[]": "assertion",
}
ISSUE = "There should be subtract(), a headline of a reply, and add(..., strictly=True)."


def test_admitted(bare: Site) -> None:
    """Every tier at once, each node frozen with the strength of its evidence."""
    answer = ask(bare, ADMITTED, *(f"{FILE}::{name}" for name in TIERS), issue=ISSUE)
    assert answer.bundle is not None, (answer.detail, answer.log)
    found = {n.removeprefix(f"{FILE}::"): r.tier for n, r in answer.bundle.record.nodes.items()}
    assert found == TIERS
    assert {"VALUE_SHAPE", "API_ABSENT", "NO_CONTROL", "NO_CONTRACT"} <= codes(answer)


def test_unpacking_a_wrong_value_is_of_its_shape(bare: Site) -> None:
    assert ask(bare, ADMITTED, f"{FILE}::test_unpacked").status == "QUALIFIED"


@pytest.mark.parametrize(("tier", "name"), [("tier_value_shape", "test_value"), ("tier_api_absent", "test_attribute")])
def test_a_tier_can_be_switched_off(bare: Site, tier: str, name: str) -> None:
    answer = ask(bare, ADMITTED, f"{FILE}::{name}", issue=ISSUE, **{tier: False})
    assert (answer.status, answer.code) == ("REJECTED", "WRONG_REASON")


def test_a_module_without_a_package(lab: Lab) -> None:
    """A repository of one file is imported from the checkout like any other."""
    site = lab.site({"single.py": PKG})
    text = "from single import find\n\ndef test_new():\n    assert find('x').name == 'x'\n"
    answer = offer(site, {FILE: text}, NODE, k=1, soundness=False)
    assert answer.status == "QUALIFIED" and "VALUE_SHAPE" in codes(answer), answer.detail


IMPORT = "from pkg import multiply\n\ndef test_new():\n    assert multiply(2, 3) == 6\n"


@pytest.mark.parametrize(
    ("text", "issue", "code"),
    [
        (IMPORT, "There is no multiply.", "QUALIFIED"),
        (IMPORT, "There is no multiplication, only multiply_all.", "COLLECTION_ERROR"),
        ("import pkg.newly\n" + GOOD, "It should be in pkg.newly.", "QUALIFIED"),
        ("import elsewhere\n" + GOOD, "add fails for arrays of elsewhere.", "COLLECTION_ERROR"),
    ],
)
def test_an_import_that_fails(bare: Site, text: str, issue: str, code: str) -> None:
    answer = ask(bare, text, issue=issue)
    assert answer.code == code, answer.detail
    if answer.bundle:
        assert answer.bundle.record.nodes[NODE].tier == "api-absent"


def test_too_slow(bare: Site) -> None:
    answer = ask(bare, "def test_new():\n    add(1, 2)\n    time.sleep(60)\n", test_seconds=3)
    assert (answer.status, answer.code) == ("REJECTED", "TIMEOUT")


def test_no_node(bare: Site) -> None:
    assert offer(bare, {FILE: HEAD + GOOD}, k=1).code == "NO_NODES"


@pytest.mark.parametrize("node", ["test_new (tests.test_new)", "test_new", "./tests/test_new.py::test_new"])
def test_other_forms_of_a_node_id(bare: Site, node: str) -> None:
    answer = ask(bare, GOOD, node)
    assert answer.bundle is not None and answer.bundle.reproducing == (NODE,)


# -- A4, A6: nodes and the contract ---------------------------------------------------------------------------------

CONTRACT: Mapping[str, Any] = {
    "entrypoint": "pkg.add",
    "trigger": "add(1, 2)",
    "expected_output": "3",
    "issue_evidence": ["add(1, 2) is -1"],
    "alternative_hypotheses": [],
    "non_assertions": [],
    "test_nodes": [NODE],
}
TWO = GOOD + "\ndef test_more():\n    assert add(2, 2) == 4\n\ndef test_passes():\n    assert add(2, 0) == 2\n"


@dataclass(frozen=True)
class Offer:
    """A test and what it is answered: a code, and findings that must be among those of a qualified one."""

    name: str
    text: str
    code: str
    findings: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


AGENT: Mapping[str, Any] = {"author": "agent", "contract": CONTRACT, "issue": "add(1, 2) is\n-1 and not 3"}
OFFERS = [
    Offer("an agent's test with its contract", GOOD, "QUALIFIED", more=AGENT),
    Offer("an agent gives none", GOOD, "NO_CONTRACT", more={**AGENT, "contract": None}),
    Offer("a person gives none", GOOD, "QUALIFIED", ("NO_CONTRACT",)),
    Offer("a quote that nobody wrote", GOOD, "CONTRACT",
          more={**AGENT, "contract": {**CONTRACT, "issue_evidence": ["it is 4"]}}),
    Offer("a quote from the repository", GOOD, "QUALIFIED",
          more={**AGENT, "contract": {**CONTRACT, "issue_evidence": ["return a - b"]}}),
    Offer("other nodes", GOOD, "CONTRACT", more={**AGENT, "contract": {**CONTRACT, "test_nodes": ["x"]}}),
    Offer("nodes that are none", GOOD, "CONTRACT", more={**AGENT, "contract": {**CONTRACT, "test_nodes": 5}}),
    Offer("nodes of another kind", GOOD, "CONTRACT", more={**AGENT, "contract": {**CONTRACT, "test_nodes": [{}]}}),
    Offer("superseded is no text", GOOD, "SUPERSEDED",
          more={"superseded": ({"node": "x", "issue_quote": ["x"], "reason": "x"},)}),
    Offer("superseded node is null", GOOD, "SUPERSEDED",
          more={"superseded": ({"node": None, "issue_quote": "x", "reason": "x"},)}),
    Offer("an agent does not declare one that fails", TWO, "UNDECLARED_NODE", more=AGENT),
    Offer("a person does not", TWO, "QUALIFIED", ("UNDECLARED_NODE",)),
    Offer("a companion that fails", TWO, "COMPANION_FAILS", more={"companions": (f"{FILE}::test_more",)}),
    Offer("a companion that is not there", TWO, "COMPANION_FAILS", more={"companions": (f"{FILE}::test_x",)}),
    Offer("a companion that passes", TWO, "QUALIFIED", more={"companions": (f"{FILE}::test_passes",)}),
]  # fmt: skip


@pytest.mark.parametrize("row", OFFERS, ids=lambda row: row.name)
def test_offers(bare: Site, row: Offer) -> None:
    answer = ask(bare, row.text, **row.more)
    assert answer.code == row.code, answer.detail
    assert set(row.findings) <= codes(answer)
    if answer.bundle and row.text == TWO:
        assert answer.bundle.companions == (f"{FILE}::test_passes",)


# -- B4, B5, B7: again, otherwise and alone -------------------------------------------------------------------------

FLAKY = {
    "hash seed": "def test_new():\n    assert list({'a', 'b', 'c', 'd', 'e'})[0] == add(1, 2)\n",
    "time zone": "def test_new():\n    assert add(1, time.timezone) == 3\n",
    "chance": "def test_new():\n    assert add(1, random.random()) == 3\n",
    "order": "SEEN = []\n\ndef test_first():\n    SEEN.append(1)\n\ndef test_new():\n    assert add(1, len(SEEN)) == 9\n",
    "an earlier run": "def test_new():\n    seen = os.path.exists('/tmp/seen')\n    open('/tmp/seen', 'w').close()\n"
    "    assert add(1, seen) == 9\n",
}  # fmt: skip


@pytest.mark.parametrize("name", FLAKY)
def test_flaky(bare: Site, name: str) -> None:
    answer = ask(bare, FLAKY[name], k=3 if name == "an earlier run" else 2)
    assert (answer.status, answer.code) == ("REJECTED", "FLAKY"), answer.detail


def test_steady(bare: Site) -> None:
    """What only the printed order, an address or a temporary path distinguishes is one failure."""
    text = "def test_new(tmp_path):\n    (tmp_path / 'x').touch()\n"
    text += "    assert add(1, 2) == 3, ({'a', 'b', 'c', 'd'}, object(), str(tmp_path))\n"
    answer = ask(bare, text, k=3)
    assert answer.status == "QUALIFIED", answer.detail
    assert [run["run"] for run in answer.evidence] == ["whole files", "alone 1", "alone 2"]


def test_a_companion_that_is_not_steady_is_not_frozen(bare: Site) -> None:
    text = GOOD + "\nSEEN = []\n\ndef test_a():\n    SEEN.append(1)\n\ndef test_b():\n    assert SEEN\n"
    answer = ask(bare, text, k=2)
    assert answer.bundle is not None and answer.bundle.companions == (f"{FILE}::test_a",)
    assert "UNSTABLE_COMPANION" in codes(answer)


def test_side_effects(bare: Site) -> None:
    text = """def test_new():
    open("left.txt", "w").close()
    open(os.path.expanduser("~/left.txt"), "w").close()
    subprocess.Popen(["sleep", "60"], start_new_session=True)
    assert add(1, 2) == 3
"""
    answer = ask(bare, text, k=2)
    assert answer.status == "QUALIFIED", answer.detail
    assert {"WRITES_FILES", "WRITES_HOME", "LEAVES_PROCESSES"} <= codes(answer)


@pytest.mark.parametrize(
    "act",
    [
        "open(pkg.__file__, 'a').write('# changed')",
        "os.remove(pkg.__file__)",
        "os.rename(pkg.__file__, pkg.__file__ + '.old')",
    ],
)
def test_it_changes_the_tree(bare: Site, act: str) -> None:
    answer = ask(bare, f"def test_new():\n    {act}\n    assert add(1, 2) == 3\n", k=2)
    assert (answer.status, answer.code) == ("REJECTED", "MODIFIES_TREE"), answer.detail


def test_caches_do_not_count(bare: Site) -> None:
    text = "def test_new():\n    os.makedirs('__pycache__/x', exist_ok=True)\n    assert add(1, 2) == 3\n"
    answer = ask(bare, text, k=2, author="agent", contract=CONTRACT, issue="add(1, 2) is -1")
    assert answer.status == "QUALIFIED" and not codes(answer) & {"WRITES_FILES", "MODIFIES_TREE"}


# -- B1, B6: the neighbours -----------------------------------------------------------------------------------------


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
        (("add(0, 1) == -1", "add(0, 1) == 1"), "NEIGHBOUR_CHANGED", {}),
        (("add(0, 1) == -1", "add(0, 1) == 1"), "QUALIFIED", {"superseded": SUPERSEDED}),
        (("def test_negative", "@pytest.mark.skip\ndef test_negative"), "NEIGHBOUR_CHANGED", {}),
        (("assert add(0, 1) == -1", "assert True"), "TEST_REMOVED", {}),
        (("add(0, 1) == -1", "add(0, 1) in (1, -1)"), "TEST_REMOVED", {}),
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


@pytest.mark.parametrize(
    ("base", "code", "finding"),
    [
        ({"tests/test_old.py": "def test_a():\n    assert 0\n"}, "ENVIRONMENT", ""),
        ({"tests/test_old.py": "import not_installed_anywhere\n"}, "ENVIRONMENT", ""),
        ({"tests/test_old.py": OLD, "pytest.ini": "[pytest]\nminversion = 999\n"}, "RUNNER_USAGE", ""),
        ({"tests/test_old.py": OLD, "pytest.ini": "[pytest]\naddopts = --not-known -q\n"}, "QUALIFIED",
         "OPTIONS_LEFT_OUT"),
        ({"tests/test_old.py": OLD, "conftest.py": "import pytest\n\n@pytest.hookimpl(wrapper=True)\n"
          "def pytest_runtest_makereport(item):\n    item.function.__name__\n    return (yield)\n"}, "QUALIFIED",
         "NO_CANARIES"),
    ],
    ids=["fails", "cannot be imported", "too old a runner", "an unknown option", "hooks of the suite's own"],
)  # fmt: skip
def test_a_base_whose_own_tests_do_not_run(lab: Lab, base: Files, code: str, finding: str) -> None:
    answer = ask(lab.site({"pkg/__init__.py": PKG, **base}), GOOD)
    assert answer.code == code, answer.detail
    assert answer.status == ("QUALIFIED" if code == "QUALIFIED" else "INCONCLUSIVE")
    assert not finding or finding in codes(answer)


def test_code_without_a_file_is_not_the_repositorys(bare: Site) -> None:
    """B8: functions of the interpreter's own frozen modules do not count as source that ran."""
    answer = ask(bare, "def test_new():\n    assert os.path.join('a', 'b') == 'c'\n")
    assert "NO_SOURCE_EXECUTED" in codes(answer)
