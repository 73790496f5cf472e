"""The pytest reporter under other pytests and other plugins than those of this environment. Each is installed from a
package index into an environment of its own below the cache; skipped where that cannot be had."""

from __future__ import annotations

import pytest
from _realset import environment

from tests.scaffold.fetched import fetched
from tests.scaffold.harness import Lab
from tests.scaffold.test_pytest_corners import BOTH, CONFIGURED, ends, run

pytestmark = [pytest.mark.realset, pytest.mark.slow]

SUITE = {
    "pytest.ini": "[pytest]\naddopts = --assert=plain\n",  # the old ones cannot rewrite for this Python
    "conftest.py": "import pytest\n@pytest.fixture\ndef broken():\n    raise OSError\n",
    "test_x.py": """
import pytest, unittest
def test_good(): pass
def test_bad(): assert 0
def test_not_raised():
    with pytest.raises(SystemExit): pass
def test_set_up(broken): pass
def test_interrupt(): raise KeyboardInterrupt
def test_exit(): pytest.exit("enough")
@pytest.mark.xfail(strict=True)
def test_strict(): pass
def test_skipped(): pytest.skip("no")
async def test_coroutine(): pass
class TestOld(unittest.TestCase):
    @unittest.expectedFailure
    def test_unexpected(self): pass
    async def test_only_called(self): pass
    def tearDown(self): 1 / 0
    def test_clean_up(self): pass
""",
    "test_y.py": "import no_such_module\n",
    "test_z.py": "import sys; sys.exit(0)\n",
}
EXPECTED = {
    "good": "PASSED", "bad": "FAILED_ASSERT", "not_raised": "FAILED_ASSERT", "set_up": "ERROR_SETUP",
    "interrupt": "FAILED_EXCEPTION", "exit": "FAILED_EXCEPTION", "strict": "XPASSED", "skipped": "SKIPPED",
    "coroutine": "NOT_AWAITED", "clean_up": "ERROR_TEARDOWN",
}  # fmt: skip


@pytest.mark.parametrize("version", ["4.6.11", "5.4.3", "6.2.5", "7.4.4", "8.4.2"])
def test_reports_are_the_same_under_older_pytests(version: str, lab: Lab) -> None:
    site = lab.site(SUITE, python=str(fetched(environment, [f"pytest=={version}"])))
    report = run(site)
    found = ends(report)
    assert {name: found.get(name) for name in EXPECTED} == EXPECTED
    assert sorted(report.collect_errors) == ["test_y.py", "test_z.py"]
    assert report.runner["version"] == version


PLUGINS = ("pytest==8.4.2", "pytest-xdist", "pytest-randomly", "pytest-rerunfailures", "pytest-cov", "pytest-timeout",
           "pytest-asyncio", "pytest-subtests")  # fmt: skip
COROUTINES = """
import asyncio, pytest
@pytest.mark.asyncio
async def test_good():
    await asyncio.sleep(0)
@pytest.mark.asyncio
async def test_bad():
    assert 0
"""


@pytest.mark.parametrize("name", ["xdist", "randomly", "rerunfailures", "cov", "timeout"])
def test_plugins_that_are_there_change_nothing(name: str, lab: Lab) -> None:
    site = lab.site(CONFIGURED[name], python=str(fetched(environment, PLUGINS)))
    assert ends(run(site)) == BOTH


def test_a_plugin_that_runs_coroutines_runs_them(lab: Lab) -> None:
    assert ends(run(lab.site({"test_x.py": COROUTINES}, python=str(fetched(environment, PLUGINS))))) == BOTH


WRAPPERS = {
    "conftest.py": """
import pytest
class Late(Exception): pass
def after(phase, item):
    yield
    if item.name.endswith(phase):
        raise Late
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item): yield from after("set_up", item)
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item): yield from after("call", item)
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item): yield from after("clean_up", item)
""",
    "test_x.py": "def test_good(): pass\ndef test_set_up(): pass\ndef test_call(): pass\ndef test_clean_up(): pass\n"
    "def test_both_call(): assert 0\n",
}


@pytest.mark.parametrize("packages", [("pytest==7.4.4", "pluggy==1.2.0"), ("pytest==8.4.2",)], ids=" ".join)
def test_a_wrapper_that_raises_is_how_the_phase_ended(packages: tuple[str, ...], lab: Lab) -> None:
    """As a warning does that is an error; an old pluggy then resumes no wrapper around it, ours neither."""
    report = run(lab.site(WRAPPERS, python=str(fetched(environment, packages))))
    found = {name: end for name, end in ends(report).items() if name != "both_call"}
    assert found == {
        "good": "PASSED",
        "set_up": "ERROR_SETUP",
        "call": "FAILED_EXCEPTION",
        "clean_up": "ERROR_TEARDOWN",
    }
    assert ends(report)["both_call"].startswith("FAILED")
