"""The same behaviour has the same outcome and is judged alike under every runner (HARNESS 1, METHOD 8.2).

Each case is written once as a function and once as a unittest method; the function runs under pytest, the method under
pytest, unittest and Django's own suite (a real Django: marked `realset`).
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from _realset import SHARED, checkout, instances

from execcritic_scaffold.base import snapshot
from execcritic_scaffold.execute import RunRequest, execute
from execcritic_scaffold.files import Changes, File
from execcritic_scaffold.origin import Context, judge, judge_collection
from execcritic_scaffold.outcome import RunReport
from execcritic_scaffold.settings import QualifySettings
from execcritic_scaffold.site import Site, open_site
from execcritic_scaffold.store import Store
from execcritic_scaffold.task import EnvironmentSpec
from tests.scaffold.fetched import fetched
from tests.scaffold.harness import Lab

ISSUE = "There should be a `discount` function, and `Voucher` should be importable."

SHOP = """
import urllib.error, warnings

def price(name):
    return {"tea": 3}.get(name)

def parse(text):
    raise ValueError("not a basket: " + text)

def raising(error):
    raise error

def old_price():
    warnings.warn("use price", DeprecationWarning, stacklevel=1)

def needs_backend():
    import no_such_backend
"""

HEAD = """
import os, sys, time, unittest, urllib.error, warnings
import {shop} as shop
from {shop} import price, parse, raising, old_price, needs_backend
from {module} import {base} as TestCase
"""


class Case(NamedTuple):
    """One way a test can end: `outcome`, and the tier or the code it is judged by."""

    outcome: str
    judged: str
    function: str
    method: str


def same(outcome: str, judged: str, body: str) -> Case:
    """A test body that is the same as a function and as a method."""
    body = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    function = f"def test_it():\n{body}\n"
    method = f"class Cases(TestCase):\n    def test_it(self):\n{textwrap.indent(body, '    ')}\n"
    return Case(outcome, judged, function, method)


def two(outcome: str, judged: str, function: str, method: str) -> Case:
    return Case(outcome, judged, textwrap.dedent(function), textwrap.dedent(method))


CASES = {
    "passes": same("PASSED", "PASSES_ON_BASE", "assert price('tea') == 3"),
    "assertion": same("FAILED_ASSERT", "assertion", "assert price('tea') == 4"),
    "not raised": two(
        "FAILED_ASSERT",
        "assertion",
        """
        import pytest
        def test_it():
            with pytest.raises(ValueError):
                price("tea")
        """,
        """
        class Cases(TestCase):
            def test_it(self):
                with self.assertRaises(ValueError):
                    price("tea")
        """,
    ),
    "not warned": two(
        "FAILED_ASSERT",
        "assertion",
        """
        import pytest
        def test_it():
            with pytest.warns(UserWarning):
                price("tea")
        """,
        """
        class Cases(TestCase):
            def test_it(self):
                with self.assertWarns(UserWarning):
                    price("tea")
        """,
    ),
    "no exit": two(
        "FAILED_ASSERT",
        "assertion",
        """
        import pytest
        def test_it():
            with pytest.raises(SystemExit):
                price("tea")
        """,
        """
        class Cases(TestCase):
            def test_it(self):
                with self.assertRaises(SystemExit):
                    price("tea")
        """,
    ),
    "error in source": same("FAILED_EXCEPTION", "source-exception", "parse('x')"),
    "import error in source": same("FAILED_EXCEPTION", "source-exception", "needs_backend()"),
    "time-out error in source": same("FAILED_EXCEPTION", "source-exception", "raising(TimeoutError('slow'))"),
    "forbidden in source": same(
        "FAILED_EXCEPTION", "source-exception", "raising(urllib.error.HTTPError('u', 403, 'Forbidden', {}, None))"
    ),
    "exit in source": same("FAILED_EXCEPTION", "source-exception", "raising(SystemExit(0))"),
    "interrupt in source": same("FAILED_EXCEPTION", "source-exception", "raising(KeyboardInterrupt())"),
    "warning as error": same(
        "FAILED_EXCEPTION",
        "source-exception",
        """
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            old_price()
        """,
    ),
    "group of assertions": same(
        "FAILED_ASSERT", "assertion", "raise ExceptionGroup('both', [AssertionError('one'), AssertionError('two')])"
    ),
    "group with an error of source": same(
        "FAILED_EXCEPTION",
        "source-exception",
        """
        errors = [AssertionError("one")]
        try:
            parse("x")
        except ValueError as error:
            errors.append(error)
        raise ExceptionGroup("both", errors)
        """,
    ),
    "value of the wrong kind": same("FAILED_EXCEPTION", "value-shape", "assert price('mug').upper() == 'X'"),
    "missing function the issue names": same("FAILED_EXCEPTION", "api-absent", "assert shop.discount(3) == 2"),
    "missing function nobody names": same("FAILED_EXCEPTION", "WRONG_REASON", "assert shop.rebate(3) == 2"),
    "name error": same("FAILED_EXCEPTION", "WRONG_REASON", "assert prise('tea') == 3"),
    "exit in the test": same("FAILED_EXCEPTION", "WRONG_REASON", "sys.exit(3)"),
    "interrupt in the test": same("FAILED_EXCEPTION", "WRONG_REASON", "raise KeyboardInterrupt"),
    "generated code": same("FAILED_EXCEPTION", "WRONG_REASON", "exec('1 / 0')"),
    "memory error": same("OUT_OF_MEMORY", "OUT_OF_MEMORY", "bytearray(1 << 62)"),
    "memory error that is passed on": same(
        "OUT_OF_MEMORY",
        "OUT_OF_MEMORY",
        """
        try:
            bytearray(1 << 62)
        except MemoryError as error:
            raise MemoryError("too large") from error
        """,
    ),
    "memory error that source raises": same(
        "FAILED_EXCEPTION", "source-exception", "raising(MemoryError('too large'))"
    ),
    "memory error that the test raises": same("FAILED_EXCEPTION", "WRONG_REASON", "raise MemoryError('too large')"),
    "skipped": same("SKIPPED", "SKIPPED", "raise unittest.SkipTest('not here')"),
    "expected failure": two(
        "XFAILED",
        "XFAIL",
        """
        import pytest
        @pytest.mark.xfail
        def test_it():
            assert price("tea") == 4
        """,
        """
        class Cases(TestCase):
            @unittest.expectedFailure
            def test_it(self):
                assert price("tea") == 4
        """,
    ),
    "unexpected success": two(
        "XPASSED",
        "XFAIL",
        """
        import pytest
        @pytest.mark.xfail(strict=True)
        def test_it():
            assert price("tea") == 3
        """,
        """
        class Cases(TestCase):
            @unittest.expectedFailure
            def test_it(self):
                assert price("tea") == 3
        """,
    ),
    "set-up fails": two(
        "ERROR_SETUP",
        "SETUP_ERROR",
        """
        import pytest
        @pytest.fixture
        def basket():
            assert False
        def test_it(basket):
            assert price("tea") == 4
        """,
        """
        class Cases(TestCase):
            def setUp(self):
                assert False
            def test_it(self):
                assert price("tea") == 4
        """,
    ),
    "set-up of the class fails": two(
        "ERROR_SETUP",
        "SETUP_ERROR",
        """
        import pytest
        @pytest.fixture(scope="module", autouse=True)
        def basket():
            parse("x")
        def test_it():
            assert price("tea") == 4
        """,
        """
        class Cases(TestCase):
            @classmethod
            def setUpClass(cls):
                super().setUpClass()
                parse("x")
            def test_it(self):
                assert price("tea") == 4
        """,
    ),
    "clean-up fails": two(
        "ERROR_TEARDOWN",
        "SETUP_ERROR",
        """
        import pytest
        @pytest.fixture
        def basket():
            yield
            parse("x")
        def test_it(basket):
            assert price("tea") == 3
        """,
        """
        class Cases(TestCase):
            def setUp(self):
                self.addCleanup(parse, "x")
            def test_it(self):
                assert price("tea") == 3
        """,
    ),
    "clean-up of the class fails": two(
        "ERROR_TEARDOWN",
        "SETUP_ERROR",
        """
        import pytest
        @pytest.fixture(scope="module", autouse=True)
        def basket():
            yield
            parse("x")
        def test_it():
            assert price("tea") == 3
        """,
        """
        class Cases(TestCase):
            @classmethod
            def tearDownClass(cls):
                parse("x")
            def test_it(self):
                assert price("tea") == 3
        """,
    ),
    "sub-test asserts": two(
        "FAILED_ASSERT",
        "assertion",
        """
        def test_it(subtests):
            for wanted in (3, 4, 5):
                with subtests.test(wanted=wanted):
                    assert price("tea") == wanted
        """,
        """
        class Cases(TestCase):
            def test_it(self):
                for wanted in (3, 4, 5):
                    with self.subTest(wanted=wanted):
                        assert price("tea") == wanted
        """,
    ),
    "sub-test meets an error of source": two(
        "FAILED_EXCEPTION",
        "source-exception",
        """
        def test_it(subtests):
            with subtests.test():
                parse("x")
        """,
        """
        class Cases(TestCase):
            def test_it(self):
                with self.subTest():
                    parse("x")
        """,
    ),
    "sub-test is wrong": two(
        "FAILED_EXCEPTION",
        "WRONG_REASON",
        """
        def test_it(subtests):
            with subtests.test():
                prise("tea")
        """,
        """
        class Cases(TestCase):
            def test_it(self):
                with self.subTest():
                    prise("tea")
        """,
    ),
    "sub-test is skipped": two(
        "SKIPPED",
        "SKIPPED",
        """
        import pytest
        def test_it(subtests):
            with subtests.test():
                pytest.skip("not here")
        """,
        """
        class Cases(TestCase):
            def test_it(self):
                with self.subTest():
                    self.skipTest("not here")
        """,
    ),
    "coroutine nobody runs": two(
        "NOT_AWAITED",
        "NOT_AWAITED",
        """
        async def test_it():
            assert price("tea") == 4
        """,
        """
        class Cases(TestCase):
            async def test_it(self):
                assert price("tea") == 4
        """,
    ),
    "import of what the issue names": same("COLLECT_ERROR", "api-absent", "assert Voucher")._replace(
        function="from {shop} import Voucher\ndef test_it():\n    assert Voucher\n",
        method="from {shop} import Voucher\nclass Cases(TestCase):\n    def test_it(self):\n        assert Voucher\n",
    ),
    "import error": same("COLLECT_ERROR", "COLLECTION_ERROR", "assert Coupon")._replace(
        function="from {shop} import Coupon\ndef test_it():\n    assert Coupon\n",
        method="from {shop} import Coupon\nclass Cases(TestCase):\n    def test_it(self):\n        assert Coupon\n",
    ),
    "exit while imported": same("COLLECT_ERROR", "COLLECTION_ERROR", "sys.exit(0)")._replace(
        function="sys.exit(0)\ndef test_it():\n    pass\n",
        method="sys.exit(0)\nclass Cases(TestCase):\n    def test_it(self):\n        pass\n",
    ),
    "process ends": same("CRASHED", "CRASHED", "os._exit(0)"),
    "segmentation fault": same("CRASHED", "CRASHED", "import ctypes\nctypes.string_at(0)"),
    "time limit": same("TIMEOUT", "TIMEOUT", "time.sleep(600)"),
}

DJANGO_RUNS_COROUTINES = "coroutine nobody runs"
ALONE = ("CRASHED", "TIMEOUT")
"""What ends the whole process; all other cases share one run."""


@dataclass
class Flavour:
    """One runner with one way of writing tests. Every case lies in a file of its own."""

    site: Site
    shop: str
    case_class: str
    method: bool
    folder: str
    seconds: float
    reports: dict[str, RunReport] = field(default_factory=dict)

    def judged(self, name: str) -> tuple[str, str]:
        """(outcome, tier or code) of the case's one test."""
        path = self._path(name)
        report = self._report(name)
        context = Context(self.site.runner.discovery, self.site.tops, ISSUE, lambda path: self._text(name).encode())
        if path in report.collect_errors:
            judgement = judge_collection(path, report.collect_errors[path], context)
            return "COLLECT_ERROR", judgement.tier or judgement.code
        result = report.results.get(self._node(name))
        assert result is not None, (report.status, report.detail, report.collected, report.log[-2000:])
        assert report.valid is not (result.outcome in ALONE), (report.status, report.detail)
        judgement = judge(result, context)
        return str(result.outcome), judgement.tier or judgement.code

    def _report(self, name: str) -> RunReport:
        outcome = CASES[name].outcome
        names = [name] if outcome in ALONE else [n for n, case in CASES.items() if case.outcome not in ALONE]
        key = names[0]
        if key not in self.reports:
            files = {self._path(n): File(self._text(n).encode()) for n in names}
            changes: Changes = {**files, f"{self.folder}/__init__.py": File(b"")}
            if self.shop.startswith("django."):
                changes = {**changes, "django/shop.py": File(SHOP.encode())}
            settings = QualifySettings(test_seconds=self.seconds if outcome == "TIMEOUT" else 120)
            self.reports[key] = execute(self.site, changes, frozenset(), RunRequest(tuple(files)), settings)
        return self.reports[key]

    def _text(self, name: str) -> str:
        case = CASES[name]
        module, base = self.case_class.rsplit(".", 1)
        body = (case.method if self.method else case.function).replace("{shop}", self.shop)
        return HEAD.format(shop=self.shop, module=module, base=base) + body

    def _path(self, name: str) -> str:
        return f"{self.folder}/test_{re.sub(r'[^a-z]', '_', name)}.py"

    def _node(self, name: str) -> str:
        if self.site.runner.name == "pytest":
            return self._path(name) + ("::Cases" if self.method else "") + "::test_it"
        path = self._path(name).removesuffix(".py").split("/")
        return ".".join([*path[self.site.runner.name == "django" :], "Cases", "test_it"])


@pytest.fixture(scope="module")
def flavours(lab: Lab) -> dict[str, Flavour]:
    files = {"shop/__init__.py": SHOP, "README": "a shop"}
    by_pytest = lab.site(files, runner="pytest")
    by_unittest = lab.site(files, runner="unittest")
    return {
        "pytest": Flavour(by_pytest, "shop", "unittest.TestCase", False, "tests", 5),
        "pytest-method": Flavour(by_pytest, "shop", "unittest.TestCase", True, "tests", 5),
        "unittest": Flavour(by_unittest, "shop", "unittest.TestCase", True, "tests", 5),
    }


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("flavour", ["pytest", "pytest-method", "unittest"])
def test_same_behaviour_same_verdict(flavour: str, name: str, flavours: dict[str, Flavour]) -> None:
    assert flavours[flavour].judged(name) == (CASES[name].outcome, CASES[name].judged)


@pytest.fixture(scope="module")
def django(lab: Lab) -> Flavour:
    ready = fetched(checkout, instances()["django__django-15973"])
    base = snapshot(ready.repo, Store(lab.folder / "django"))
    site = open_site(base, lab.sandbox, EnvironmentSpec(python=str(ready.python)), cache=lab.folder / "cache")
    assert site.runner.name == "django"
    return Flavour(site, "django.shop", "django.test.SimpleTestCase", True, "tests/shop_cases", 15)


@pytest.mark.slow
@pytest.mark.realset
@pytest.mark.skipif(not SHARED.is_file(), reason="../shared/realset is not here")
@pytest.mark.parametrize("name", sorted(set(CASES) - {DJANGO_RUNS_COROUTINES, "time limit"}))
def test_django_s_own_suite_agrees(name: str, django: Flavour) -> None:
    assert django.judged(name) == (CASES[name].outcome, CASES[name].judged)
