"""Random modules, mutations and tests: the harness says what plain pytest by hand says.

A generated module has a few small functions; Base is a mutant of it. A generated test calls one and states what the
unmutated module answers, or for some tests something else. A plain run (a subprocess, the tests' own interpreter, no
harness) is the judge: the test qualifies exactly when it fails there on Base by an assertion or by an exception from
source, and a patch passes exactly when all of the test file passes there with it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from execcritic_scaffold.outcome import Decision
from execcritic_scaffold.site import default_python
from tests.scaffold.harness import Files, Lab, checkout, judge, offer, patch_of

FILE = "tests/test_generated.py"
NODE = f"{FILE}::test_generated"
OPERATORS = ("+", "-", "*", "//", "%", "<", "==", "and", "or", "**")
FAILING = {"AssertionError": "assertion", "Failed": "assertion", "ZeroDivisionError": "source-exception"}


@dataclass(frozen=True)
class Function:
    """`f(a, b)`: what it computes where its condition holds, and where it does not."""

    operator: str
    bound: int
    otherwise: str

    def text(self, name: str) -> str:
        head = f"def {name}(a, b):\n    if a > {self.bound}:\n        return a {self.operator} b\n"
        return head + f"    return {self.otherwise}\n"


functions = st.builds(
    Function, st.sampled_from(OPERATORS), st.integers(-2, 4), st.sampled_from(("a", "b", "[a, b]", "str(a)", "b - a"))
)


def mutants(original: Function) -> st.SearchStrategy[Function]:
    """Functions that differ in one place, or in nothing that matters."""
    return st.one_of(
        st.builds(Function, st.sampled_from(OPERATORS), st.just(original.bound), st.just(original.otherwise)),
        st.builds(Function, st.just(original.operator), st.integers(-2, 4), st.just(original.otherwise)),
        st.builds(Function, st.just(original.operator), st.just(original.bound), st.sampled_from(("a", "None", "b"))),
    )


@dataclass(frozen=True)
class Case:
    """Base, the tree with the right function, another one, and a test."""

    base: str
    right: str
    other: str
    test: str


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Mostly such that Base is wrong where the test looks, and the test right."""
    original = draw(functions)
    mutant, other = draw(mutants(original)), draw(mutants(original))
    helper = draw(functions).text("helper")
    a, b = draw(st.integers(-1, 5)), draw(st.integers(0, 3))
    texts = [f.text("compute") + "\n\n" + helper for f in (mutant, original, other)]
    wrong, right, _ = (answer_of(text, a, b) for text in texts)
    assume(repr(wrong) != repr(right) or draw(st.integers(0, 5)) == 0)
    if right is ZeroDivisionError:
        return Case(*texts, test_text("raises", a, b, None))
    claimed = draw(st.sampled_from((right, right, right, right, 17)))
    return Case(*texts, test_text(draw(st.sampled_from(("plain", "class", "names", "two"))), a, b, claimed))


def answer_of(text: str, a: int, b: int) -> object:
    """What the function answers; ZeroDivisionError where it raises that."""
    space: dict[str, object] = {}
    exec(text, space)
    try:
        return space["compute"](a, b)  # type: ignore[operator]
    except ZeroDivisionError as error:
        return type(error)


def test_text(style: str, a: int, b: int, claimed: object) -> str:
    """One way to write it; `raises` states that nothing is answered."""
    call = f"pkg.compute({a}, {b})"
    body = {
        "plain": f"    assert {call} == {claimed!r}\n",
        "raises": f"    with pytest.raises(ZeroDivisionError):\n        {call}\n",
        "names": f"    got = {call}\n    assert got == {claimed!r}, 'message'\n",
        "class": f"    unittest.TestCase().assertEqual({call}, {claimed!r})\n",
        "two": f"    assert {call} == {claimed!r}\n    assert pkg.helper({b}, 1) == pkg.helper({b}, 1)\n",
    }[style]
    steady = "\n\ndef test_companion():\n    assert callable(pkg.compute)\n"
    return "import unittest\n\nimport pytest\n\nimport pkg\n\n\ndef test_generated():\n" + body + steady


test_text.__test__ = False  # type: ignore[attr-defined]


def by_hand(files: Files) -> Mapping[str, str]:
    """Plain pytest in a folder with these files: test name to "passed" or the kind of exception it failed by."""
    with tempfile.TemporaryDirectory() as folder:
        checkout(Path(folder), files)
        argv = [default_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=out.xml", FILE]
        env = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(argv, cwd=folder, env=env, capture_output=True, timeout=120)
        found = {}
        for case in ElementTree.parse(Path(folder) / "out.xml").iter("testcase"):
            failure = case.find("failure")
            text = "passed" if failure is None else failure.get("message", "")
            found[case.get("name", "")] = text if text == "passed" else text.split(":")[0].split(" ")[0]
        return found


def check(lab: Lab, case: Case) -> None:
    base = {"pkg/__init__.py": case.base}
    site = lab.site(base)
    plain = by_hand({**base, FILE: case.test})["test_generated"]
    tier = FAILING.get(plain, "")
    answer = offer(site, {FILE: case.test}, NODE, k=2, soundness=False)
    assert (answer.status == "QUALIFIED") == (plain != "passed"), (plain, answer.code, answer.detail)
    if answer.bundle is None:
        assert answer.code == "PASSES_ON_BASE"
        return
    assert answer.bundle.record.nodes[NODE].tier == (tier or "assertion")
    for text in (case.right, case.other):
        if text == case.base:
            continue
        patched = {"pkg/__init__.py": text}
        passes = set(by_hand({**patched, FILE: case.test}).values()) == {"passed"}
        verdict = judge(site, answer.bundle, patch_of(site, patched), repeats=1)
        assert verdict.decision is (Decision.PASS if passes else Decision.FAIL), verdict


QUICK = settings(
    max_examples=5, deadline=None, phases=[Phase.generate], derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip


@QUICK
@given(case=cases())
def test_verdicts_are_those_of_a_plain_run(lab: Lab, case: Case) -> None:
    check(lab, case)


@pytest.mark.slow
@settings(QUICK, max_examples=25, derandomize=False)
@given(case=cases())
def test_many_verdicts_are_those_of_a_plain_run(lab: Lab, case: Case) -> None:
    check(lab, case)
