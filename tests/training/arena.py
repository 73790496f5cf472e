"""An arena with Gold and candidates, and episodes that are judged in it."""

from __future__ import annotations

from execcritic.batch.instance import Candidate, Gold
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.settings import VerifySettings
from execcritic_training import judge
from execcritic_training.episode import Episode
from execcritic_training.evidence import RepairEvidence, TestEvidence
from tests.attacks.arena import RIGHT, Arena, Content, Files

OFFICIAL = "from pkg.calc import add\n\n\ndef test_official():\n    assert add(2, 3) == 5 and add(10, 4) == 14\n"
OFFICIAL_NODE = "tests/test_official.py::test_official"
SETTINGS = judge.JudgeSettings.over(VerifySettings.model_validate({"test_seconds": 20}))
CORRECT: dict[str, Content] = {"pkg/calc.py": "def add(a, b):\n    return b + a\n"}
WRONG_FIX: dict[str, Content] = {"pkg/calc.py": "def add(a, b):\n    return a - b + 1\n"}


def gold(arena: Arena, *candidates: tuple[Files, bool], fix: Files | None = None) -> Gold:
    """Gold is the right source; candidates are changed files with their labels."""
    pool = tuple(Candidate(f"c{i}", arena.patch(files), right) for i, (files, right) in enumerate(candidates))
    patch = arena.patch(fix if fix is not None else {"pkg/calc.py": RIGHT})
    return Gold("task", patch, b"", (), candidates=pool)


def judged(arena: Arena, bundle: FrozenBundle | None, known: Gold, **more: object) -> TestEvidence:
    """The evidence of a Test episode of ten turns that froze this bundle."""
    episode = Episode("test", 10, False, None, **more)  # type: ignore[arg-type]
    return judge.judge_test(lambda bundle: arena.site, episode, bundle, known, SETTINGS)


def repaired(arena: Arena, official: FrozenBundle, patch: Files | bytes, rounds: int = 0) -> RepairEvidence:
    """The evidence of a Repair episode of ten turns that ended with this patch."""
    data = patch if isinstance(patch, bytes) else arena.patch(patch)
    episode = Episode("repair", 10, False, None, patch=data, rounds=rounds)
    return judge.judge_repair(lambda bundle: arena.site, episode, arena.bundle, official, gold(arena), SETTINGS)
