"""The guard: existing tests that passed on Base must pass with the patch, and what cannot be known is no pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.outcome import Decision
from execcritic_scaffold.site import Site
from tests.scaffold.harness import Lab, codes, frozen, judge, patch_of
from tests.scaffold.verified import ADD, BASE, FROZEN, OLD, PKG, RIGHT, TEST


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    return lab.site(BASE)


@pytest.fixture(scope="module")
def bundle(site: Site) -> FrozenBundle:
    return frozen(site, {FROZEN: TEST}, ADD, soundness=False)


def test_a_guard_test_that_fails_on_base_too_is_left_out(lab: Lab) -> None:
    """It passed there only because of a neighbour that does not pass, and so is not in the guard."""
    old = "from pkg import add\nSEEN = []\n\ndef test_a():\n    SEEN.append(1)\n    assert add(1, 1) == 3\n"
    old += "\ndef test_b():\n    assert SEEN\n"
    site = lab.site({"pkg/__init__.py": PKG, "tests/test_old.py": old})
    bundle = frozen(site, {FROZEN: TEST}, ADD, k=1, soundness=False)
    verdict = judge(site, bundle, patch_of(site, RIGHT), repeats=1)
    assert verdict.decision is Decision.PASS
    assert verdict.guard.flaky == ("tests/test_old.py::test_b",) and "FLAKY_GUARD" in codes(verdict)


def test_it_runs_in_the_order_of_base_whatever_the_times(site: Site, bundle: FrozenBundle) -> None:
    """The quickest are chosen first; a test that needs the one before it still comes after it."""
    seconds = {n: 0.001 if n.endswith("needs_the_one_before") else 0.002 for n in bundle.record.guard}
    timed = replace(bundle, record=bundle.record.model_copy(update={"guard": seconds}))
    verdict = judge(site, timed, patch_of(site, RIGHT), repeats=1)
    assert (verdict.guard.passed, verdict.guard.flaky) == (4, ())


BREAKS_MUL = {"pkg/__init__.py": RIGHT["pkg/__init__.py"].replace("a * b", "a * b + 1")}
ZERO, MUL = "tests/test_old.py::test_zero", "tests/test_old.py::test_mul"


@pytest.mark.parametrize(
    ("listed", "guarded", "failing"),
    [
        ((ZERO,), 1, ()),
        ((ZERO, MUL), 2, (MUL,)),
        (("test_mul (tests.test_old)",), 1, (MUL,)),
        ((MUL, "tests/test_old.py::test_absent"), 1, (MUL,)),
        ((MUL, "tests/test_absent.py::test_x"), 1, (MUL,)),
        ((ZERO, ADD), 1, ()),
    ],
)
def test_a_listed_guard(
    site: Site, bundle: FrozenBundle, listed: tuple[str, ...], guarded: int, failing: tuple[str, ...]
) -> None:
    verdict = judge(site, bundle, patch_of(site, BREAKS_MUL), repeats=1, guard="list", guard_nodes=listed)
    report = verdict.guard
    assert (report.mode, report.nodes, report.not_run) == ("list", guarded, len(listed) - guarded)
    assert report.newly_failing == failing
    assert verdict.decision is (Decision.FAIL if failing else Decision.PASS)


def test_a_listed_guard_that_cannot_be_measured_gives_no_pass(lab: Lab) -> None:
    """Base's own suite breaks off, so nobody knows what passed there."""
    old = "import os\n\ndef test_a():\n    os._exit(0)\n\ndef test_b():\n    pass\n"
    site = lab.site({"pkg/__init__.py": PKG, "tests/test_old.py": OLD, "tests/far/away/deep/test_exit.py": old})
    bundle = frozen(site, {FROZEN: TEST}, ADD, k=1, soundness=False, guard="off")
    nodes = ("tests/far/away/deep/test_exit.py::test_b",)
    verdict = judge(site, bundle, patch_of(site, RIGHT), repeats=1, guard="list", guard_nodes=nodes)
    assert verdict.decision is Decision.INCONCLUSIVE
