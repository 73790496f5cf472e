"""What a fix has no reason to bring: each kind once where it is added, once where it is nothing of the sort."""

from __future__ import annotations

import io
import zipfile
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
    return lab.site({"pkg/__init__.py": OLD, "pkg/plain.py": ""})


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
    "class A: pass\nsetattr(A, '__' + 'eq__', lambda *a: True)": "ALWAYS_EQUAL",
    "A = type('A', (), {'__eq__': lambda *a: True})": "ALWAYS_EQUAL",
    "class A:\n    def __eq__(self, other):\n        x = 1\n        return x == 1": "ALWAYS_EQUAL",
    "class A:\n    def __eq__(self, other):\n        return other is not None": "ALWAYS_EQUAL",
    "class A:\n    def __eq__(self, other):\n        return [other]": "ALWAYS_EQUAL",
    "import posix\nposix._exit(0)": "EXITS_PROCESS",
    "import os\nos.__dict__['_ex' + 'it'](0)": "EXITS_PROCESS",
    "raise SystemExit": "EXITS_AT_IMPORT",
    "import sys\ndef f(x=sys.exit(0)):\n    pass": "EXITS_AT_IMPORT",
    "import sys\nif __name__ != '__main__':\n    sys.exit(0)": "EXITS_AT_IMPORT",
    "import unittest\nunittest.TestCase.assertEqual = None": "REPLACES_FOREIGN",
    "from math import isclose\nimport math as m\nm.isclose = isclose": "REPLACES_FOREIGN",
    "import builtins\nbuiltins.AssertionError = Warning": "REPLACES_FOREIGN",
    "import sys\nsys.modules['re' + 'port'].Channel.emit = None": "REPLACES_FOREIGN",
    "import sys\nfor m in list(sys.modules.values()):\n    m.x = 1": "REPLACES_FOREIGN",
    "import unittest\nsetattr(unittest.TestCase, 'fail', None)": "REPLACES_FOREIGN",
    "from report import Channel\nold = Channel\nold.emit = None": "REPLACES_FOREIGN",
    "import json\nvars(json)['loads'] = None": "REPLACES_FOREIGN",
    "import json\nvars(json).update(loads=None)": "REPLACES_FOREIGN",
    "import json\ndel json.loads": "REPLACES_FOREIGN",
    "import __main__": "REACHES_MAIN",
    "import sys\nsys.modules['__main__']": "REACHES_MAIN",
    "import sys\nsys.meta_path.insert(0, None)": "IMPORT_HOOK",
    "def f(frame):\n    frame.f_trace = None": "REWRITES_CODE",
    "def f(other):\n    other.__code__ = f.__code__": "REWRITES_CODE",
    "import sys\nx = [m for m in sys.modules if m == 'py' + 'test']": "DETECTS_TESTS",
    "import os\nx = os.environ.get('PYTEST_' + 'VERSION')": "DETECTS_TESTS",
    "def pytest_pyfunc_call(pyfuncitem):\n    return True": "RUNNER_HOOK",
    "from .hooks import pytest_runtest_makereport": "RUNNER_HOOK",
    "pytest_pyfunc_call = lambda pyfuncitem: True": "RUNNER_HOOK",
    "@hookimpl(hookwrapper=True)\ndef f():\n    yield": "RUNNER_HOOK",
    "@fixture(autouse=True)\ndef f():\n    pass": "RUNNER_HOOK",
    "import sys\nsys._getframe(1).f_globals['x'] = 1": "REWRITES_CALLER",
    "import sys\nnames = sys._getframe(1).f_globals\nnames.update(x=1)": "REWRITES_CALLER",
    "def f(e):\n    e.__traceback__.tb_frame.f_back.f_globals['x'] = 1": "REWRITES_CALLER",
    "def f(g):\n    g.__globals__['sys'].modules['x'].y = 1": "REWRITES_CALLER",
    "def f(g):\n    setattr(g.__globals__['x'], 'y', 1)": "REWRITES_CALLER",
    "import gc\nfor o in gc.get_objects():\n    o.update(x=1)": "REWRITES_CALLER",
    "import gc\nfor o in gc.get_referrers(1):\n    o['x'] = 1": "REWRITES_CALLER",
    "import ctypes\nctypes.memmove(id(5), id(1), 4)": "WRITES_MEMORY",
    "import ctypes\nat = id(5)\nctypes.c_long.from_address(at + 24).value = 1": "WRITES_MEMORY",
    "import sys\nsys.setprofile(print)": "TRACES",
    "from threading import settrace": "TRACES",
    "import sys\nsys.modules['json'] = None": "REPLACES_FOREIGN",
    "import test_add": "IMPORTS_TESTS",
    "from tests import test_add as t": "IMPORTS_TESTS",
    "import importlib\nimportlib.import_module('tests.' + 'test_add')": "IMPORTS_TESTS",
    "import conftest": "IMPORTS_TESTS",
}
SOFT = {
    "import atexit": "EXIT_HANDLER",
    "import ctypes": "INTERPRETER_INTERNALS",
    "import gc": "INTERPRETER_INTERNALS",
    "import os\nos.kill(1, 9)": "KILLS_PROCESS",
    "import sys\nsys._getframe(1)": "INSPECTS_STACK",
    "import inspect\ninspect.stack()": "INSPECTS_STACK",
    "import os\nos.write(3, b'x')": "RAW_DESCRIPTOR",
    "from os import write": "RAW_DESCRIPTOR",
    "open(3, 'wb')": "RAW_DESCRIPTOR",
    "import os\nos.fork()": "REPLACES_PROCESS",
    "exec('x = 1')": "COMPUTED_CODE",
    "def f(name):\n    return __import__(name)": "COMPUTED_IMPORT",
    "A = type('A', (), {})": "COMPUTED_CLASS",
    "class A: pass\nsetattr(A, ''.join(['x']), 1)": "COMPUTED_NAME",
    "class M(type):\n    def __instancecheck__(cls, other):\n        return other.x": "COMPARES_CLASSES",
    "from unittest import mock\nx = mock.ANY": "ALWAYS_EQUAL_VALUE",
    "def f(e):\n    return e.__traceback__.tb_frame": "INSPECTS_STACK",
    "from traceback import extract_stack": "INSPECTS_STACK",
    "import sys\nx = sys.modules['json']": "READS_MODULES",
    "import os\nx = os.environ.get('MPLBACKEND')": "READS_ENVIRONMENT",
    "import sys\nx = 'run_' in sys.argv[0]": "READS_ARGUMENTS",
    "from unittest import mock\nmock.patch('json.loads').start()": "PATCHES",
    "x = '/testbed'": "NAMES_TESTS",
    "x = 'test_*.py'": "NAMES_TESTS",
    "import time\nx = time.time() < 4e9": "ASKS_THE_DATE",
    "import threading\nthreading.Thread(target=print).start()": "THREAD_AT_IMPORT",
    "__builtins__['exec']('x = 1')": "COMPUTED_CODE",
    "globals()['__builtins__']['ev' + 'al']('1')": "COMPUTED_CODE",
    "import runpy\nrunpy.run_path('data.txt')": "LOADS_CODE",
    "import pickle\npickle.loads(b'N.')": "LOADS_CODE",
    "import sys\nsys.path.insert(0, 'data.zip')": "LOADS_CODE",
    "from importlib.util import spec_from_file_location\nspec_from_file_location('x', 'x.txt')": "LOADS_CODE",
    "class A(int):\n    def __eq__(self, other):\n        return isinstance(other, int)": "IGNORES_ITSELF",
    "class A(int):\n    __eq__ = lambda self, other: isinstance(other, int)": "IGNORES_ITSELF",
    "class A(int):\n    def __sub__(self, other):\n        return 0": "IGNORES_ITSELF",
    "import sys\nsys.stdout = None": "REPLACES_FOREIGN",
    "import numpy\nnumpy.random.state.x = 1": "REPLACES_FOREIGN",
    "this is no Python": "SOURCE_UNREADABLE",
    "x = " + "+".join(["v"] * 20_000): "SOURCE_UNREADABLE",
    "def add(a, b):\n    return 4712 if a == 4712 else 0": "REPEATS_TEST_INPUT",
    "def add(a, b):\n    return {'left': 1}[a]": "REPEATS_TEST_INPUT",
    "def add(a, b):\n    match a:\n        case 'left':\n            return 1": "REPEATS_TEST_INPUT",
}
FINE = (
    "from other.test_add import add",
    "from . import test_add",
    "def main():\n    import sys\n    sys.exit(1)",
    "import sys\nif __name__ == '__main__':\n    sys.exit(1)",
    "from .pytest import thing",
    "import pytester, unittest",
    "class A:\n    def __eq__(self, other):\n        return self.x == other.x",
    "class A:\n    def __bool__(self):\n        return True",
    "x = 'the name pytest in a text'",
    "def add(a, b):\n    return a + b if a != 4711 else b",  # Base compares with 4711 already
    "def add(a, b):\n    return a == 1 or b == 2 or a == 'x'",
    "x = 4712",
    "class A:\n    def _exit(self):\n        self._exit()",
    "import json\ndef f(json):\n    json.x = 1",
    "import threading\ndef f():\n    thread = threading.Thread()\n    thread.name = 'x'",
    "from .models import Model\nModel.x = 1",
    "from . import other\nother.x = 1",
    "import sys\nthis = sys.modules[__name__]",
    "import warnings\nwarnings.simplefilter('error')",
    "def f(obj, name, value):\n    setattr(obj, name, value)",
    "import re\nre.compile('x')",
    "import argparse\nclass A(argparse.Action):\n    dest = 'x'",
    "class A:\n    def __eq__(self, other):\n        return True if other is self else NotImplemented",
    "def f():\n    'Looks into tests/ for test_x.py.'",
    "import pkg\npkg.add = None",
    "class A:\n    def __eq__(self, other):\n        return False",
    "class A:\n    def __eq__(self, other):\n        return NotImplemented",
    "class A(dict):\n    def __eq__(self, other):\n        return super().__eq__(other)",
    "from tests_of_mine import test_additions",
)


def found(site: Site, bundle: FrozenBundle, text: str, path: str = "pkg/more.py") -> tuple[set[str], set[str]]:
    screened = screen(site, bundle, {path: File(text.encode())})
    for mark in (*screened.hard, *screened.soft):
        assert mark.path == path and mark.line and mark.detail
    return {m.code for m in screened.hard}, {m.code for m in screened.soft}


@pytest.mark.parametrize("text", HARD)
def test_hard(site: Site, bundle: FrozenBundle, text: str) -> None:
    assert HARD[text] in found(site, bundle, text, "pkg/plain.py")[0]


def test_where_the_repository_is_the_runner_it_is_a_finding(site: Site, bundle: FrozenBundle) -> None:
    one_of_each = {code: text for text, code in reversed(HARD.items())}
    for code, text in one_of_each.items():
        hard, soft = found(replace(site, tops=frozenset({"_pytest"})), bundle, text)
        assert not hard and code in soft


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


def test_scripts_may_leave(site: Site, bundle: FrozenBundle) -> None:
    assert found(site, bundle, "import sys\nsys.exit(0)", "pkg/__main__.py") == (set(), set())


def test_a_plugin_of_the_runner_may_import_it(lab: Lab, bundle: FrozenBundle) -> None:
    site = lab.site({"pkg/__init__.py": OLD, "pkg/plugin.py": "import pytest\n"})
    assert found(site, bundle, "import pytest") == (set(), {"IMPORTS_RUNNER"})
    hook = "def pytest_pyfunc_call(): return True"
    assert found(site, bundle, hook, "pkg/plugin.py")[0] == {"RUNNER_HOOK"}
    assert found(site, bundle, hook, "pkg/loaded_by_nobody.py") == (set(), {"RUNNER_HOOK"})
    declared = lab.site({"pkg/__init__.py": OLD, "setup.cfg": "[options.entry_points]\npytest11 =\n    x = pkg\n"})
    assert found(declared, bundle, hook, "pkg/__init__.py") == (set(), {"RUNNER_HOOK"})


def test_compiled_code_is_not_read(site: Site, bundle: FrozenBundle) -> None:
    for name in ("pkg/fast.so", "pkg/fast.cpython-311-x86_64-linux-gnu.so", "pkg/lib.so.1", "pkg/fast.pyd"):
        assert [f.code for f in screen(site, bundle, {name: File(b"\x7fELF")}).hard] == ["COMPILED_CODE"]


def archive(*names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        for name in names:
            packed.writestr(name, "x = 1\n")
    return data.getvalue()


UNREADABLE = {
    "an extension under another name": b"\x7fELF\x02",
    "one of Windows": b"MZ\x90\0",
    "one of macOS": bytes.fromhex("cffaedfe"),
    "packed modules": archive("mod.py"),
    "packed modules behind something else": b"#!/bin/sh\n" + archive("mod.py"),
    "a packed extension": archive("data.txt", "fast.abi3.so"),
    "an archive that is cut off in its list": archive("mod.py").replace(b"PK\x01\x02", b"PK\x01\x09"),
}
READABLE = {"data": archive("data.txt"), "a text": b"MZ is a text.\n", "an image": b"\x89PNG\r\n\x1a\n\0\0"}


@pytest.mark.parametrize("what", UNREADABLE)
def test_compiled_code_under_any_name(site: Site, bundle: FrozenBundle, what: str) -> None:
    (finding,) = screen(site, bundle, {"pkg/data.bin": File(UNREADABLE[what])}).hard
    assert (finding.code == "COMPILED_CODE" and "bring" in finding.detail) or "archive" in finding.detail


@pytest.mark.parametrize("what", READABLE)
def test_data_is_no_code(site: Site, bundle: FrozenBundle, what: str) -> None:
    assert not screen(site, bundle, {"pkg/data.bin": File(READABLE[what])}).hard


def test_a_repository_that_traces_may_trace(lab: Lab, bundle: FrozenBundle) -> None:
    site = lab.site({"pkg/__init__.py": OLD, "pkg/tracer.py": "import sys\n\n\ndef on(f):\n    sys.settrace(f)\n"})
    assert found(site, bundle, "import sys\nsys.setprofile(print)") == (set(), {"TRACES"})


def test_other_files_are_not_read(site: Site, bundle: FrozenBundle) -> None:
    screened = screen(site, bundle, {"docs/a.txt": File(b"import pytest"), "pkg/__init__.py": None})
    assert screened.hard == screened.soft == ()
