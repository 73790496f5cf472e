"""How long `verify` takes beside pytest by hand, on a tree the size of Django (DESIGN 5).

By hand: `python -m pytest FILE::NODE` in a warm checkout. Ours: `verify` of a bundle with that one node through the
Python API, imports done, bubblewrap, one repeat, guard off, Base replay cached: a fresh workspace each time. Both run
with the fix applied, in turn, round after round; medians. Beside it: how often a qualification starts the runner, and
that a second verify on the same Base starts it once less than the first (the Base replay is not made again).
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _realset import checkout, commit, environment, instances
from _report import Target, arguments, finish, table

from execcritic import places
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.base import Base, snapshot
from execcritic_scaffold.outcome import Decision
from execcritic_scaffold.qualify import qualify
from execcritic_scaffold.sandbox.protocol import Command, Completed, Limits, Sandbox, Workspace
from execcritic_scaffold.settings import QualifySettings, VerifySettings
from execcritic_scaffold.site import open_site
from execcritic_scaffold.task import EnvironmentSpec
from execcritic_scaffold.verify import verify

DJANGO = "django__django-16100"
SOURCE = "django/template/defaultfilters.py"
RIGHT, WRONG = 'value = value.replace(arg, "")', 'value = value.replace(arg, "", 1)'
TEST = "tests/plain_filters/test_cut.py"
CONTROL = "tests/plain_filters/test_lower.py"
NODE = f"{TEST}::test_every_occurrence_is_cut"
TEST_SOURCE = """from django.template.defaultfilters import cut


def test_every_occurrence_is_cut():
    assert cut("a-b-c", "-") == "abc"
"""
CONTROL_SOURCE = """from django.template.defaultfilters import lower


def test_lower():
    assert lower("A") == "a"
"""
ISSUE = "The filter cut removes only the first occurrence."


@dataclass
class Counting:
    """A sandbox that counts the one-shot commands it passes on."""

    inner: Sandbox
    starts: int = 0

    def run(
        self, workspace: Workspace, command: Command, limits: Limits, *, network: bool = False, audit: bool = False
    ) -> Completed:
        self.starts += 1
        return self.inner.run(workspace, command, limits, network=network, audit=audit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def seeded(folder: Path) -> tuple[Path, Base, bytes, bytes]:
    """A Django checkout with a bug as Base, the patch that adds the test and the one that fixes the bug; the checkout
    itself has both applied."""
    instance = instances()[DJANGO]
    tree = folder / "django"
    shutil.copytree(checkout(instance).repo, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    fixed = (tree / SOURCE).read_bytes()
    (tree / SOURCE).write_bytes(fixed.replace(RIGHT.encode(), WRONG.encode(), 1))
    # Most of Django's own tests need its own runner; the control (an existing test that passes) is a plain one.
    (tree / CONTROL).parent.mkdir()
    (tree / CONTROL).write_text(CONTROL_SOURCE)
    commit(tree)
    base = snapshot(tree, places.store())
    test_patch = difference(tree, {TEST: TEST_SOURCE.encode()})
    fix = difference(tree, {SOURCE: fixed})
    return tree, base, test_patch, fix


def difference(tree: Path, files: Mapping[str, bytes]) -> bytes:
    """The patch that writes these files; they stay written."""
    for path, data in files.items():
        (tree / path).write_bytes(data)
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "add", *files], cwd=tree, env=env, check=True)
    argv = ["git", "diff", "--cached", "--binary", "HEAD", "--", *files]
    return subprocess.run(argv, cwd=tree, env=env, check=True, capture_output=True).stdout


def by_hand(tree: Path, python: Path) -> float:
    """Seconds of a person's run in the checkout, whose byte code is warm."""
    argv = [python, "-m", "pytest", "-q", NODE]
    env = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(tree.parent), "LANG": "C.UTF-8"}
    start = time.perf_counter()
    subprocess.run(argv, cwd=tree, env=env, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return time.perf_counter() - start


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """All figures; seconds are medians."""
    tree, base, test_patch, fix = seeded(folder)
    python = environment([*instances()[DJANGO]["python_pins"], "pytest==8.4.2"])
    by_hand(tree, python)  # warms the checkout: byte code, page cache
    with places.sandbox(places.Place("bubblewrap")) as engine:
        counting = Counting(engine)
        spec = EnvironmentSpec(python=str(python), runner="pytest")
        site = open_site(base, counting, spec, cache=places.cache())
        submission = Submission(test_patch, (NODE,), author="person")
        settings = QualifySettings(guard="off")
        answer = qualify(site, submission, ISSUE, settings)
        if answer.bundle is None:
            raise SystemExit(f"The seeded test does not qualify: {answer.code}: {answer.detail}")
        figures: dict[str, Any] = {"qualification: runner starts": len(answer.evidence), "k": settings.repeats}
        once = VerifySettings(guard="off", repeats=1)
        starts = []
        seconds: dict[str, list[float]] = {"by hand": [], "verify": []}
        for number in range(rounds + 2):
            counting.starts = 0
            start = time.perf_counter()
            verdict = verify(site, answer.bundle, fix, once)
            spent = time.perf_counter() - start
            starts.append(counting.starts)
            if verdict.decision is not Decision.PASS:
                raise SystemExit(f"The fix does not verify: {verdict.reason}: {verdict.detail}")
            if number >= 2:
                seconds["verify"].append(spent)
                seconds["by hand"].append(by_hand(tree, python))
        figures |= {"first verify: runner starts": starts[0], "warm verify: runner starts": starts[-1]}
        figures |= {f"{name}, s": statistics.median(spans) for name, spans in seconds.items()}
        figures["ratio"] = figures["verify, s"] / figures["by hand, s"]
    return figures


def main() -> int:
    options = arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="latency-") as folder:
        figures = measure(Path(folder).resolve(), rounds=7 if options.quick else 25)
    table(("figure", "value"), figures.items())
    targets = [
        Target("verify over pytest by hand", figures["ratio"], 1.2),
        Target("qualification: runner starts", figures["qualification: runner starts"], figures["k"] + 3),
        Target("warm verify: runner starts", figures["warm verify: runner starts"], 1),
    ]
    return finish(options.json, figures, targets)


if __name__ == "__main__":
    sys.exit(main())
