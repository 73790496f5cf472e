"""What judging a Test episode costs beside bare pytest: the warm judge's evidence against the same runs by hand.

One bundle is judged on Base, Gold and eight labelled candidates. By hand, each of these ten runs is `python -m pytest
FILE::NODE` in a warm checkout with the patch applied. Ours: the evidence of the episode from a warm process (Gold runs
twice there), every time of a bundle it has not seen before, so that Base is run too. Both in turn; medians. Beside it:
advantages of 128 rollouts, with a credit for each of 60 turns of 200 tokens.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from _realset import commit, environment
from _report import Target, arguments, finish, table

from execcritic import places
from execcritic.batch.instance import Candidate, Gold
from execcritic_scaffold.agents import Submission
from execcritic_scaffold.base import Base, snapshot
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.files import File
from execcritic_scaffold.qualify import qualify
from execcritic_scaffold.settings import QualifySettings
from execcritic_scaffold.site import open_site
from execcritic_scaffold.task import EnvironmentSpec
from execcritic_training.advantages import Rollout, advantages, weights
from execcritic_training.evidence import Outcome, TestEvidence
from execcritic_training.judge_worker import Job
from execcritic_training.rewards import Reward
from execcritic_training.trace import TurnCredit
from execcritic_training.warm import WarmJudge

SOURCE, TEST = "pkg/calc.py", "tests/test_add.py"
NODE = f"{TEST}::test_add"
FILES = {
    "pkg/__init__.py": "",
    SOURCE: "def add(a, b):\n    return a - b\n",
    "tests/test_old.py": "from pkg.calc import add\n\n\ndef test_zero():\n    assert add(4, 0) == 4\n",
    "conftest.py": "",
}
TEST_SOURCE = "from pkg.calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
ISSUE = "add(2, 3) gives -1 and must give 5."
RIGHT = ("a + b", "b + a", "sum((a, b))", "a - -b")
WRONG = ("a - b + 1", "a * b", "b - a", "a")


def source(expression: str) -> bytes:
    return f"def add(a, b):\n    return {expression}\n".encode()


def patch(base: Base, path: str, data: bytes) -> bytes:
    return base.store.diff(base.tree, base.store.edit(base.tree, {path: File(data)}))


def by_hand(tree: Path, python: Path) -> float:
    """Seconds of the ten runs, the source written before each."""
    env = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(tree.parent), "LANG": "C.UTF-8"}
    total = 0.0
    for expression in ("a - b", "a + b", *RIGHT, *WRONG):
        (tree / SOURCE).write_bytes(source(expression))
        start = time.perf_counter()
        argv = [python, "-m", "pytest", "-q", NODE]
        subprocess.run(argv, cwd=tree, env=env, stdin=subprocess.DEVNULL, capture_output=True)
        total += time.perf_counter() - start
    return total


def frozen(base: Base, python: Path, count: int) -> list[FrozenBundle]:
    """Bundles of the same test, told apart by a comment, so that nothing is known of the next one."""
    made = []
    with places.sandbox(places.Place("bubblewrap")) as engine:
        site = open_site(base, engine, EnvironmentSpec(python=str(python), runner="pytest"), cache=places.cache())
        for number in range(count):
            text = f"{TEST_SOURCE}    # {number}, {time.time_ns()}\n".encode()
            submission = Submission(patch(base, TEST, text), (NODE,), author="person")
            answer = qualify(site, submission, ISSUE, QualifySettings(guard="off", repeats=1, soundness=False))
            if answer.bundle is None:
                raise SystemExit(f"The test does not qualify: {answer.code}: {answer.detail}")
            made.append(answer.bundle)
    return made


def written(folder: Path, bundle: FrozenBundle) -> Path:
    """A run directory of a Test episode that froze this bundle."""
    bundle.save(folder / "test" / "bundle")
    (folder / "journal.jsonl").write_text('{"event": "test.ended", "gate": {"status": "RESOLVED"}}\n')
    return folder


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """All figures; seconds are medians of the ten runs together."""
    repo, tree = folder / "repo", folder / "tree"
    for root in (repo, tree):
        for path, text in FILES.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
    commit(repo)
    (tree / TEST).write_text(TEST_SOURCE)
    python = environment(["pytest==8.4.2"])
    base = snapshot(repo, places.store())
    pool = tuple(
        Candidate(f"{label}{n}", patch(base, SOURCE, source(text)), label)
        for label, texts in ((True, RIGHT), (False, WRONG))
        for n, text in enumerate(texts)
    )
    gold = Gold("task", patch(base, SOURCE, source("(a + b)")), b"", (), candidates=pool)
    bundles = frozen(base, python, rounds + 1)
    runs = [written(folder / f"run{n}", bundle) for n, bundle in enumerate(bundles)]
    seconds: dict[str, list[float]] = {"by hand": [], "warm judge": []}
    with WarmJudge() as judge:
        job = Job(str(runs[0]), "test", gold, str(repo))
        for number, run in enumerate(runs):
            start = time.perf_counter()
            found = judge.judge(replace(job, run=str(run)))
            spent = time.perf_counter() - start
            if not isinstance(found, TestEvidence) or found.gold is not Outcome.PASS or len(found.candidates) != 8:
                raise SystemExit(f"The episode was not judged: {found}")
            if number:  # the first one warms it
                seconds["warm judge"].append(spent)
                seconds["by hand"].append(by_hand(tree, python))
    figures = {f"{name}, s": statistics.median(spans) for name, spans in seconds.items()}
    return {**figures, "ratio": figures["warm judge, s"] / figures["by hand, s"]}


def building() -> float:
    """Seconds for the advantages of 128 rollouts in 16 groups, and for each token of their turns."""
    group = [Rollout(f"g{n % 16}", Reward((n * 7 % 11) / 10, "x")) for n in range(128)]
    turns = [turn for turn in range(60) for _ in range(200)]
    start = time.perf_counter()
    for value in advantages(group).values:
        TurnCredit().per_token(value, [-4 + n / 30 for n in range(61)], turns)
    weights([len(turns)] * 128, "token")
    return time.perf_counter() - start


def main() -> int:
    options = arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="judging-") as folder:
        figures = measure(Path(folder).resolve(), rounds=3 if options.quick else 9)
    figures["advantages of 128 rollouts, s"] = building()
    table(("figure", "value"), figures.items())
    targets = [
        Target("warm judge over bare pytest", figures["ratio"], 1.3),
        Target("advantages of 128 rollouts, s", figures["advantages of 128 rollouts, s"], 2.0),
    ]
    return finish(options.json, figures, targets)


if __name__ == "__main__":
    sys.exit(main())
