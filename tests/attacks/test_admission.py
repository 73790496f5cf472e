"""Tests that must not be frozen: red for ever, red for nothing, red by reading instead of running, or harmful."""
# ruff: noqa: E501  (attacks are source texts, and read better unbroken)

from __future__ import annotations

import hashlib

import pytest

from execcritic_scaffold.agents import Submission
from execcritic_scaffold.files import File
from execcritic_scaffold.outcome import Decision
from execcritic_scaffold.qualify import qualify
from execcritic_scaffold.settings import QualifySettings

from .arena import ISSUE, NODE, OLD, TEST, WRONG, Arena, Files, Layout, contract_of
from .conftest import MakeArena

pytestmark = pytest.mark.bubblewrap

PLAIN = Layout()
ONCE = QualifySettings(test_seconds=30, repeats=1)
THRICE = QualifySettings(test_seconds=30)
HEAD = "from pkg.calc import add\n\n\n"
DIGEST = hashlib.sha256(WRONG.encode()).hexdigest()

NEVER: dict[str, str] = {
    "assert False": HEAD + "def test_add():\n    add(2, 3)\n    assert False\n",
    "assert False behind a name": HEAD + "def test_add():\n    wanted = False\n    add(2, 3)\n    assert wanted\n",
    "an assertion that cannot hold": HEAD + "def test_add():\n    assert add(2, 3) == 5 and not 1\n",
    "raise": HEAD + "def test_add():\n    add(2, 3)\n    raise AssertionError('x')\n",
    "raise in a helper": HEAD
    + "def boom():\n    raise AssertionError\n\n\ndef test_add():\n    add(2, 3)\n    boom()\n",
    "pytest.fail": "import pytest\n" + HEAD + "def test_add():\n    add(2, 3)\n    pytest.fail('x')\n",
    "pytest.skip": "import pytest\n" + HEAD + "def test_add():\n    pytest.skip('x')\n    assert add(2, 3) == 5\n",
    "xfail": "import pytest\n" + HEAD + "@pytest.mark.xfail(strict=True)\ndef test_add():\n    assert add(4, 0) == 4\n",
    "a swallowed failure": HEAD
    + "def test_add():\n    try:\n        assert add(2, 3) == 5\n    except AssertionError:\n"
    "        raise AssertionError from None\n    finally:\n        assert 0\n",
    "equality with a fresh object": HEAD + "def test_add():\n    assert add(2, 3) == object()\n",
}
# What a finding is enough for (A5), although the lot of them is red for ever or red by reading.
SUSPECT: dict[str, str] = {
    "the unit mocked": "from unittest import mock\nimport pkg.calc\n\n\ndef test_add():\n"
    "    with mock.patch('pkg.calc.add', return_value=1):\n        assert pkg.calc.add(2, 3) == 5\n",
    "the unit replaced": "import pkg.calc\n\n\ndef test_add(monkeypatch):\n"
    "    monkeypatch.setattr(pkg.calc, 'add', lambda a, b: 1)\n    assert pkg.calc.add(2, 3) == 5\n",
    "its text": "import pathlib\n" + HEAD + "def test_add():\n    add(1, 1)\n"
    "    assert 'a + b' in pathlib.Path('pkg/calc.py').read_text()\n",
    "its digest": "import hashlib, pkg.calc\n\n\ndef test_add():\n    pkg.calc.add(1, 1)\n"
    f"    assert hashlib.sha256(open(pkg.calc.__file__, 'rb').read()).hexdigest() != '{DIGEST}'\n",
    "its source by inspect": "import inspect\n" + HEAD + "def test_add():\n    add(1, 1)\n"
    "    assert '+' in inspect.getsource(add)\n",
    "its byte code": HEAD + "def test_add():\n    code = add.__code__.co_code\n    add(1, 1)\n"
    "    assert code != (lambda a, b: a - b).__code__.co_code\n",
    "its number of lines": HEAD + "def test_add():\n    add(1, 1)\n    assert add.__code__.co_firstlineno > 1\n",
    "the environment": "import os\n" + HEAD + "def test_add():\n    add(2, 3)\n    assert 'CI' in os.environ\n",
    "the network": "import socket\n"
    + HEAD
    + "def test_add():\n    add(2, 3)\n    s = socket.socket()\n    s.settimeout(1)\n"
    "    assert s.connect_ex(('198.51.100.1', 80)) == 0\n",
    "git": "import subprocess\n" + HEAD + "def test_add():\n    add(2, 3)\n"
    "    assert subprocess.run(['git', 'log']).returncode == 0\n",
    "the harness": "import sys\n" + HEAD + "def test_add():\n    add(2, 3)\n    assert 'run_' not in sys.argv[0]\n",
    "the control tests": HEAD + "def test_add(request):\n    add(2, 3)\n    assert len(request.session.items) == 1\n",
    "a mistake with a fixture": HEAD
    + "def test_add(capsys):\n    add(2, 3)\n    assert capsys.readouterr().outt == ''\n",
}
BROKEN: dict[str, str] = {
    "a missing module": "import nothing_of_that_name\n" + HEAD + "def test_add():\n    assert add(2, 3) == 5\n",
    "a missing fixture": HEAD + "def test_add(nothing):\n    assert add(2, 3) == 5\n",
    "no source at all": "def test_add():\n    assert [1] == [2]\n",
}
UNSTEADY: dict[str, str] = {
    "random": "import random\n" + HEAD + "def test_add():\n    assert add(2, 3) == random.random()\n",
    "the clock": "import time\n" + HEAD + "def test_add():\n    assert time.time() < 1 or add(2, 3) == 5\n",
    "the hash seed": HEAD + "def test_add():\n    assert add(2, 3) == hash('a')\n",
    "the time zone": "import time\n" + HEAD + "def test_add():\n    assert time.timezone or add(2, 3) == 5\n",
    "changes source": HEAD + "def test_add():\n    open('pkg/calc.py', 'a').write('#')\n    assert add(2, 3) == 5\n",
    "repairs source": HEAD
    + "def test_add():\n    open('pkg/calc.py', 'w').write('def add(a, b):\\n    return a + b\\n')\n"
    "    assert add(2, 3) == 5\n",
    "a mark in the temporary folder": "import os\n"
    + HEAD
    + "def test_add():\n    first = not os.path.exists('/tmp/mark')\n"
    "    open('/tmp/mark', 'w').close()\n    assert first and add(2, 3) == 5 or not first\n",
    "a process left": "import subprocess\n" + HEAD + "def test_add():\n"
    "    subprocess.Popen(['sleep', '60'], start_new_session=True)\n    assert add(2, 3) == 5\n",
}


def offer(arena: Arena, changed: Files, settings: QualifySettings) -> None:
    answer = arena.qualify(changed, [NODE], settings=settings)
    assert answer.status == "REJECTED", (answer.status, answer.code, answer.detail, answer.findings)


@pytest.mark.parametrize("name", NEVER | BROKEN)
def test_never_frozen(name: str, make_arena: MakeArena) -> None:
    offer(make_arena(PLAIN), {"tests/test_add.py": (NEVER | BROKEN)[name]}, ONCE)


@pytest.mark.parametrize("name", SUSPECT)
def test_never_frozen_without_a_finding(name: str, make_arena: MakeArena) -> None:
    answer = make_arena(PLAIN).qualify({"tests/test_add.py": SUSPECT[name]}, [NODE], settings=ONCE)
    assert answer.status == "REJECTED" or answer.findings, (answer.status, answer.detail)


@pytest.mark.parametrize("name", UNSTEADY)
def test_unsteady_or_harmful(name: str, make_arena: MakeArena) -> None:
    offer(make_arena(PLAIN), {"tests/test_add.py": UNSTEADY[name]}, THRICE)


def test_control_is_frozen(make_arena: MakeArena) -> None:
    assert make_arena(PLAIN).qualify({"tests/test_add.py": TEST}, [NODE], settings=THRICE).status == "QUALIFIED"


def test_a_mock_in_an_assertion_is_steady(make_arena: MakeArena) -> None:
    """The number that a mock's representation shows is an address, not behaviour."""
    test = "from unittest import mock\n" + HEAD + "def test_add():\n    seen = mock.Mock()\n    if add(2, 3) == 5:\n"
    answer = make_arena(PLAIN).qualify(
        {"tests/test_add.py": test + "        seen()\n    assert seen.called\n"}, [NODE], settings=THRICE
    )
    assert answer.code != "FLAKY", answer.detail


# -- the patch of a test ------------------------------------------------------------------------------------------

TWO = Layout(
    files={"tests/test_old.py": OLD + "\n\ndef test_more():\n    assert add(5, 0) == 5\n    assert add(0, 0) == 0\n"}
)
GOOD = {"tests/test_add.py": TEST}
PATCHES: dict[str, Files] = {
    "touches source": {**GOOD, "pkg/calc.py": WRONG + "#\n"},
    "removes a test": {**GOOD, "tests/test_old.py": OLD},
    "removes a test file": {**GOOD, "tests/test_old.py": None},
    "removes an assertion": {**GOOD, "tests/test_old.py": TWO.base["tests/test_old.py"].replace(b"    assert add(0, 0) == 0\n", b"")},
    "weakens an assertion": {**GOOD, "tests/test_old.py": TWO.base["tests/test_old.py"].replace(b"== 0", b"!= None")},
    "breaks a test by a fixture": {**GOOD, "tests/conftest.py": "import pytest\n\n\n@pytest.fixture(autouse=True)\n"
                                   "def broken(monkeypatch):\n    monkeypatch.setattr('pkg.calc.add.__code__', "
                                   "(lambda a, b: 4 if a == 4 else 5 if a == 5 else 0).__code__)\n"},
    "breaks its own test by a hook": {**GOOD, "tests/conftest.py": "def pytest_runtest_call(item):\n"
                                      "    if item.name == 'test_add':\n        raise AssertionError('x')\n"},
    "breaks its own test at collection": {**GOOD, "tests/conftest.py": "def pytest_itemcollected(item):\n"
                                          "    if item.name == 'test_add':\n        item.obj = lambda: (0).missing\n"},
    "puts a stub in place of source": {**GOOD, "tests/conftest.py": "import sys, types\nm = types.ModuleType('pkg.calc')\n"
                                       "m.add = lambda a, b: a - b\nsys.modules['pkg.calc'] = m\n"},
    "a copy of source beside the test": {"tests/test_add.py": TEST.replace("pkg.calc", "copied"), "tests/copied.py": WRONG},
    "rewrites reports": {**GOOD, "tests/conftest.py": "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\n"
                         "def pytest_runtest_makereport(item, call):\n    o = yield\n    if item.name == 'test_add':\n"
                         "        o.get_result().outcome = 'failed'\n        o.get_result().longrepr = 'x'\n"},
    "configures the runner": {**GOOD, "pytest.ini": "[pytest]\naddopts = -x\n"},
    "configures the runner in toml": {**GOOD, "pytest.toml": "[pytest]\n"},
    "a shadow": {**GOOD, "tests/json.py": ""},
    "a shadow of the repository's package": {**GOOD, "tests/pkg/__init__.py": "", "tests/pkg/calc.py": WRONG},
    "a hook of the interpreter": {**GOOD, "sitecustomize.py": ""},
    "byte code": {**GOOD, "tests/x.pyc": b"x"},
    "a link": {**GOOD, "tests/x.py": File(b"test_old.py", "120000")},
    "an executable in place of a test": {"tests/test_add.py": File(TEST.encode(), "100755"), "pkg/run": File(b"x", "100755")},
    "a submodule": {**GOOD, ".gitmodules": "[submodule 'x']\n"},
}  # fmt: skip


@pytest.mark.parametrize("name", PATCHES)
def test_patch_of_a_test(name: str, make_arena: MakeArena) -> None:
    offer(make_arena(TWO), PATCHES[name], ONCE)


@pytest.mark.parametrize(
    "path", ["../t/test_add.py", "/tests/test_add.py", "tests/../../test_add.py", ".git/test_add.py"]
)
def test_paths_outside_the_tree(path: str, make_arena: MakeArena) -> None:
    arena = make_arena(PLAIN)
    patch = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x = 1\n"
    answer = qualify(arena.site, Submission(patch.encode(), (NODE,), contract=contract_of(ISSUE, (NODE,))), ISSUE, ONCE)
    assert answer.status == "REJECTED"


# -- symbols yet to come ------------------------------------------------------------------------------------------

ABSENT = Layout(issue="pkg.calc lacks safe_add: safe_add(2, 3) must be 5.")
EMPTY = {
    "imports it and asserts nothing": "from pkg.calc import safe_add\n\n\ndef test_add():\n    pass\n",
    "names it and asserts nothing": "import pkg.calc\n\n\ndef test_add():\n    pkg.calc.safe_add\n",
    "asserts that it is there": "import pkg.calc\n\n\ndef test_add():\n    assert hasattr(pkg.calc, 'safe_add')\n",
    "asserts a constant behind it": "from pkg.calc import safe_add\n\n\ndef test_add():\n    assert safe_add\n",
}


@pytest.mark.parametrize("how", EMPTY)
def test_a_stub_never_satisfies_a_test_of_an_absent_symbol(how: str, make_arena: MakeArena) -> None:
    """Refused, or, once the symbol is there and no assertion on its behaviour ran, no PASS."""
    arena = make_arena(ABSENT)
    answer = arena.qualify({"tests/test_add.py": EMPTY[how]}, [NODE], settings=ONCE)
    if answer.bundle is not None:
        arena.freeze(answer.bundle)
        verdict = arena.verify({"pkg/calc.py": WRONG + "\n\ndef safe_add(*a):\n    raise NotImplementedError\n"})
        assert verdict.decision is not Decision.PASS, verdict.findings


# -- patches without an effect ------------------------------------------------------------------------------------

NO_EFFECT = {
    "a comment": WRONG + "# repaired\n",
    "a blank line": "\n" + WRONG,
    "a docstring": WRONG.replace(":\n", ":\n    '''Add.'''\n"),
}
BLIND: dict[str, str] = {name: SUSPECT[name] for name in ("its digest", "its number of lines", "its byte code")}


@pytest.mark.parametrize(
    ("test", "how"),
    [("its digest", "a comment"), ("its number of lines", "a blank line"), ("its byte code", "a docstring")],
)
def test_a_patch_without_effect_satisfies_no_frozen_test(test: str, how: str, make_arena: MakeArena) -> None:
    arena = make_arena(PLAIN)
    answer = arena.qualify({"tests/test_add.py": BLIND[test]}, [NODE], settings=ONCE)
    if answer.bundle is not None:
        arena.freeze(answer.bundle)
        assert arena.verify({"pkg/calc.py": NO_EFFECT[how]}).decision is not Decision.PASS
