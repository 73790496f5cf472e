"""What suites do to pytest and to those who watch it: ids, layouts, configuration, hooks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from execcritic_scaffold.execute import RunRequest, execute
from execcritic_scaffold.origin import Context, judge
from execcritic_scaffold.outcome import RunReport, RunStatus
from execcritic_scaffold.settings import QualifySettings
from execcritic_scaffold.site import Site
from tests.scaffold.harness import Lab, codes, frozen, offer, patch_of
from tests.scaffold.harness import judge as verdict_on

SETTINGS = QualifySettings(test_seconds=120)
TWO = "def test_good():\n    assert 1\ndef test_bad():\n    assert 0\n"
BOTH = {"good": "PASSED", "bad": "FAILED_ASSERT"}
SOURCE = {"pkg/__init__.py": "def one():\n    return 2\n"}


def run(site: Site, *files: str, **request: Any) -> RunReport:
    """One run of these files, of every test file of Base where none is named."""
    chosen = files or tuple(p for p in site.entries if Path(p).name.startswith("test_") and p.endswith(".py"))
    return execute(site, {}, frozenset(), RunRequest(chosen, **request), SETTINGS)


def ends(report: RunReport) -> dict[str, str]:
    """Outcomes by the name of the test alone."""
    assert report.valid, (report.status, report.detail, report.log[-3000:].decode("utf-8", "replace"))
    return {n.split("::")[-1].removeprefix("test_"): str(r.outcome) for n, r in report.results.items()}


def ini(text: str) -> dict[str, str]:
    return {"pytest.ini": "[pytest]\n" + text + "\n", "test_x.py": TWO}


CONFIGURED: dict[str, dict[str, str]] = {
    "xdist": ini("addopts = -n auto --dist=loadscope"),
    "randomly": ini("addopts = -p randomly --randomly-seed=1"),
    "rerunfailures": ini("addopts = --reruns 3 --reruns-delay=1 --strict-markers\nreruns = 2")
    | {"test_x.py": "import pytest\n@pytest.mark.flaky(reruns=2)\n" + TWO},
    "cov": ini("addopts = --cov=pkg --cov-report term-missing --cov-fail-under=100 --no-cov-on-fail"),
    "timeout": ini("addopts = --timeout=1 --timeout-method thread --strict-markers\ntimeout = 1")
    | {"test_x.py": "import pytest, time\n@pytest.mark.timeout(1)\ndef test_good():\n    time.sleep(1.5)\n"
                    "def test_bad():\n    assert 0\n"},
    "warnings are errors": ini("filterwarnings = error"),
    "strict": ini("addopts = --strict-config --strict-markers\nmarkers = slow: it is")
    | {"test_x.py": "import pytest\npytestmark = pytest.mark.slow\n" + TWO},
    "required plugins that are absent": ini("required_plugins = pytest-no-such-plugin>=9"),
    "stopping": ini("addopts = -x -v --maxfail=1 --ignore=test_x.py --ignore-glob=*x.py --lf --sw -ra"),
    "reports": ini("addopts = --junitxml=out.xml -rA --durations=5 --tb=no -vv -s --color yes"),
    "importlib": ini("addopts = --import-mode=importlib"),
    "a plugin in the tree": ini("addopts = -p tools.plugin --answer 42")
    | {
        "tools/__init__.py": "",
        "tools/plugin.py": "def pytest_addoption(parser):\n    parser.addoption('--answer', type=int)\n",
        "test_x.py": "def test_good(pytestconfig):\n    assert pytestconfig.getoption('answer') == 42\n"
                     "def test_bad():\n    assert 0\n",
    },
    "pytest_plugins": {
        "conftest.py": "pytest_plugins = ['helpers']\n",
        "helpers.py": "import pytest\n@pytest.fixture\ndef seven():\n    return 7\n",
        "test_x.py": "def test_good(seven):\n    assert seven == 7\ndef test_bad(seven):\n    assert seven == 8\n",
    },
    "minversion, testpaths, norecursedirs": {
        "pytest.ini": "[pytest]\nminversion = 6.0\ntestpaths = other\nnorecursedirs = t*\n", "tests/test_x.py": TWO,
    },
    "collect_ignore": {"conftest.py": "collect_ignore = ['test_x.py']\n", "test_x.py": TWO},
    "pyproject": {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = ['-n', '2', '--strict-config']\n",
                  "test_x.py": TWO},
    "pyproject, native": {"pyproject.toml": "[tool.pytest]\naddopts = ['-n', '2', '--strict-config']\n",
                          "test_x.py": TWO},
    "pytest.toml": {"pytest.toml": "[pytest]\naddopts = ['-n', '2', '--strict-config']\n", "test_x.py": TWO},
    "hooks that reorder": {
        "conftest.py": "def pytest_collection_modifyitems(items):\n    items.sort(key=lambda i: i.name)\n",
        "test_x.py": TWO,
    },
    "hooks that look closely at items": {
        "conftest.py": (
            "def look(item):\n"
            "    item.function.__name__, item.function.__code__, item.cls, item.instance, item.obj.__doc__\n"
            "    item.module.__file__, list(item.fixturenames), item.funcargs.get('y'), item.originalname\n"
            "    item.get_closest_marker('z'), item.location, item.keywords, item.path, item.nodeid\n"
            "def pytest_collection_finish(session):\n    [look(i) for i in session.items]\n"
            "def pytest_runtest_setup(item):\n    look(item)\n"
            "def pytest_runtest_makereport(item, call):\n    look(item)\n"
        ),
        "test_x.py": TWO,
    },
    "same base names in folders that are no packages": {
        "pytest.ini": "[pytest]\naddopts = --import-mode=importlib\n",
        "a/test_x.py": "def test_good():\n    pass\n", "b/test_x.py": "def test_bad():\n    assert 0\n",
    },
    "src layout": {"src/pkg/__init__.py": "", "src/pkg/m.py": "ONE = 1\n", "setup.cfg": "[metadata]\nname = pkg\n",
                   "tests/test_x.py": "from pkg.m import ONE\n" + TWO},
    "namespace package": {"space/part/__init__.py": "ONE = 1\n",
                          "tests/test_x.py": "from space.part import ONE\n" + TWO},
    "modules called as ours": {"report.py": "ONE = 1\n", "causes.py": "ONE = 1\n",
                               "test_x.py": "from report import ONE\nfrom causes import ONE\n" + TWO},
    "pytester": {
        "conftest.py": "pytest_plugins = ['pytester']\n",
        "test_x.py": (
            "def test_good(pytester):\n"
            "    pytester.makepyfile('def test_a(): pass\\ndef test_b(): assert 0')\n"
            "    pytester.runpytest_inprocess().assert_outcomes(passed=1, failed=1)\n"
            "def test_bad(pytester):\n"
            "    pytester.makepyfile('def test_a(): assert 0')\n"
            "    pytester.runpytest_inprocess().assert_outcomes(passed=1)\n"
        ),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGURED)
def test_configuration_does_not_change_what_is_seen(name: str, lab: Lab) -> None:
    assert ends(run(lab.site(CONFIGURED[name]))) == BOTH


PICKY = {
    "pytest.ini": "[pytest]\nmarkers = slow: it is\n"
    "addopts = -m 'not slow' -k 'not other' --deselect=test_x.py::test_gone\n",
    "test_x.py": "import pytest\n\n\ndef test_good():\n    pass\n\n\n@pytest.mark.slow\ndef test_bad():\n    assert 0\n"
    "\n\ndef test_other():\n    pass\n\n\ndef test_gone():\n    pass\n",
}


def test_what_the_suite_leaves_out_runs_only_when_it_is_named(lab: Lab) -> None:
    site = lab.site(PICKY)
    assert ends(run(site)) == {"good": "PASSED"}
    assert ends(run(site, named=("x.py::test_bad",))) == BOTH
    assert ends(run(site, nodes=("test_x.py::test_bad", "test_x.py::test_gone"))) == {
        "bad": "FAILED_ASSERT",
        "gone": "PASSED",
    }
    broken = {**PICKY, "pytest.ini": "[pytest]\naddopts = -m 'not ('\nmarkers = slow: it is\n"}
    assert len(ends(run(lab.site(broken)))) == 4


IDS = """
import pytest

class Odd:
    def __repr__(self):
        return "<odd>"

@pytest.mark.parametrize("value", ["a[b]", "two words", "line\\nbreak", "ünïcödé ☃", "x::y", "a/b.py::c", "", b"\\xff", Odd(), 1.5])
def test_id(value):
    pass

@pytest.mark.parametrize("value", [1, 2], ids=["same", "same"])
def test_twice(value):
    assert value == 1
"""  # noqa: E501


def test_node_ids_of_every_kind_are_told_apart_and_can_be_asked_for(lab: Lab) -> None:
    site = lab.site({"tests/test_ids.py": IDS})
    every = run(site)
    assert len(every.collected) == 12 and every.valid
    assert [str(r.outcome) for n, r in every.results.items() if "test_twice" in n] == ["PASSED", "FAILED_ASSERT"]
    for node in ("tests/test_ids.py::test_id[x::y]", "tests/test_ids.py::test_id[two words]"):
        assert node in every.results
    chosen = tuple(n for n in every.collected if "::test_id[" in n)
    again = run(site, nodes=chosen, order="reversed")
    assert again.valid and set(again.results) == set(chosen) and len(chosen) == 10
    cut = site.runner.match("tests/test_ids.py::test_id[two", every.collected)
    assert cut == "tests/test_ids.py::test_id[two words]"


def test_of_two_tests_with_one_id_the_worse_counts(lab: Lab) -> None:
    conftest = (
        "import pytest\n"
        "def pytest_pycollect_makeitem(collector, name, obj):\n"
        "    if name == 'test_bad':\n"
        "        return [pytest.Function.from_parent(collector, name='test_good', callobj=obj)]\n"
    )
    report = run(lab.site({"conftest.py": conftest, "test_x.py": TWO}))
    assert ends(report) == {"good": "FAILED_ASSERT"} and len(report.collected) == 2


def test_an_item_that_a_hook_lists_twice_runs_once(lab: Lab) -> None:
    hook = "def pytest_collection_modifyitems(items):\n    items.extend(items[:])\n"
    assert ends(run(lab.site({"conftest.py": hook, "test_x.py": TWO}))) == BOTH


def test_ids_are_relative_to_the_repository_wherever_rootdir_is(lab: Lab) -> None:
    files = {"conftest.py": "raise RuntimeError('not of this rootdir')\n", "lib/tests/pytest.ini": "[pytest]\n",
             "lib/tests/unit/test_x.py": TWO, "lib/tests/unit/test_y.py": "import no_such_thing\n"}  # fmt: skip
    site = lab.site(files)
    report = run(site)
    assert report.collected == tuple(f"lib/tests/unit/test_x.py::test_{name}" for name in ("good", "bad"))
    assert list(report.collect_errors) == ["lib/tests/unit/test_y.py"]
    node = "lib/tests/unit/test_x.py::test_bad"
    assert site.runner.match("unit/test_x.py::test_bad", report.collected) == node
    assert run(site, "lib/tests/unit/test_x.py", nodes=(node,)).results[node].outcome == "FAILED_ASSERT"


def test_conftest_above_the_tests_counts(lab: Lab) -> None:
    fixture = "import pytest\n@pytest.fixture\ndef three():\n    return 3\n"
    files = {"conftest.py": fixture, "a/b/test_x.py": "def test_good(three):\n    assert three == 3\n"}
    assert ends(run(lab.site(files))) == {"good": "PASSED"}


def test_a_deselected_test_is_not_collected(lab: Lab) -> None:
    hook = "def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if 'good' in i.name]\n"
    site = lab.site({"conftest.py": hook, "test_x.py": TWO})
    assert ends(run(site)) == {"good": "PASSED"}
    assert run(site, nodes=("test_x.py::test_bad",)).status is RunStatus.NODE_SET_MISMATCH


def test_marks_and_fixtures(lab: Lab) -> None:
    text = """
import pytest
@pytest.mark.xfail
@pytest.mark.skipif(True, reason="no")
def test_stacked(): assert 0
@pytest.mark.xfail(raises=KeyError)
def test_other_error(): assert 0
@pytest.mark.xfail(run=False)
def test_not_run(): assert 0
@pytest.mark.xfail(strict=True)
def test_strict(): pass
@pytest.mark.xfail
def test_lax(): pass
def test_imperative(): pytest.xfail("later")
def test_exit(): pytest.exit("enough")
def test_exit_well(): pytest.exit("enough", returncode=0)
@pytest.fixture(scope="session")
def service():
    yield 1
    raise OSError("cannot stop")
def test_last(service): pass
"""
    assert ends(run(lab.site({"test_x.py": text}))) == {
        "stacked": "SKIPPED", "other_error": "FAILED_ASSERT", "not_run": "XFAILED", "strict": "XPASSED",
        "lax": "XPASSED", "imperative": "XFAILED", "exit": "FAILED_EXCEPTION", "exit_well": "FAILED_EXCEPTION",
        "last": "ERROR_TEARDOWN",
    }  # fmt: skip


def test_an_autouse_fixture_that_fails_is_the_set_up(lab: Lab) -> None:
    conftest = "import pytest\n@pytest.fixture(autouse=True)\ndef always():\n    assert 0\n"
    assert set(ends(run(lab.site({"conftest.py": conftest, "test_x.py": TWO}))).values()) == {"ERROR_SETUP"}


def test_what_a_suite_does_to_its_tests_is_not_done_to_the_control_tests(lab: Lab) -> None:
    """Marks of whole modules, the recipe for incremental tests, fixtures that fail, a session that stops early."""
    conftest = """
import pytest
def pytest_configure(config):
    config.option.maxfail = 2
def pytest_runtest_makereport(item, call):
    if "incremental" in item.keywords and call.excinfo is not None:
        item.parent._previousfailed = item
def pytest_runtest_setup(item):
    if "incremental" in item.keywords and hasattr(item.parent, "_previousfailed"):
        pytest.xfail("the one before failed")
"""
    files = {
        "conftest.py": conftest,
        "test_a.py": "import pytest\npytestmark = pytest.mark.skip\ndef test_never():\n    pass\n",
        "test_b.py": "import pytest\npytestmark = pytest.mark.incremental\ndef test_good():\n    pass\n",
        "test_c.py": "import pytest\npytestmark = pytest.mark.xfail\ndef test_later():\n    assert 0\n",
    }
    site = lab.site(files)
    assert ends(run(site)) == {"never": "SKIPPED", "good": "PASSED", "later": "XFAILED"}
    assert ends(run(site, "test_b.py", nodes=("test_b.py::test_good",))) == {"good": "PASSED"}
    assert ends(run(site, "test_a.py")) == {"never": "SKIPPED"}


def test_a_skipped_module_and_one_that_exits_do_not_hide_the_others(lab: Lab) -> None:
    files = {"test_a.py": "import pytest\npytest.skip('no', allow_module_level=True)\n",
             "test_b.py": "import pytest\npytest.exit('all of it')\n", "test_x.py": TWO}  # fmt: skip
    report = run(lab.site(files))
    assert ends(report) == BOTH and list(report.collect_errors) == ["test_b.py"]


DOCTESTS = {
    "pytest.ini": "[pytest]\naddopts = --doctest-modules --doctest-glob=*.rst\n",
    "pkg/__init__.py": 'def one():\n    """\n    >>> one()\n    1\n    """\n    return 2\n'
    'def boom():\n    """\n    >>> boom()\n    """\n    raise ValueError("x")\n'
    'def wrong():\n    """\n    >>> nothing_here\n    """\n',
    "docs/use.rst": "Use\n===\n\n>>> import pkg\n>>> pkg.one()\n2\n",
}


def test_doctests_are_nodes(lab: Lab) -> None:
    site = lab.site(DOCTESTS)
    report = run(site, "pkg/__init__.py", "docs/use.rst")
    context = Context(site.runner.discovery, site.tops, "", site.read)
    judged = {n.split("::")[-1]: judge(r, context) for n, r in report.results.items()}
    assert {n: j.tier or j.code for n, j in judged.items()} == {
        "pkg.one": "assertion", "pkg.boom": "source-exception", "pkg.wrong": "WRONG_REASON",
        "use.rst": "PASSES_ON_BASE",
    }  # fmt: skip


def test_what_is_imported_must_be_the_checkout(lab: Lab) -> None:
    conftest = (
        "import pathlib, sys, tempfile\n"
        "elsewhere = pathlib.Path(tempfile.mkdtemp()); (elsewhere / 'pkg').mkdir()\n"
        "(elsewhere / 'pkg' / '__init__.py').write_text('def one(): return 1')\n"
        "sys.path.insert(0, str(elsewhere))\n"
    )
    test = {"tests/test_x.py": "import pkg\ndef test_good():\n    assert pkg.one() == 1\n"}
    report = run(lab.site({**SOURCE, **test, "tests/conftest.py": conftest}))
    assert report.status is RunStatus.WRONG_IMPORT_TARGET and "pkg" in report.detail


@pytest.mark.parametrize("name", ["attr", "packaging", "pluggy"])
def test_a_dependency_of_pytest_is_taken_from_the_checkout(name: str, lab: Lab) -> None:
    """The checkout of what pytest itself imports: pytest is loaded again with that copy."""
    if name == "pluggy":
        import pluggy

        folder = Path(pluggy.__file__).parent
        files = {f"src/pluggy/{p.name}": p.read_text() for p in folder.glob("*.py")}
        files["src/pluggy/__init__.py"] += "\nMARK = 'checkout'\n"
    else:
        files = {f"src/{name}/__init__.py": "MARK = 'checkout'\n"}
    if name == "packaging":
        pytest.importorskip("packaging")
        import packaging

        folder = Path(packaging.__file__).parent
        files |= {f"src/packaging/{p.relative_to(folder)}": p.read_text() for p in folder.rglob("*.py")}
        files["src/packaging/__init__.py"] += "\nMARK = 'checkout'\n"
    files["tests/test_x.py"] = f"import {name}\ndef test_good():\n    assert {name}.MARK == 'checkout'\n"
    assert ends(run(lab.site(files))) == {"good": "PASSED"}


def test_hooks_that_break_on_the_control_tests_cost_them_and_nothing_else(lab: Lab) -> None:
    conftest = (
        "def pytest_runtest_makereport(item, call):\n"
        "    assert item.function.__code__.co_filename == str(item.path), 'only tests of mine'\n"
    )
    neighbour = {"tests/test_old.py": "def test_old():\n    pass\n", "conftest.py": conftest}
    site = lab.site({**SOURCE, **neighbour})
    test = {"tests/test_new.py": "from pkg import one\ndef test_new():\n    assert one() == 1\n"}
    answer = offer(site, test, "tests/test_new.py::test_new")
    assert answer.status == "QUALIFIED" and "NO_CANARIES" in codes(answer), answer


ABOUT: Mapping[str, tuple[str, str, str]] = {
    "ImportError": ("def work():\n    import no_such_backend\n", "assert work() == 1", "def work():\n    return 1\n"),
    "SystemExit": ("import sys\ndef work():\n    sys.exit(0)\n", "assert work() == 1", "def work():\n    return 1\n"),
    "KeyboardInterrupt": (
        "def work():\n    raise KeyboardInterrupt\n", "with pytest.raises(SystemExit):\n        work()",
        "def work():\n    raise SystemExit(130)\n",
    ),
    "no exit": ("def work():\n    pass\n", "with pytest.raises(SystemExit):\n        work()",
                "def work():\n    raise SystemExit(2)\n"),
    "no warning": ("def work():\n    pass\n", "with pytest.warns(DeprecationWarning):\n        work()",
                   "import warnings\ndef work():\n    warnings.warn('x', DeprecationWarning)\n"),
    "time-out": ("def work():\n    raise TimeoutError('timed out')\n", "assert work() == 1",
                 "def work():\n    return 1\n"),
    "ExceptionGroup": (
        "def work():\n    raise ExceptionGroup('many', [ValueError(1), KeyError(2)])\n",
        "with pytest.raises(ValueError):\n        work()", "def work():\n    raise ValueError(1)\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("topic", ABOUT)
def test_an_issue_about_it_qualifies_and_gets_its_verdict(topic: str, lab: Lab) -> None:
    broken, check, fixed = ABOUT[topic]
    site = lab.site({"work.py": broken, "tests/test_old.py": "def test_old():\n    pass\n"})
    test = {"tests/test_new.py": f"import pytest\nfrom work import work\n\ndef test_new():\n    {check}\n"}
    bundle = frozen(site, test, "tests/test_new.py::test_new", issue=f"{topic} in work()", guard="off")
    repaired = verdict_on(site, bundle, patch_of(site, {"work.py": fixed}), repeats=1, guard="off")
    assert repaired.decision == "PASS", repaired
    idle = verdict_on(site, bundle, patch_of(site, {"work.py": broken + "# same\n"}), repeats=1, guard="off")
    assert idle.decision == "FAIL", idle
