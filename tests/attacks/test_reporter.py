"""The report of a run: control tests that go the way of the nodes, skipped parts, forged byte code, several starts.

Each attack leaves the defect in place. Runs are looked at themselves: what screening sees in the source is another
matter.
"""
# ruff: noqa: E501  (attacks are source texts, and read better unbroken)

from __future__ import annotations

import pytest

from execcritic_scaffold.execute import RunRequest, execute, execute_all
from execcritic_scaffold.files import File
from execcritic_scaffold.outcome import Outcome, RunReport, RunStatus
from execcritic_scaffold.settings import QualifySettings

from .arena import WRONG, Arena, Layout
from .conftest import MakeArena

pytestmark = pytest.mark.bubblewrap

SETTINGS = QualifySettings(test_seconds=60)
PLAIN = Layout()
CASE = "import unittest\nfrom pkg.calc import add\n\n\nclass Case(unittest.TestCase):\n    def test_add(self):\n"
UNITTEST = Layout(
    files={"tests/__init__.py": "", "tests/test_old.py": CASE + "        pass\n"},
    nodes=("tests.test_add.Case.test_add",),
    runner="unittest",
)
FUNCTION = "from pkg.calc import add\n\n\ndef test_add({fixture}):\n"


def run(arena: Arena, source: str, test: str, *, node: str | None = None, times: int = 1) -> list[RunReport]:
    """The test on Base with this source, as a verdict runs it."""
    path = "tests/test_add.py"
    node = node or f"{path}::{'Case::' if 'unittest' in test else ''}test_add"
    changes = {path: File(test.encode()), "pkg/calc.py": File((WRONG + source).encode())}
    request = RunRequest((path,), (node,), times=times)
    return execute_all(arena.site, changes, frozenset({path}), request, SETTINGS)


ASSERTS = FUNCTION.format(fixture="") + "    assert add(2, 3) == 5\n"
METHOD = CASE + "        self.assertEqual(add(2, 3), 5)\n"
BY_PYTEST = "import sys\np = sys.modules['_py' + 'test.{module}']\n"
NEUTRAL: dict[str, tuple[str, str]] = {
    "function items": (BY_PYTEST.format(module="python") + "p.Function.runtest = lambda self: None\n", ASSERTS),
    "the call of a function": (
        BY_PYTEST.format(module="python") + "def nothing(*a, **k): return True\n"
        "for m in [i.function for i in __import__('gc').get_objects() if type(i).__name__ == 'HookImpl' and i.function.__name__ == 'pyt' 'est_pyfunc_call' and i.function.__module__ == '_py' 'test.python']:\n"
        "    m.__code__ = nothing.__code__\n",
        ASSERTS,
    ),
    "items as they are collected": (
        "import gc\nclass P:\n    def pytest_itemcollected(self, item):\n        item.obj = lambda: None\n"
        "[o for o in gc.get_objects() if type(o).__name__ == 'Py' + 'testPluginManager'][0].register(P())\n",
        ASSERTS,
    ),
    "methods of a TestCase": (BY_PYTEST.format(module="unittest") + "p.TestCaseFunction.runtest = lambda self: None\n", METHOD),
    "what unittest calls": ("import unittest\nunittest.TestCase._callTestMethod = lambda *a: None\n", METHOD),
    "what unittest raises": ("import unittest\nunittest.TestCase.failureException = type('S', (unittest.SkipTest,), {})\n"
                             "unittest.TestCase.run = lambda self, result=None: result\n", METHOD),
}  # fmt: skip


@pytest.mark.parametrize("what", NEUTRAL)
def test_control_tests_go_the_way_of_the_nodes(what: str, make_arena: MakeArena) -> None:
    source, test = NEUTRAL[what]
    (report,) = run(make_arena(PLAIN), source, test)
    assert report.status is RunStatus.TAMPERED and "control test" in report.detail, report


def test_an_attack_that_is_over_before_the_end_is_seen_at_the_start(make_arena: MakeArena) -> None:
    source = BY_PYTEST.format(module="python") + (
        "true = p.Function.runtest\n"
        "def once(self):\n    if self.name == 'test_add':\n        p.Function.runtest = true\n"
        "p.Function.runtest = once\n"
    )
    (report,) = run(make_arena(PLAIN), source, ASSERTS)
    assert report.status is RunStatus.TAMPERED and "control test" in report.detail, report


@pytest.mark.parametrize("way", ["assertEqual", "assertTrue", "assertIn"])
def test_an_assertion_that_is_switched_off_is_seen_in_some_run(way: str, make_arena: MakeArena) -> None:
    """Each run picks its ways at random: two control tests of five ways each are missed 24 times with p < 0.0001."""
    arena = make_arena(PLAIN)
    source = f"import unittest\nunittest.TestCase.{way} = lambda *a, **k: None\n"
    assert any(run(arena, source, METHOD)[0].status is RunStatus.TAMPERED for _ in range(24))


SKIPS = "import unittest\ndef add(a, b):\n    raise unittest.SkipTest('not now')\n"
PARTS: dict[str, tuple[Layout, str, str | None]] = {
    "unittest": (UNITTEST, CASE + "        with self.subTest():\n            assert add(2, 3) == 5\n", UNITTEST.nodes[0]),
    "unittest, one of three": (
        UNITTEST,
        CASE + "        for n in range(3):\n            with self.subTest(n=n):\n                assert n != 1 or add(2, 3) == 5\n",
        UNITTEST.nodes[0],
    ),
    "pytest, methods": (PLAIN, CASE + "        with self.subTest():\n            assert add(2, 3) == 5\n", None),
    "pytest, functions": (
        PLAIN, FUNCTION.format(fixture="subtests") + "    with subtests.test():\n        assert add(2, 3) == 5\n", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", PARTS)
def test_a_skipped_sub_test_has_not_passed(where: str, make_arena: MakeArena) -> None:
    layout, test, node = PARTS[where]
    (report,) = run(make_arena(layout), SKIPS, test, node=node)
    assert report.valid, (report.detail, report.log)
    assert [result.outcome for result in report.results.values()] == [Outcome.SKIPPED]


def test_a_sub_test_that_fails_beside_a_skipped_one_fails(make_arena: MakeArena) -> None:
    test = (
        CASE
        + "        with self.subTest():\n            self.skipTest('x')\n        with self.subTest():\n            assert 0\n"
    )
    for layout, node in ((UNITTEST, UNITTEST.nodes[0]), (PLAIN, None)):
        (report,) = run(make_arena(layout), "", test, node=node)
        assert [result.outcome for result in report.results.values()] == [Outcome.FAILED_ASSERT]


FORGER = """
import importlib.util, marshal, os, sys
path = '/testbed/tests/test_add.py'
code = marshal.dumps(compile('def test_add():\\n    pass\\nclass Case(__import__("unittest").TestCase):\\n    test_add = lambda self: None\\n', path, 'exec'))
head = importlib.util.MAGIC_NUMBER + (3).to_bytes(4, 'little') + importlib.util.source_hash(open(path, 'rb').read())
tag = sys.implementation.cache_tag
names = ['test_add.%s.pyc' % tag]
if 'pytest' in sys.modules:
    names.append('test_add.%s-pytest-%s.pyc' % (tag, sys.modules['pytest'].__version__))
for name in names:
    try:
        os.makedirs('/testbed/tests/__pycache__', exist_ok=True)
        with open('/testbed/tests/__pycache__/' + name, 'wb') as file:
            file.write(head + code)
    except OSError:
        pass
"""
EARLY = "import pkg.calc\n"


@pytest.mark.parametrize("engine", ["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
@pytest.mark.parametrize("runner", ["pytest", "unittest"])
@pytest.mark.parametrize("on_base", [False, True])
def test_byte_code_of_the_frozen_test_cannot_be_forged(
    engine: str, runner: str, on_base: bool, make_arena: MakeArena
) -> None:
    """Source that runs before the test is imported writes the cache from which Python would load it."""
    arena = make_arena(FORGED[runner, on_base], engine)
    test, node = (ASSERTS, None) if runner == "pytest" else (METHOD, UNITTEST.nodes[0])
    (report,) = run(arena, FORGER, test, node=node)
    assert [result.outcome for result in report.results.values()] == [Outcome.FAILED_ASSERT], report


FORGED = {
    (runner, on_base): Layout(
        files={
            "tests/__init__.py": EARLY if runner == "unittest" else "",
            "tests/conftest.py": EARLY,
            **({"tests/test_add.py": CASE + "        pass\n"} if on_base else {}),
        },
        runner=runner,
    )
    for runner in ("pytest", "unittest")
    for on_base in (False, True)
}

NONCES = """
import gc, os, json
seen = set()
def look(value):
    if isinstance(value, dict):
        seen.update(k for k in value if k == 'nonces')
for o in gc.get_objects():
    look(o)
for part in ('mem', 'environ', 'fd/0'):
    try:
        open('/proc/%d/%s' % (os.getppid(), part), 'rb').read(1)
        seen.add(part)
    except OSError:
        pass
def add(a, b):
    raise ValueError(sorted(seen))
"""


def test_a_start_knows_nothing_of_later_starts(make_arena: MakeArena) -> None:
    reports = run(make_arena(PLAIN), NONCES, ASSERTS, times=2)
    assert len(reports) == 2
    failure = next(iter(reports[0].results.values())).failure
    assert failure is not None and failure.message == "[]", failure.message


AGAIN = {
    "a record too many": "w(b'{\"again\": 1}\\n')\n",
    "the records of all starts": "w(b'{\"again\": 1}\\n' * 3)\nos._exit(1)\n",
    "something after the last start": "os.fork() or (__import__('time').sleep(60), os._exit(0))\nw(b'{\"again\": 1}\\nx\\n')\n",
}
WRITE = (
    "import os\nif os.environ['PYTHONHASHSEED'] == '0':\n    def w(data):\n        for fd in range(3, 20):\n            try:\n"
    "                os.write(fd, data)\n            except OSError:\n                pass\n    "
)


@pytest.mark.parametrize("how", AGAIN)
def test_records_that_the_starter_did_not_write(how: str, make_arena: MakeArena) -> None:
    reports = run(make_arena(PLAIN), WRITE + AGAIN[how].replace("\n", "\n    ").rstrip() + "\n", ASSERTS, times=2)
    assert reports[-1].status is RunStatus.TAMPERED, reports


def test_a_starter_that_is_killed_is_a_crash(make_arena: MakeArena) -> None:
    reports = run(
        make_arena(PLAIN), "import os\nos.kill(os.getppid(), 9)\n__import__('time').sleep(5)\n", ASSERTS, times=2
    )
    assert reports[-1].status is RunStatus.CRASHED, reports


FULL = {
    "disk": "def add(a, b):\n    with open('/tmp/x', 'wb') as f:\n        while True:\n            f.write(b'1' * (1 << 20))\n",
    "descriptors": "import os\ndef add(a, b):\n    return [open(os.devnull) for _ in range(1 << 22)]\n",
    "disk, on import": "with open('/tmp/x', 'wb') as f:\n    while True:\n        f.write(b'1' * (1 << 20))\n",
}


@pytest.mark.parametrize("what", FULL)
def test_a_machine_that_is_full_is_not_a_failure(what: str, make_arena: MakeArena) -> None:
    arena = make_arena(PLAIN)
    changes = {"pkg/calc.py": File(FULL[what].encode()), "tests/test_add.py": File(ASSERTS.encode())}
    request = RunRequest(("tests/test_add.py",), PLAIN.nodes)
    report = execute(arena.site, changes, frozenset(), request, QualifySettings(test_seconds=60, disk_mb=8))
    assert report.status is RunStatus.ENVIRONMENT, report


def test_an_error_number_that_code_raises_itself_is_its_behaviour(make_arena: MakeArena) -> None:
    source = "import errno\ndef add(a, b):\n    raise OSError(errno.ENOSPC, 'full')\n"
    (report,) = run(make_arena(PLAIN), source, ASSERTS)
    assert [result.outcome for result in report.results.values()] == [Outcome.FAILED_EXCEPTION]


def test_a_file_that_is_skipped_on_import_is_skipped(make_arena: MakeArena) -> None:
    for layout, test, node in ((PLAIN, ASSERTS, None), (UNITTEST, METHOD, UNITTEST.nodes[0])):
        (report,) = run(make_arena(layout), "import unittest\nraise unittest.SkipTest('x')\n", test, node=node)
        assert [result.outcome for result in report.results.values()] == [Outcome.SKIPPED], report


def test_tests_see_the_command_line_of_a_plain_run(make_arena: MakeArena) -> None:
    told = FUNCTION.format(fixture="") + "    import sys\n    raise ValueError(sys.argv)\n"
    (report,) = run(make_arena(PLAIN), "", told)
    (result,) = report.results.values()
    assert result.failure is not None and result.failure.message == "['pytest', 'tests/test_add.py']"
