"""What a fix has no reason to bring: each kind once where it is added, once where it is nothing of the sort."""

from __future__ import annotations

from dataclasses import replace

import pytest

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.files import File
from execcritic_scaffold.screening import screen
from execcritic_scaffold.site import Site
from tests.scaffold.harness import Lab, frozen

OLD = """import os


def add(a, b):
    if a == 4711:
        os._exit(1)
    return a - b
"""
TEST = """from pkg import add


def test_add():
    assert add(1, 4711) == 4712
    assert add("left", "right") == "leftright"
"""


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    return lab.site({"pkg/__init__.py": OLD})


@pytest.fixture(scope="module")
def bundle(site: Site) -> FrozenBundle:
    return frozen(site, {"tests/test_add.py": TEST}, "tests/test_add.py::test_add", k=1, guard="off", soundness=False)


HARD = {
    "import pytest": "IMPORTS_RUNNER",
    "from _pytest.reports import TestReport": "IMPORTS_RUNNER",
    "def f():\n    import pluggy.callers": "IMPORTS_RUNNER",
    "import os\nos._exit(0)": "EXITS_PROCESS",
    "import os as o\nleave = o._exit": "EXITS_PROCESS",
    "from os import _exit": "EXITS_PROCESS",
    "import sys\nsys.exit(0)": "EXITS_AT_IMPORT",
    "class A:\n    exit()": "EXITS_AT_IMPORT",
    "import os\nif os.environ.get('PYTEST_CURRENT_TEST'):\n    pass": "DETECTS_TESTS",
    "import sys\nif 'pytest' in sys.modules:\n    pass": "DETECTS_TESTS",
    "import sys\nx = 'pytest' in sys.argv[0]": "DETECTS_TESTS",
    "import sys\nif sys.modules.get('pytest'):\n    pass": "DETECTS_TESTS",
    "import sys\nm = sys.modules\nif 'pytest' in m:\n    pass": "DETECTS_TESTS",
    "import os\nif os.environ.get('PYTEST_VERSION'):\n    pass": "DETECTS_TESTS",
    "import sys\nif sys.argv[0].endswith('pytest.py'):\n    pass": "DETECTS_TESTS",
    "import importlib\nimportlib.import_module('_pytest.runner')": "IMPORTS_RUNNER",
    "__import__('pytest')": "IMPORTS_RUNNER",
    "class A:\n    def __eq__(self, other):\n        return True": "ALWAYS_EQUAL",
    "class A:\n    def __contains__(self, other):\n        'doc'\n        return True": "ALWAYS_EQUAL",
    "class A:\n    __eq__ = lambda self, other: True": "ALWAYS_EQUAL",
}
SOFT = {
    "import atexit": "EXIT_HANDLER",
    "import ctypes": "INTERPRETER_INTERNALS",
    "import gc": "INTERPRETER_INTERNALS",
    "import os\nos.kill(1, 9)": "KILLS_PROCESS",
    "import sys\nsys._getframe(1)": "INSPECTS_STACK",
    "import inspect\ninspect.stack()": "INSPECTS_STACK",
    "import os\nos.write(3, b'x')": "RAW_DESCRIPTOR",
    "def add(a, b):\n    return 4712 if a == 4712 else 0": "REPEATS_TEST_INPUT",
    "def add(a, b):\n    return {'left': 1}[a]": "REPEATS_TEST_INPUT",
    "def add(a, b):\n    match a:\n        case 'left':\n            return 1": "REPEATS_TEST_INPUT",
}
FINE = (
    "def main():\n    import sys\n    sys.exit(1)",
    "import sys\nif __name__ == '__main__':\n    sys.exit(1)",
    "from .pytest import thing",
    "import pytester, unittest",
    "class A:\n    def __eq__(self, other):\n        return self.x == other.x",
    "class A:\n    def __bool__(self):\n        return True",
    "x = 'the name pytest in a text'",
    "def add(a, b):\n    return a + b if a != 4711 else b",  # Base compares with 4711 already
    "def add(a, b):\n    return a == 1 or b == 2 or a == 'x'",
    "this is no Python",
    "x = 4712",
)


def found(site: Site, bundle: FrozenBundle, text: str, path: str = "pkg/more.py") -> tuple[set[str], set[str]]:
    screened = screen(site, bundle, {path: File(text.encode())})
    for mark in (*screened.hard, *screened.soft):
        assert mark.path == path and mark.line and mark.detail
    return {m.code for m in screened.hard}, {m.code for m in screened.soft}


@pytest.mark.parametrize("text", HARD)
def test_hard(site: Site, bundle: FrozenBundle, text: str) -> None:
    assert HARD[text] in found(site, bundle, text)[0]


def test_where_the_repository_is_the_runner_it_is_a_finding(site: Site, bundle: FrozenBundle) -> None:
    one_of_each = {code: text for text, code in reversed(HARD.items())}
    for code, text in one_of_each.items():
        assert found(replace(site, tops=frozenset({"_pytest"})), bundle, text) == (set(), {code})


@pytest.mark.parametrize("text", SOFT)
def test_soft(site: Site, bundle: FrozenBundle, text: str) -> None:
    assert found(site, bundle, text) == (set(), {SOFT[text]})


@pytest.mark.parametrize("text", FINE)
def test_fine(site: Site, bundle: FrozenBundle, text: str) -> None:
    assert found(site, bundle, text, "pkg/__init__.py") == (set(), set())


def test_what_base_has_already_does_not_count(site: Site, bundle: FrozenBundle) -> None:
    assert found(site, bundle, OLD.replace("a - b", "a + b"), "pkg/__init__.py") == (set(), set())
    assert found(site, bundle, OLD + "    os._exit(2)\n", "pkg/__init__.py") == ({"EXITS_PROCESS"}, set())


def test_a_module_that_moves_brings_nothing_new(site: Site, bundle: FrozenBundle) -> None:
    moved = screen(site, bundle, {"pkg/__init__.py": File(b""), "pkg/core.py": File(OLD.encode())})
    assert not moved.hard


def test_other_files_are_not_read(site: Site, bundle: FrozenBundle) -> None:
    screened = screen(site, bundle, {"docs/a.txt": File(b"import pytest"), "pkg/__init__.py": None})
    assert screened.hard == screened.soft == ()
