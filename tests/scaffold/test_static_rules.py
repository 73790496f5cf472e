"""A1, A2, A5 and A6: what is refused or noted about a test before anything runs. Each rule with both answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from execcritic_scaffold import constructs, contract, superseded, suspicions, syntax, testpatch
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.files import EXECUTABLE, GITLINK, SYMLINK, File
from execcritic_scaffold.qualification import Refusal
from execcritic_scaffold.ruletable import Strictness
from execcritic_scaffold.site import Site
from tests.scaffold.harness import Files, Lab, patch_of

OLD = b"""from pkg import add


def test_zero():
    assert add(1, 0) == 1


def test_twice():
    assert add(2, 0) == 2
    assert add(3, 0) == 3
"""
NEW = {"tests/test_new.py": "from pkg import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"}
BASE: Files = {
    "pkg/__init__.py": "def add(a, b):\n    return a - b\n",
    "pyproject.toml": "[project]\nname = 'pkg'\n",
    "tests/test_old.py": OLD,
    "tests/link.txt": File(b"test_old.py", SYMLINK),
}
GIT_FOLDER = b"""diff --git a/tests/.git/config b/tests/.git/config
new file mode 100644
--- /dev/null
+++ b/tests/.git/config
@@ -0,0 +1 @@
+x
"""


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    return lab.site(BASE)


def old(before: bytes, after: bytes) -> Files:
    """The existing test file with one text replaced."""
    assert before in OLD
    return {"tests/test_old.py": OLD.replace(before, after)}


@dataclass(frozen=True)
class Row:
    """Refused with `code` when it is in capitals at `refused`, else admitted with these findings."""

    name: str
    files: Files | bytes
    refused: str = ""
    findings: tuple[str, ...] = ()
    author: str = "agent"
    superseded: tuple[Mapping[str, str], ...] = ()


def also(node: str) -> tuple[Mapping[str, str], ...]:
    return ({"node": node, "issue_quote": "q", "reason": "r"},)


ZERO = also("tests/test_old.py::test_zero")
ROWS = [
    Row("nothing", b"", "EMPTY_PATCH"),
    Row("blanks", b" \n\n", "EMPTY_PATCH"),
    Row("a new test", NEW),
    Row("no patch at all", b"hello\n", "PATCH_DOES_NOT_APPLY"),
    Row("of another Base", b"--- a/tests/test_old.py\n+++ b/tests/test_old.py\n@@ -1 +1 @@\n-absent\n+x\n",
        "PATCH_DOES_NOT_APPLY"),
    Row("outside", b"--- /dev/null\n+++ b/../test_x.py\n@@ -0,0 +1 @@\n+x\n", "PATCH_DOES_NOT_APPLY"),
    Row(".git folder", GIT_FOLDER, "PATCH_DOES_NOT_APPLY"),
    Row("symbolic link", {**NEW, "tests/test_link.py": File(b"/etc/passwd", SYMLINK)}, "SPECIAL_FILE"),
    Row("submodule", {**NEW, "tests/sub": File(b"1" * 40, GITLINK)}, "SPECIAL_FILE"),
    Row("link of Base", {**NEW, "tests/link.txt": "now a file"}, "SPECIAL_FILE"),
    Row("executable", {"tests/test_new.py": File(NEW["tests/test_new.py"].encode(), EXECUTABLE)}),
    Row("source", {**NEW, "pkg/more.py": ""}, "NOT_TEST_ONLY"),
    Row("existing source", {**NEW, "pkg/__init__.py": ""}, "NOT_TEST_ONLY"),
    Row("runner configuration", {**NEW, "pytest.ini": "[pytest]\n"}, "NOT_TEST_ONLY"),
    Row("its own configuration", {**NEW, "tests/pytest.ini": "[pytest]\n"}, "NOT_TEST_ONLY"),
    Row("shared configuration", {**NEW, "pyproject.toml": "[project]\nname = 'x'\n"}, "NOT_TEST_ONLY"),
    Row("lock file", {**NEW, "uv.lock": ""}, "NOT_TEST_ONLY"),
    Row("CI", {**NEW, ".github/workflows/ci.yml": ""}, "NOT_TEST_ONLY"),
    Row(".pth", {**NEW, "tests/a.pth": "import os"}, "NOT_TEST_ONLY"),
    Row("sitecustomize", {**NEW, "tests/sitecustomize.py": ""}, "NOT_TEST_ONLY"),
    Row("usercustomize package", {**NEW, "tests/usercustomize/__init__.py": ""}, "NOT_TEST_ONLY"),
    Row("byte code", {**NEW, "tests/__pycache__/test_old.cpython-311.pyc": b"\0"}, "NOT_TEST_ONLY"),
    Row("plugin metadata", {**NEW, "tests/x.dist-info/entry_points.txt": "[pytest11]\n"}, "NOT_TEST_ONLY"),
    Row("submodule list", {**NEW, ".gitmodules": ""}, "NOT_TEST_ONLY"),
    Row("data beside the test", {**NEW, "tests/data/in.txt": "x"}),
    Row("shared fixtures", {**NEW, "tests/conftest.py": ""}, findings=("CONFTEST",)),
    Row("a hook", {**NEW, "tests/conftest.py": "def pytest_runtest_call(item):\n    pass\n"}, "RUNNER_HOOK"),
    Row("a hook by another name", {**NEW, "tests/conftest.py": "@hookimpl\ndef f(item):\n    pass\n"}, "RUNNER_HOOK"),
    Row("a hook from elsewhere", {**NEW, "tests/conftest.py": "from x import pytest_itemcollected\n"}, "RUNNER_HOOK"),
    Row("a person's hook", {**NEW, "tests/conftest.py": "def pytest_runtest_call(item):\n    pass\n"},
        findings=("CONFTEST", "RUNNER_HOOK"), author="person"),
    Row("a test file is deleted", {**NEW, "tests/test_old.py": None}, "TEST_REMOVED"),
    Row("a person deletes one", {**NEW, "tests/test_old.py": None}, findings=("TEST_REMOVED",), author="person"),
    Row("a test is deleted", old(b"def test_zero():\n    assert add(1, 0) == 1\n", b""), "TEST_REMOVED"),
    Row("a test is renamed", old(b"test_zero", b"test_nil"), "TEST_REMOVED"),
    Row("a superseded test is deleted", old(b"def test_zero():\n    assert add(1, 0) == 1\n", b""),
        findings=("TEST_EDITED",), superseded=ZERO),
    Row("an assertion is deleted", old(b"    assert add(3, 0) == 3\n", b""), "TEST_WEAKENED"),
    Row("a person deletes an assertion", old(b"    assert add(3, 0) == 3\n", b""),
        findings=("TEST_EDITED", "TEST_WEAKENED"), author="person"),
    Row("an assertion asks less", old(b"== 3\n", b"!= None\n"), "TEST_WEAKENED"),
    Row("an assertion is moved under a condition",
        old(b"    assert add(3, 0) == 3\n", b"    if add(9, 9):\n        assert add(3, 0) == 3\n"), "TEST_WEAKENED"),
    Row("an assertion is caught",
        old(b"    assert add(3, 0) == 3\n",
            b"    try:\n        assert add(3, 0) == 3\n    except AssertionError:\n        pass\n"), "TEST_WEAKENED"),
    Row("a test returns before it asserts",
        old(b"    assert add(3, 0) == 3\n", b"    return\n    assert add(3, 0) == 3\n"), "TEST_WEAKENED"),
    Row("a superseded test asks for something else", old(b"add(1, 0) == 1", b"add(1, 0) == 2"),
        findings=("TEST_EDITED",), superseded=ZERO),
    Row("one of that name is superseded in another file", old(b"def test_zero", b"def test_nil"), "TEST_REMOVED",
        superseded=also(node="tests/test_other.py::test_zero")),
    Row("one of that name is superseded in a class", old(b"def test_zero", b"def test_nil"), "TEST_REMOVED",
        superseded=also(node="tests/test_old.py::TestOld::test_zero")),
    Row("a superseded case does not excuse the function", old(b"add(1, 0) == 1", b"add(1, 0)"), "TEST_WEAKENED",
        superseded=also(node="tests/test_old.py::test_zero[1]")),
    Row("superseded by another spelling of its id", old(b"def test_zero", b"def test_nil"), findings=("TEST_EDITED",),
        superseded=also(node="./tests/test_old.py::test_zero")),
    Row("superseded by no text", old(b"def test_zero", b"def test_nil"), "TEST_REMOVED", superseded=({"node": None},)),
    Row("cases are added", old(b"def test_zero():", b"@pytest.mark.parametrize('x', [1, 2])\ndef test_zero(x):"),
        findings=("TEST_EDITED",)),
    Row("an assertion is added", old(b"== 3\n", b"== 3\n    assert add(4, 0) == 4\n"), findings=("TEST_EDITED",)),
    Row("no longer Python", old(b"def test_zero", b"deff test_zero"), "SYNTAX_ERROR"),
    Row("shadows the standard library", {**NEW, "tests/json.py": ""}, "SHADOWS_MODULE"),
    Row("shadows the runner", {**NEW, "tests/pytest/__init__.py": ""}, "SHADOWS_MODULE"),
    Row("a helper", {**NEW, "tests/helpers.py": ""}),
    Row("a module called json further down", {**NEW, "tests/data/json/in.txt": ""}),
    Row("only data", {"tests/data/in.txt": "x"}, "NO_TEST_FILE"),
    Row("a file the runner does not collect", {"tests/new_tests.py": NEW["tests/test_new.py"]}, "NO_TEST_FILE"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_admit(site: Site, row: Row) -> None:
    patch = row.files if isinstance(row.files, bytes) else patch_of(site, row.files)
    answer = testpatch.admit(
        site, Submission(patch, (), author=row.author, superseded=row.superseded), 1 << 20, Strictness(row.author, {})
    )
    if row.refused:
        assert isinstance(answer, Refusal), answer
        assert (answer.code, answer.status) == (row.refused, "REJECTED")
        assert answer.detail and answer.next.endswith(".")
    else:
        assert isinstance(answer, testpatch.TestPatch), answer
        assert {f.code for f in answer.findings} == set(row.findings)


def test_size_limit(site: Site) -> None:
    offered = Submission(patch_of(site, NEW), ())
    assert isinstance(testpatch.admit(site, offered, len(offered.patch), Strictness("agent", {})), testpatch.TestPatch)
    refused = testpatch.admit(site, offered, len(offered.patch) - 1, Strictness("agent", {}))
    assert isinstance(refused, Refusal) and refused.code == "PATCH_TOO_LARGE"


CHANGED = (
    b"--- a/tests/test_old.py\n+++ b/tests/test_old.py\n@@ -5 +5 @@\n-    assert add(1, 0) == 1\n+    assert True\n"
)


def entry(**changed: str) -> dict[str, str]:
    return {"node": "tests/test_old.py::test_zero", "issue_quote": "must  be 2", "reason": "it was wrong"} | changed


@pytest.mark.parametrize(
    ("entries", "ok"),
    [
        ((), True),
        ((entry(),), True),
        ((entry(),) * 3, True),
        ((entry(),) * 4, False),
        ((entry(issue_quote="never said"),), False),
        ((entry(issue_quote=" "),), False),
        ((entry(reason=""),), False),
        ((entry(node=""),), False),
        ((entry(node="test_zero"),), False),
        ((entry() | {"node": None},), False),
        ((entry() | {"issue_quote": ["must be 2"]},), False),
        ((entry() | {"more": 5},), False),
    ],
)
def test_what_is_declared_superseded(entries: tuple[dict[str, str], ...], ok: bool) -> None:
    offered = Submission(CHANGED, (), superseded=entries)
    refusal = superseded.check(offered, "It\nmust be\n2, not 1.", 3)
    assert refusal is None if ok else refusal is not None and refusal.code == "SUPERSEDED"


HARD = {
    "assert False": "CONSTANT_OUTCOME",
    "assert 1 == 2, 'x'": "CONSTANT_OUTCOME",
    "add(1, 2)\n    assert not True": "CONSTANT_OUTCOME",
    "add(1, 2)\n    assert True": "CONSTANT_OUTCOME",
    "assert 'a' != 'a'": "CONSTANT_OUTCOME",
    "raise AssertionError": "CONSTANT_OUTCOME",
    "pytest.fail('x')": "CONSTANT_OUTCOME",
    "pytest.skip('x')": "CONSTANT_OUTCOME",
    "pytest.xfail('x')": "CONSTANT_OUTCOME",
    "sys.exit(1)": "CONSTANT_OUTCOME",
    "try:\n        assert add(1, 2) == 3\n    except AssertionError:\n        pass": "SWALLOWED_FAILURE",
    "try:\n        assert add(1, 2) == 3\n    except:\n        print()": "SWALLOWED_FAILURE",
    "try:\n        assert add(1, 2) == 3\n    except (ValueError, Exception):\n        pass": "SWALLOWED_FAILURE",
    "wanted = False\n    add(1, 2)\n    assert wanted": "CONSTANT_OUTCOME",
    "assert add(1, 2) == 3 and not 1": "CONSTANT_OUTCOME",
    "assert add(1, 2) == object()": "CONSTANT_OUTCOME",
    "assert (add(1, 2) == 3, 'x')": "CONSTANT_OUTCOME",
    "with open('x') as f:\n        add(f, 2)\n        assert 0": "CONSTANT_OUTCOME",
    "try:\n        assert add(1, 2) == 3\n    finally:\n        assert 0": "CONSTANT_OUTCOME",
    "add(1, 2)\n    boom()\n\ndef boom():\n    inner()\n\ndef inner():\n    raise AssertionError": "CONSTANT_OUTCOME",
    "try:\n        assert add(1, 2) == 3\n    except AssertionError as e:\n        print(e)": "SWALLOWED_FAILURE",
    "bad = []\n    try:\n        assert add(1, 2) == 3\n    except AssertionError as e:\n        bad.append(e)\n"
    "    assert not bad": "",
    "if add(1, 2):\n        boom()\n\ndef boom():\n    raise AssertionError": "",
    "wanted = False\n    wanted = add(1, 2)\n    assert wanted": "",
    "try:\n        raise ValueError\n    except ValueError:\n        assert add(1, 2) == 3": "",
    "with pytest.raises(ValueError):\n        raise ValueError(add(1, 2))": "",
    "assert add(1, 2) == 3": "",
    "if not add(1, 2):\n        pytest.fail('x')": "",
    "assert True\n    assert add(1, 2)": "",
    "with pytest.raises(ValueError):\n        add(1, 'x')": "",
    "if sys.platform == 'win32':\n        pytest.skip('x')\n    assert add(1, 2) == 3": "",
    "try:\n        assert add(1, 2) == 3\n    except ValueError:\n        pass": "",
    "try:\n        assert add(1, 2) == 3\n    except AssertionError as e:\n        raise TypeError from e": "",
    "try:\n        add(1, 2)\n    except Exception:\n        pass\n    assert add(1, 2) == 3": "",
}


def located(body: str) -> constructs.Located:
    module = syntax.parse(f"def test_it(self=None):\n    {body}\n".encode())
    assert module is not None
    function = syntax.locate(module, ["test_it"])
    assert function is not None
    return constructs.Located("tests/test_x.py::test_it", "tests/test_x.py", function, module)


@pytest.mark.parametrize("body", HARD)
def test_hard_constructs(body: str) -> None:
    refusal = constructs.hard(located(body))
    assert (refusal.code if refusal else "") == HARD[body]
    assert refusal is None or refusal.detail.startswith("tests/test_x.py:")


SOFT = {
    "add(1, 2)": "NO_VISIBLE_ASSERTION",
    "time.sleep(1)\n    assert add(1, 2)": "SLEEPS",
    "assert add(1, random.random())": "RANDOMNESS",
    "assert add(1, np.random.rand())": "RANDOMNESS",
    "assert add(1, time.time())": "WALL_CLOCK",
    "assert add(1, datetime.datetime.now())": "WALL_CLOCK",
    "import socket\n    assert add(1, 2)": "NETWORK",
    "from urllib.request import urlopen\n    assert add(1, 2)": "NETWORK",
    "assert add(1, os.environ['CI'])": "ENVIRONMENT_SNIFFING",
    "assert add(1, os.getenv('CI'))": "ENVIRONMENT_SNIFFING",
    "assert 'a + b' in inspect.getsource(add)": "READS_SOURCE",
    "assert 'a + b' in open('pkg/calc.py').read()": "READS_SOURCE",
    "assert subprocess.run(['git', 'log'])": "CALLS_GIT",
    "mock.patch('pkg.add')\n    assert add(1, 2)": "MOCKS_SOURCE",
    "assert pkg._add(1, 2)": "PRIVATE_NAME",
    f"assert add(1, 2) == '{'x' * 500}'": "LONG_LITERAL",
    "check(add(1, 2))\n\ndef check(x):\n    inner(x)\n\ndef inner(x):\n    assert x": "",
    "assert hasattr(pkg, 'add')": "PRESENCE_ONLY",
    "self.assertTrue(callable(pkg.add))": "PRESENCE_ONLY",
    "assert hasattr(pkg, 'add')\n    assert pkg.add(1, 2) == 3": "",
    "import urllib.request\n    assert urllib.request.urlopen('x')": "NETWORK",
    "assert socket.create_connection(('x', 1))": "NETWORK",
    "assert 'run_' not in sys.argv[0]": "ENVIRONMENT_SNIFFING",
    "assert 'x' not in sys.modules": "ENVIRONMENT_SNIFFING",
    "assert len(request.session.items) == 1": "ENVIRONMENT_SNIFFING",
    "import pkg\n    assert open(pkg.__file__).read()": "READS_SOURCE",
    "assert add.__code__.co_code": "READS_SOURCE",
    "assert pathlib.Path('pkg/calc.py').read_text()": "READS_SOURCE",
    "import pkg\n    mock.patch.object(pkg, 'add')\n    assert pkg.add(1, 2)": "MOCKS_SOURCE",
    "import pkg.calc as c\n    monkeypatch.setattr(c, 'add', None)\n    assert c.add(1, 2)": "MOCKS_SOURCE",
    "assert add(1, 2) == 3": "",
    "self.assertEqual(add(1, 2), 3)": "",
    "random.seed(1)\n    assert add(1, 2) == 3": "",
    "mock.patch('other.thing')\n    assert add(1, 2)": "",
    "assert pkg.__name__ and self._private": "",
    "assert open('data.txt')": "",
    "'''%s'''\n    assert add(1, 2)" % ("x" * 500): "",
}


@pytest.mark.parametrize("body", SOFT, ids=lambda body: body[:40])
def test_soft_constructs(body: str) -> None:
    found = suspicions.findings(located(body), frozenset({"pkg"}))
    assert {f.code for f in found} == ({SOFT[body]} - {""})


NODES = ["tests/test_x.py::test_it"]
ISSUE = "add(1, 2)  returns -1,\nbut it must return 3."
GOOD: dict[str, Any] = {
    "entrypoint": "pkg.add",
    "trigger": "add(1, 2)",
    "expected_output": "3",
    "issue_evidence": ["returns -1, but it must"],
    "alternative_hypotheses": [],
    "non_assertions": [],
    "test_nodes": NODES,
}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, ""),
        ({"more": "kept"}, ""),
        ({"issue_evidence": ["from the docs"]}, ""),
        ({"issue_evidence": ["from  the\ndocs", "add(1, 2) returns"]}, ""),
        *(({key: None}, key) for key in GOOD),
        *(({key: ""}, key) for key in ("entrypoint", "trigger", "expected_output")),
        ({"issue_evidence": []}, "issue_evidence"),
        ({"issue_evidence": ["  "]}, "empty"),
        ({"issue_evidence": ["it should give 3"]}, "it should give 3"),
        ({"issue_evidence": [ISSUE, "RETURNS -1"]}, "RETURNS -1"),
        ({"test_nodes": []}, "test_nodes"),
        ({"test_nodes": [*NODES, "tests/test_x.py::test_other"]}, "test_nodes"),
        ({"test_nodes": "tests/test_x.py::test_it"}, "test_nodes"),
        ({"test_nodes": 5}, "test_nodes"),
        ({"test_nodes": [{}]}, "test_nodes"),
        ({"trigger": "\ud800"}, "trigger"),
    ],
)
def test_contract(changed: dict[str, Any], problem: str) -> None:
    answer = contract.check(GOOD | changed, ISSUE, NODES, lambda quote: contract.fold(quote) == "from the docs")
    if problem:
        assert answer is not None
        assert problem in answer[0] and answer[1].endswith(".")
    else:
        assert answer is None


def test_a_contract_names_nodes_as_given_or_as_reported() -> None:
    nodes = {"test_x.py::test_it": "tests/test_x.py::test_it"}
    for named in ([*nodes], [*nodes.values()]):
        assert contract.check(GOOD | {"test_nodes": named}, ISSUE, nodes, lambda quote: False) is None
    assert contract.check(GOOD | {"test_nodes": ["other"]}, ISSUE, nodes, lambda quote: False) is not None
