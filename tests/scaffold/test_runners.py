"""Which runner a repository gets, what its node ids mean, and SymPy's own runner on a real SymPy."""

from __future__ import annotations

import pytest
from _realset import SHARED, checkout, instances

from execcritic_scaffold.base import snapshot
from execcritic_scaffold.errors import UsageError
from execcritic_scaffold.execute import RunRequest, execute
from execcritic_scaffold.files import File
from execcritic_scaffold.outcome import RunReport
from execcritic_scaffold.runners import registry
from execcritic_scaffold.runners.ids import match_pytest, match_unittest
from execcritic_scaffold.runners.pytest_config import kept
from execcritic_scaffold.settings import QualifySettings
from execcritic_scaffold.site import Site, open_site
from execcritic_scaffold.store import Store
from execcritic_scaffold.task import EnvironmentSpec
from tests.scaffold.fetched import fetched
from tests.scaffold.harness import Lab

DJANGO = {"django/__init__.py": None, "tests/runtests.py": None}
SYMPY = {"sympy/__init__.py": None, "bin/test": None, "setup.cfg": None}
SPHINX = {"tox.ini": b"[testenv]\ncommands = python -X dev -m pytest {posargs}\n", "tests/test_api.py": None}
SITE_OF_DJANGO = {"manage.py": None, "app/tests.py": None, "setup.cfg": b"[tool:pytest]\naddopts = --ds=app.settings\n"}


@pytest.mark.parametrize(
    ("files", "name"), [(DJANGO, "django"), (SYMPY, "pytest"), (SPHINX, "pytest"), (SITE_OF_DJANGO, "pytest")]
)
def test_the_runner_is_found_from_the_repository(files: dict[str, bytes | None], name: str) -> None:
    assert registry.choose(files).name == name


@pytest.mark.parametrize("name", registry.NAMES)
def test_a_named_runner_wins(name: str) -> None:
    assert registry.choose(DJANGO, name).name == name


def test_a_runner_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="choose one of django, pytest, sympy, unittest"):
        registry.choose(DJANGO, "nose")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("tests/test_a.py::test_x[two words]", "tests/test_a.py::test_x[two words]"),
        ("tests/test_a.py::test_x[two", "tests/test_a.py::test_x[two words]"),
        ("test_a.py::test_y", "tests/test_a.py::test_y"),
        ("test_m (tests.test_a.T)", "tests/test_a.py::T::test_m"),
        ("test_m (tests.test_a.T.test_m)", "tests/test_a.py::T::test_m"),
        ("test_y", "tests/test_a.py::test_y"),
        ("test_x", None),
        ("test_a.py::test_none", None),
    ],
)
def test_an_id_of_any_form_is_matched_where_it_means_one_test(given: str, meant: str | None) -> None:
    collected = ["test_x[two words]", "test_x[other]", "test_y", "T::test_m"]
    assert match_pytest(given, [f"tests/test_a.py::{tail}" for tail in collected]) == meant


@pytest.mark.parametrize("given", ["a.tests.T.test_m", "test_m (a.tests.T)", "tests/a/tests.py::T::test_m", "test_m"])
def test_unittest_ids_are_matched_in_every_form(given: str) -> None:
    assert match_unittest(given, ["a.tests.T.test_m", "b.tests.T.test_n"]) == "a.tests.T.test_m"


@pytest.mark.parametrize(
    ("addopts", "left"),
    [
        ("-n auto --dist=loadfile -p xdist", ""),
        ("-W error --strict-markers -p no:warnings -o xfail_strict=true", "same"),
        ("--cov pkg --cov-report=xml --runslow --ds=x.y", "--runslow --ds=x.y"),
        ("-k expr -m mark -x -vv -ra -kexpr -n4 --maxfail 2 --import-mode importlib", "--import-mode importlib"),
        ("--reruns 3 --timeout=5 --forked --doctest-modules", "--doctest-modules"),
    ],
)
def test_only_what_changes_judgement_is_left_out_of_addopts(addopts: str, left: str) -> None:
    assert kept(addopts.split()) == (addopts if left == "same" else left).split()


TESTS = """
import sys
from sympy import Symbol
from {helpers} import XFAIL, SKIP, raises, slow
from sympy.core.probe import broken

def test_good():
    assert Symbol("x") + Symbol("x") == 2*Symbol("x")
def test_bad():
    assert Symbol("x") == Symbol("y")
def test_not_raised():
    raises(ValueError, lambda: Symbol("x"))
def test_error():
    broken()
def test_exit():
    sys.exit(0)
def test_interrupt():
    raise KeyboardInterrupt
@XFAIL
def test_expected():
    assert 0
@XFAIL
def test_unexpected():
    pass
@SKIP("later")
def test_later():
    pass
@slow
def test_slow():
    assert 0
def test_last():
    pass
"""
ENDS = {
    "good": "PASSED", "bad": "FAILED_ASSERT", "not_raised": "FAILED_ASSERT", "error": "FAILED_EXCEPTION",
    "exit": "FAILED_EXCEPTION", "interrupt": "FAILED_EXCEPTION", "expected": "XFAILED", "unexpected": "XPASSED",
    "later": "SKIPPED", "slow": "SKIPPED", "last": "PASSED",
}  # fmt: skip


@pytest.fixture(scope="module")
def sympy(lab: Lab) -> Site:
    ready = fetched(checkout, instances()["sympy__sympy-21930"])
    base = snapshot(ready.repo, Store(lab.folder / "sympy"))
    spec = EnvironmentSpec(python=str(ready.python), runner="sympy")
    return open_site(base, lab.sandbox, spec, cache=lab.folder / "cache")


@pytest.mark.slow
@pytest.mark.realset
@pytest.mark.skipif(not SHARED.is_file(), reason="../shared/realset is not here")
def test_sympy_s_own_runner_reports_its_results(sympy: Site) -> None:
    path = "sympy/core/tests/test_probe.py"
    changes = {
        path: File(TESTS.format(helpers="sympy.testing.pytest").encode()),
        "sympy/core/tests/test_probe_broken.py": File(b"from sympy import NoSuchThing\n"),
        "sympy/core/probe.py": File(b"def broken():\n    raise ValueError('broken')\n"),
    }

    def run(*nodes: str, files: tuple[str, ...] = (path,)) -> RunReport:
        asked = RunRequest(files, tuple(f"{path}::{n}" for n in nodes) or None)
        report = execute(sympy, changes, frozenset(), asked, QualifySettings(test_seconds=200))
        assert report.valid, (report.status, report.detail, report.log[-2000:])
        return report

    whole = run(files=(path, "sympy/core/tests/test_probe_broken.py"))
    assert {n.split("::test_")[1]: str(r.outcome) for n, r in whole.results.items()} == ENDS
    (error,) = whole.collect_errors.values()
    assert error.kind == "builtins.ImportError"
    source = whole.results[f"{path}::test_error"].failure
    assert source is not None and source.frames[-1].path == "sympy/core/probe.py"
    chosen = run("test_slow", "test_last")
    assert [str(r.outcome) for r in chosen.results.values()] == ["FAILED_ASSERT", "PASSED"]
    assert whole.runner["runner"] == "sympy"
