"""Which failures on Base count (B2, B3), on real runs.

tests/scaffold/test_rules_table.py runs every example of rules.yaml; here are the other causes of each code, and beside
what is refused the nearest that is admitted.
"""

from __future__ import annotations

import pytest

from execcritic_scaffold.site import Site
from tests.scaffold.harness import Lab, codes, offer
from tests.scaffold.qualified import FILE, GOOD, HEAD, NODE, PKG, ask


@pytest.fixture(scope="module")
def bare(lab: Lab) -> Site:
    """A Base without a test: no control run, so one start tells."""
    return lab.site({"pkg/__init__.py": PKG})


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


@pytest.mark.parametrize(
    "node",
    ["test_new (tests.test_new)", "test_new (tests.test_new.test_new)", "test_new", "./tests/test_new.py::test_new"],
)
def test_other_forms_of_a_node_id(bare: Site, node: str) -> None:
    answer = ask(bare, GOOD, node)
    assert answer.bundle is not None and answer.bundle.reproducing == (NODE,)
