"""What the Repair agent is told: what failed and where, what changed, never how the test is written."""

from __future__ import annotations

import pytest

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.site import Site
from tests.scaffold.harness import Lab, frozen, judge, patch_of
from tests.scaffold.verified import ADD, BASE, FROZEN, QUICK, TEST, source


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    return lab.site(BASE)


@pytest.fixture(scope="module")
def bundle(site: Site) -> FrozenBundle:
    return frozen(site, {FROZEN: TEST}, ADD, soundness=False)


def test_feedback_says_what_failed_and_never_how_the_test_is_written(site: Site, bundle: FrozenBundle) -> None:
    verdict = judge(site, bundle, patch_of(site, source("raise ValueError('no way')")), **QUICK)
    assert "test_add: FAILED_EXCEPTION" in verdict.feedback and "ValueError: no way" in verdict.feedback
    assert "pkg/__init__.py:2 in add" in verdict.feedback
    told = [verdict.feedback, verdict.detail]
    told.append(judge(site, bundle, patch_of(site, source("return a * b")), **QUICK).feedback)
    told.append(judge(site, bundle, patch_of(site, source("return a +")), **QUICK).feedback)
    lines = [line.strip() for line in TEST.splitlines() if len(line.strip()) > 8 and not line.startswith("def ")]
    assert not [line for line in lines for text in told if line in text]


def test_feedback_says_what_changed(site: Site, bundle: FrozenBundle) -> None:
    wrong = patch_of(site, source("return a * b"))
    first = judge(site, bundle, wrong, "agent", **QUICK)
    assert "last check" not in first.feedback
    second = judge(site, bundle, wrong, "agent", first, **QUICK)
    assert second.feedback.startswith("Same failure as at the last check.")
    assert second.signature == first.signature
    third = judge(site, bundle, patch_of(site, source("return 0")), "agent", second, **QUICK)
    assert third.feedback.startswith("The failure differs from the last check's.")


def test_feedback_is_bounded(site: Site, bundle: FrozenBundle) -> None:
    loud = patch_of(site, source("raise ValueError('x' * 100_000)"))
    for limit in (300, 6000):
        verdict = judge(site, bundle, loud, "agent", feedback_characters=limit, **QUICK)
        assert len(verdict.feedback) <= limit and "left out" in verdict.feedback


READ = "text = open(__import__('sys')._getframe(1).f_code.co_filename).read()\n"


@pytest.mark.parametrize(
    "how",
    [
        "raise ValueError(text)",
        "raise ValueError(text.splitlines())",
        "raise AssertionError(text)",
        "raise type(text.splitlines()[6], (Exception,), {})('x')",
        "raise type(text * 9, (Exception,), {})('x')",
        "raise ValueError(text.splitlines()[6].strip()[7:])",
        "return text",
    ],
)
def test_code_that_reads_the_test_does_not_tell_it(site: Site, bundle: FrozenBundle, how: str) -> None:
    told = judge(site, bundle, patch_of(site, source(READ + how)), **QUICK).feedback
    assert "add(left, right) == 3345" not in told and "secret" not in told
    assert told and len(told.splitlines()[1]) < 6000


def test_the_runners_account_of_an_assertion_stays(site: Site, bundle: FrozenBundle) -> None:
    told = judge(site, bundle, patch_of(site, source("return a * b")), **QUICK).feedback
    assert "assert 2345000 == 3345" in told and "where 2345000 = add(1000, 2345)" in told


def test_expected_text_of_an_assertion_stays(lab: Lab) -> None:
    """Lines of a literal that goes over several lines are what the test expects, not how it is written."""
    pinned = "from pkg import page\n\n\ndef test_page():\n    assert page() == '''the first line of it\n"
    pinned += "the second line of it\n'''\n"
    site = lab.site({"pkg/__init__.py": "def page():\n    return 'x'\n"})
    bundle = frozen(site, {FROZEN: pinned}, f"{FROZEN}::test_page", soundness=False)
    repaired = {"pkg/__init__.py": "def page():\n    return 'the first line of it\\n'\n"}
    assert "the second line of it" in judge(site, bundle, patch_of(site, repaired), **QUICK).feedback
