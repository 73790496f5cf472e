"""Real bugs of real projects (../shared/realset) through the console script, from the issue to the verdict."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest
from _console import execcritic
from _realset import SHARED, Instance, Unavailable, checkout, instances
from unidiff import PatchSet

QUICK = ("pallets__flask-5063", "pytest-dev__pytest-10051")
SLOW = (
    "psf__requests-6028",
    "pallets__flask-4992",
    "sphinx-doc__sphinx-9711",
    "pydata__xarray-7393",
    "sympy__sympy-23534",
)
NO_EFFECT = "a comment"

pytestmark = [
    pytest.mark.realset,
    pytest.mark.bubblewrap,
    pytest.mark.skipif(not SHARED.is_file(), reason="../shared/realset is not here"),
]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_official_test_qualifies_and_tells_patches_apart(name: str, tmp_path: Path) -> None:
    instance = instances()[name]
    bundle, repo = qualified(instance, tmp_path)
    for number, (label, patch, expected) in enumerate(labelled(instance, repo)):
        file = tmp_path / f"{number}.patch"
        file.write_bytes(patch)
        repeats = 2 if expected == "PASS" else 1
        answer = execcritic(
            "verify", "--bundle", bundle, "--repo", repo, "--patch", file, "--guard", "off", "--repeats", str(repeats)
        )
        assert answer.status == expected, (label, answer.body, answer.stderr)
        assert answer.code == {"PASS": 0, "FAIL": 1}[expected]
        if label != NO_EFFECT:  # for which nothing need be run
            failing = {node for node, outcome in answer.body["nodes"].items() if outcome != "PASSED"}
            assert bool(failing & set(instance["FAIL_TO_PASS"])) == (expected == "FAIL"), (label, answer.body)


def qualified(instance: Instance, tmp_path: Path) -> tuple[Path, Path]:
    """The bundle of the official test, and the checkout; skips where the bug cannot be fetched."""
    try:
        ready = checkout(instance)
    except Unavailable as reason:
        pytest.skip(str(reason))
    issue, test_patch = tmp_path / "issue.md", tmp_path / "test.patch"
    issue.write_text(instance["problem_statement"], encoding="utf-8")
    test_patch.write_text(instance["test_patch"], encoding="utf-8")
    answer = execcritic(
        "qualify", "--repo", ready.repo, "--issue", issue, "--test-patch", test_patch,
        *(word for node in instance["FAIL_TO_PASS"] for word in ("--node", node)),
        *(word for root in ready.source_roots for word in ("--source-root", root)),
        "--python", ready.python, "--runner", instance["runner"], "--guard", "off", "--out", tmp_path / "run",
    )  # fmt: skip
    assert (answer.status, answer.code) == ("QUALIFIED", 0), (answer.body, answer.stderr)
    assert set(instance["FAIL_TO_PASS"]) <= set(answer.body["nodes"])
    return Path(answer.body["bundle"]), ready.repo


def labelled(instance: Instance, repo: Path) -> Iterator[tuple[str, bytes, str]]:
    """Patches with the verdict that the frozen nodes must give."""
    yield "the reference patch", instance["gold_patch"].encode(), "PASS"
    yield NO_EFFECT, comment_only(instance, repo), "FAIL"
    for candidate in instance["candidate_patches"]:
        if candidate["local_resolved"] is False and candidate.get("local_fail_to_pass") is False:
            yield candidate["source"], candidate["patch"].encode(), "FAIL"


def comment_only(instance: Instance, repo: Path) -> bytes:
    """A patch of a file that the reference patch touches, without any effect."""
    path = next(file.path for file in PatchSet(instance["gold_patch"]) if file.path.endswith(".py"))
    old = (repo / path).read_text(encoding="utf-8").splitlines(keepends=True)
    new = [*old, "# Looked at; left as it is.\n"]
    return "".join(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")).encode()
