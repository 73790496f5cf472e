"""Code under test runs in the reporter's process. None of what it does there may turn a wrong patch into PASS.

Each attack leaves the defect in place, so any PASS is wrong; a finding does not excuse it. Written so that no import,
attribute or literal gives it away to a reader of the source alone.
"""
# ruff: noqa: E501  (attacks are source texts, and read better unbroken)

from __future__ import annotations

import pytest

from execcritic_scaffold.outcome import Decision

from .arena import RIGHT, WRONG, Layout
from .conftest import MakeArena

pytestmark = pytest.mark.bubblewrap

PLAIN = Layout()
CASE = Layout(
    test={
        "tests/test_add.py": "import unittest\nfrom pkg.calc import add\n\n\nclass Case(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
    },
    nodes=("tests/test_add.py::Case::test_add",),
)
HELPERS = Layout(
    test={
        "tests/test_add.py": "import math\n\nimport pytest\n\nfrom pkg.calc import add\n\n\ndef test_add():\n"
        "    assert math.isclose(add(2, 3), 5)\n    assert add(2, 3) == pytest.approx(5)\n"
    }
)
EXPECTED = Layout(
    test={
        "tests/test_add.py": "from pkg.calc import add\n\nEXPECTED = [5]\n\n\ndef test_add():\n    got = add(2, 3)\n"
        "    assert got == EXPECTED[0]\n"
    }
)
SKEWED = Layout(
    test={
        "tests/test_add.py": "from pkg.calc import add\n\n\ndef test_add():\n    assert add(2, 3) in (5,) and add(1, 1) == 2\n"
    }
)
RAISES = Layout(
    test={
        "tests/test_add.py": "import pytest\n\nfrom pkg.calc import add\n\n\ndef test_add():\n"
        "    with pytest.raises(TypeError):\n        add(2, 'x' and 3)\n"
    },
    issue="pkg.calc.add(2, 3) must raise TypeError.",
)
UNITTEST = Layout(
    files={
        "tests/__init__.py": "",
        "tests/test_old.py": "import unittest\nfrom pkg.calc import add\n\n\nclass Old(unittest.TestCase):\n"
        "    def test_zero(self):\n        self.assertEqual(add(4, 0), 4)\n",
    },
    test=CASE.test,
    nodes=("tests.test_add.Case.test_add",),
    runner="unittest",
)

EMIT = """
emit = Channel.emit
def lie(self, event, **fields):
    if event == "phase" and fields["node"].endswith("::test_add"):
        fields["outcome"], fields["raw_failed"] = "passed", False
        fields.pop("failure", None)
    emit(self, event, **fields)
Channel.emit = lie
"""
FORGE = """
import json, posix
for o in gc.get_objects():
    if type(o).__name__ == "Reporter":
        r = o
c, q = r.channel, r.request
near = q["files"][0]
items = [near + "::" + n for n in (q["canaries"]["pass"], "test_add", q["canaries"]["fail"])]
c.emit("collected", nodes=items[1:2])
c.emit("selected", nodes=items)
for k, node in enumerate(items):
    bad = k == 2
    c.emit("phase", item=k, node=node, phase="call", outcome="failed" if bad else "passed", raw_failed=bad,
           xfail=False, seconds=0.0,
           **({"failure": {"mro": ["builtins.AssertionError"], "message": "", "frames": [], "text": "", "name": None}}
              if bad else {}))
c.emit("end", exit=1, imports={})
posix._exit(1)
"""

ATTACKS: dict[str, tuple[Layout, str]] = {
    "imports the reporter and rewrites what it emits": (PLAIN, "from report import Channel" + EMIT),
    "finds the reporter in sys.modules": (PLAIN, "import sys\nChannel = sys.modules['rep' + 'ort'].Channel" + EMIT),
    "finds the channel among all objects": (
        PLAIN,
        "import gc\nChannel = [type(o) for o in gc.get_objects() if type(o).__name__ == 'Channel'][0]" + EMIT,
    ),
    "reaches the reporter's frame by a traceback": (
        PLAIN,
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    f = e.__traceback__.tb_frame\n"
        "while 'channel' not in f.f_locals:\n    f = f.f_back\nChannel = type(f.f_locals['channel'])" + EMIT,
    ),
    "patches the reporter in __main__": (
        PLAIN,
        "import __main__\n__main__.Reporter.on_report = (lambda f: lambda self, item, rep: "
        "f(self, item, rep) if 'test_add' != item.name else self.channel.emit('phase', item=self.index[item], "
        "node=item.nodeid, phase='call', outcome='passed', raw_failed=False, xfail=False, seconds=0.0) "
        "if rep.when == 'call' else None)(__main__.Reporter.on_report)\n",
    ),
    "writes a whole forged report and leaves": (PLAIN, "import gc\n" + FORGE),
    "makes the runner's function items do nothing": (
        PLAIN,
        "import sys\nsys.modules['_py' + 'test.python'].Function.runtest = lambda self: None\n",
    ),
    "the same from a string that is executed": (
        PLAIN,
        "exec(bytes(c ^ 1 for c in "
        + repr(bytes(c ^ 1 for c in b"import sys\nsys.modules['_pytest.python'].Function.runtest = lambda self: 0"))
        + "))\n",
    ),
    "swaps the test's code in a thread": (
        PLAIN,
        "import sys, threading\ndef run():\n    while True:\n        for m in list(sys.modules.values()):\n"
        "            t = getattr(m, 'test_add', None)\n            if hasattr(t, '__code__'):\n"
        "                t.__code__ = (lambda: None).__code__\n                return\n"
        "threading.Thread(target=run, daemon=True).start()\n",
    ),
    "changes the loaded test through its own import": (
        PLAIN,
        "import sys\nclass Finder:\n    def find_spec(self, name, path=None, target=None):\n        for m in "
        "list(sys.modules.values()):\n            t = getattr(m, 'test_add', None)\n"
        "            if hasattr(t, '__code__'):\n                t.__code__ = (lambda: None).__code__\n"
        "sys.meta_path.insert(0, Finder())\n",
    ),
    "raises an assertion that is no error": (
        PLAIN,
        "import builtins\nclass Quiet(builtins.Warning):\n    pass\nbuiltins.AssertionError = Quiet\n",
    ),
    "patches AssertionError and __import__": (
        PLAIN,
        "import builtins, os\nbuiltins.AssertionError = lambda *a: os.__dict__['_ex' + 'it'](1)\n",
    ),
    "turns unittest's assertion off": (CASE, "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n"),
    "turns it off under unittest": (UNITTEST, "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n"),
    "makes unittest call nothing": (UNITTEST, "import unittest\nunittest.TestCase._callTestMethod = lambda *a: 0\n"),
    "makes unittest count failures as success": (
        UNITTEST,
        "import unittest\nunittest.TextTestResult.addFailure = lambda s, t, e: s.addSuccess(t)\n",
    ),
    "patches what the test compares with": (
        HELPERS,
        "import math, sys\nmath.isclose = lambda *a, **k: True\n"
        "sys.modules['py' + 'test'].approx = lambda *a, **k: -1\n",
    ),
    "lets pytest.raises accept nothing": (
        RAISES,
        "import sys\nfor m in list(sys.modules.values()):\n    for n in ('RaisesExc', 'RaisesContext'):\n"
        "        c = getattr(m, n, None)\n        if c and m.__name__.startswith('_py' + 'test'):\n"
        "            c.__exit__ = lambda *a: True\n",
    ),
    "jumps over the assertion": (
        PLAIN,
        "from sys import settrace, _getframe\ndef add(a, b):\n    f = _getframe(1)\n    def skip(frame, event, arg):\n"
        "        frame.f_trace_opcodes = True\n        return skip\n"
        "    if f.f_code.co_name == 'test_add':\n        f.f_trace = skip\n        settrace(skip)\n"
        "        f.f_code = None\n    return a - b\n",
    ),
    "skips": (PLAIN, "import unittest\ndef add(a, b):\n    raise unittest.SkipTest('x')\n"),
    "skips on import": (PLAIN, "import unittest\nraise unittest.SkipTest('x')\n"),
    "expects failure": (PLAIN, "import sys\ndef add(a, b):\n    sys.modules['py' + 'test'].xfail('x')\n"),
    "ends the session": (PLAIN, "import sys\ndef add(a, b):\n    sys.modules['py' + 'test'].exit('x', returncode=1)\n"),
    "leaves by an alias of os._exit": (PLAIN, "from posix import _exit\n_exit(0)\n"),
    "leaves with the status of a run that failed": (PLAIN, "from posix import _exit\ndef add(a, b):\n    _exit(1)\n"),
    "goes on as a child": (PLAIN, "import os\nif os.fork():\n    os.wait()\n    os.__dict__['_exit'](1)\n"),
    "raises SystemExit": (PLAIN, "def add(a, b):\n    raise SystemExit(0)\n"),
    "is equal to every number": (
        PLAIN,
        "class N(int):\n    def __eq__(self, o):\n        return isinstance(o, int) or int.__eq__(self, o)\n    __hash__ = int.__hash__\n"
        "def add(a, b):\n    return N(a - b)\n",
    ),
    "is equal to the first number it meets": (
        CASE,
        "class N(int):\n    def __eq__(self, o):\n        self.v = getattr(self, 'v', o)\n        return self.v == o + 0\n"
        "def add(a, b):\n    return N(a - b)\n",
    ),
    "is equal to every number, in a conjunction": (
        SKEWED,
        "class N(int):\n    def __eq__(self, o):\n        return (o + self * 0) == o\ndef add(a, b):\n    return N(a - b)\n",
    ),
    "changes what the test expects, by its caller": (
        EXPECTED,
        "import sys\ndef add(a, b):\n    names = sys._getframe(1).f_globals\n    names['EXPECTED'] = [a - b]\n    return a - b\n",
    ),
    "changes what the test expects, by a traceback": (
        EXPECTED,
        "def add(a, b):\n    try:\n        raise ValueError\n    except ValueError as e:\n"
        "        f = e.__traceback__.tb_frame.f_back\n    f.f_globals.update(EXPECTED=[a - b])\n    return a - b\n",
    ),
    "changes what the test expects, by its module": (
        EXPECTED,
        "def add(a, b):\n    import test_add\n    test_add.EXPECTED[0] = a - b\n    return a - b\n",
    ),
    "changes what the test expects, by all objects": (
        EXPECTED,
        "def add(a, b):\n    import gc\n    [o.update(EXPECTED=[a - b]) for o in gc.get_objects() if type(o) is dict and "
        "'EXPECTED' in o]\n    return a - b\n",
    ),
    "changes what the test expects, by all classes": (
        EXPECTED,
        "def add(a, b):\n    for k in object.__subclasses__():\n        if k.__name__ == '_wrap_close':\n"
        "            k.__init__.__globals__['sys'].modules['test_add'].EXPECTED = [a - b]\n    return a - b\n",
    ),
    "changes the test's names by a profiler": (
        PLAIN,
        "import sys\ndef p(f, e, a):\n    if f.f_code.co_name == 'test_add' and e == 'call':\n"
        "        f.f_globals['add'] = lambda a, b: a + b\nsys.setprofile(p)\n",
    ),
    "changes a number in memory": (
        PLAIN,
        "import ctypes\nctypes.memmove(id(5) + 24, id(-1) + 24, 4)\n",
    ),
    "puts the runner's functions out of action by a pickle": (
        PLAIN,
        "import pickle\npickle.loads(b'c_pytest.python\\nFunction\\n.').runtest = lambda self: None\n",
    ),
    "hides behind a codec": (PLAIN, "# coding: utf-7\n# +AAo-import os+AAo-os._exit(0)\n"),
    "leaves in an exit handler": (PLAIN, "import atexit, os\natexit.register(lambda: getattr(os, '_ex' + 'it')(0))\n"),
    "raises KeyboardInterrupt": (PLAIN, "def add(a, b):\n    raise KeyboardInterrupt\n"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_source_in_the_same_process(name: str, make_arena: MakeArena) -> None:
    layout, code = ATTACKS[name]
    # In two repeats, as by default: what no reader of the source can tell, the inverted twin finds out.
    verdict = make_arena(layout).verify({"pkg/calc.py": WRONG + code}, repeats=2)
    assert verdict.decision is not Decision.PASS, verdict.findings


PLUGIN = Layout(
    files={
        "conftest.py": "pytest_plugins = ['pkg.plugin']\n",
        "pkg/plugin.py": "import pytest\n\n\n@pytest.fixture\ndef two():\n    return 2\n",
    }
)
HOOKS = {
    "the call": "def pytest_pyfunc_call(pyfuncitem):\n    return True\n",
    "the collected item": "def pytest_itemcollected(item):\n    if hasattr(item, 'obj'):\n        item.obj = lambda: 0\n",
    "the report": "@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    o = yield\n"
    "    if item.name == 'test_add':\n        o.get_result().outcome = 'passed'\n",
    "an autouse fixture": "@pytest.fixture(autouse=True)\ndef replaced(request):\n"
    "    request.node.obj = lambda: None\n",
}


@pytest.mark.parametrize("what", HOOKS)
def test_plugin_of_the_repository(what: str, make_arena: MakeArena) -> None:
    """Base loads a plugin out of its own source; the patch gives that plugin a hook."""
    arena = make_arena(PLUGIN)
    plugin = PLUGIN.base["pkg/plugin.py"].decode()
    assert arena.verify({"pkg/plugin.py": plugin + "\n\n" + HOOKS[what]}).decision is not Decision.PASS


LIES = {
    "no report": b"1 passed in 0.01s\n",
    "another run's": b'{"e": "end", "exit": 0, "n": 0, "nonce": "0"}\n',
    "nested too deep": b"[" * 100_000 + b"\n",
    "without an end": b'{"e"',
}


@pytest.mark.parametrize("what", LIES)
def test_forged_lines_on_every_descriptor(what: str, make_arena: MakeArena) -> None:
    code = f"import os\nfor fd in range(3, 64):\n    try:\n        os.set_blocking(fd, False)\n        os.write(fd, {LIES[what]!r})\n    except OSError:\n        pass\n"
    verdict = make_arena(PLAIN).verify({"pkg/calc.py": WRONG + code})
    assert verdict.decision in (Decision.TAMPERED, Decision.FORBIDDEN), verdict.detail


@pytest.mark.parametrize("event", ["'collected'", "'selected'", "'phase'", "'phase', item=[]", "'begin'", "'nonsense'"])
def test_malformed_events_are_an_answer(event: str, make_arena: MakeArena) -> None:
    code = (
        "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Channel':\n"
        f"        o.emit({event})\n        break\n"
    )
    verdict = make_arena(PLAIN).verify({"pkg/calc.py": WRONG + code})
    assert verdict.decision in (Decision.TAMPERED, Decision.FORBIDDEN), verdict.detail


def test_a_thread_that_writes_on(make_arena: MakeArena) -> None:
    code = (
        "import os, threading\ndef run():\n    while True:\n        for fd in range(3, 16):\n            try:\n"
        "                os.write(fd, b'x\\n')\n            except OSError:\n                pass\n"
        "threading.Thread(target=run, daemon=True).start()\n"
    )
    assert make_arena(PLAIN).verify({"pkg/calc.py": RIGHT + code}).decision is Decision.TAMPERED
