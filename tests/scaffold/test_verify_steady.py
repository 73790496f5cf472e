"""What may not matter to a verdict: order, folders, times, what ran before and what runs beside."""

from __future__ import annotations

import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.outcome import Decision, Verdict
from execcritic_scaffold.site import Site
from tests.scaffold.harness import Lab, codes, frozen, judge, offer, open_lab, patch_of
from tests.scaffold.verified import ADD, BASE, FROZEN, QUICK, RIGHT, TEST, Counted, source


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    return lab.site(BASE)


@pytest.fixture(scope="module")
def bundle(site: Site) -> FrozenBundle:
    return frozen(site, {FROZEN: TEST}, ADD, soundness=False)


def essence(verdict: Verdict) -> tuple[object, ...]:
    """A verdict without its times."""
    guard = replace(verdict.guard, seconds=0)
    return (verdict.decision, verdict.reason, dict(verdict.nodes), guard, verdict.findings, verdict.feedback,
            verdict.signature)  # fmt: skip


def test_the_order_of_files_in_a_patch(site: Site, bundle: FrozenBundle) -> None:
    files = {**source("from pkg.zero import nil\nreturn a * b + nil"), "pkg/zero.py": "nil = 0\n", "a.txt": "x\n"}
    parts = re.split(rb"(?m)^(?=diff --git )", patch_of(site, files))[1:]
    assert len(parts) == 3
    one, other = (judge(site, bundle, b"".join(p), **QUICK) for p in (parts, parts[::-1]))
    assert essence(one) == essence(other) and one.decision is Decision.FAIL


def test_another_checkout_of_the_same_base(site: Site, bundle: FrozenBundle, tmp_path: Path) -> None:
    """Other folders, other modification times, nothing cached."""
    with open_lab(tmp_path) as lab:
        elsewhere = lab.site(BASE)
        for patch in (patch_of(site, RIGHT), patch_of(site, source("return a * b"))):
            assert essence(judge(elsewhere, bundle, patch, **QUICK)) == essence(judge(site, bundle, patch, **QUICK))


def test_the_options_of_the_bundle_are_used_again(lab: Lab) -> None:
    """An option that this environment does not know was left out when the test was admitted."""
    site = lab.site({**BASE, "pyproject.toml": None, "pytest.ini": "[pytest]\naddopts = --option-of-a-plugin\n"})
    answer = offer(site, {FROZEN: TEST}, ADD, k=1, soundness=False)
    assert answer.bundle is not None and "OPTIONS_LEFT_OUT" in codes(answer), answer
    verdict = judge(site, answer.bundle, patch_of(site, RIGHT), **QUICK)
    assert verdict.decision is Decision.PASS, verdict


def test_a_second_verify_does_nothing_again_that_depends_on_base(
    site: Site, bundle: FrozenBundle, tmp_path: Path
) -> None:
    counted = Counted(site.sandbox)
    cold = replace(site, sandbox=counted, cache=tmp_path)
    patch = patch_of(site, RIGHT)
    settings = {"repeats": 1, "guard": "list", "guard_nodes": ("tests/test_old.py::test_zero",)}
    judge(cold, bundle, patch, **settings)
    first, counted.runs = counted.runs, 0
    judge(cold, bundle, patch, **settings)
    assert (first, counted.runs) == (4, 2)


def test_side_by_side_in_threads(site: Site, bundle: FrozenBundle, tmp_path: Path) -> None:
    cold = replace(site, cache=tmp_path)
    patches = [patch_of(site, RIGHT), patch_of(site, source("return a * b"))] * 2
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda patch: judge(cold, bundle, patch, **QUICK), patches))
    assert [v.decision for v in verdicts] == [Decision.PASS, Decision.FAIL] * 2
    assert essence(verdicts[1]) == essence(verdicts[3])


def test_side_by_side_in_processes(site: Site, bundle: FrozenBundle, tmp_path: Path) -> None:
    cold = replace(site, cache=tmp_path)
    patches = [patch_of(site, RIGHT), patch_of(site, source("return a * b"))]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        verdicts = list(pool.map(judge, [cold] * 2, [bundle] * 2, patches))
    assert [v.decision for v in verdicts] == [Decision.PASS, Decision.FAIL]
