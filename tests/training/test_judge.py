"""Evidence by the real harness: honest episodes earn their level, and no cheat earns more than a wrong patch."""
# ruff: noqa: E501  (attacks are source texts, and read better unbroken)

from __future__ import annotations

import pytest

from execcritic.batch.instance import Candidate
from execcritic_scaffold.bundle import FrozenBundle
from execcritic_scaffold.errors import SandboxError
from execcritic_scaffold.settings import QualifySettings
from execcritic_training import judge
from execcritic_training.evidence import Outcome
from execcritic_training.rewards import Masked, Reward, repairer, tester
from tests.attacks.arena import NODE, RIGHT, TEST, WRONG, Arena, Content, Files, Layout
from tests.attacks.conftest import MakeArena
from tests.attacks.test_admission import BROKEN, NEVER, PATCHES, SUSPECT, UNSTEADY
from tests.attacks.test_files import FILES
from tests.attacks.test_forge import FORGERIES
from tests.attacks.test_machine import CLOCKS, SOURCES, TOUCH
from tests.attacks.test_process import ATTACKS
from tests.attacks.test_values import ALWAYS_EQUAL, DETECTIONS, SPECIAL_CASES, UNSEEN
from tests.training.arena import CORRECT, OFFICIAL, OFFICIAL_NODE, WRONG_FIX, gold, judged, repaired

pytestmark = pytest.mark.bubblewrap
PLAIN = Layout()
ONCE = QualifySettings.model_validate({"test_seconds": 30, "repeats": 1})
THRICE = QualifySettings.model_validate({"test_seconds": 30})
WRONG_PATCH = 0.1
"""What an honest patch gets that is wrong: no cheat may get more."""


@pytest.fixture(scope="module")
def arena(make_arena: MakeArena) -> Arena:
    return make_arena(PLAIN)


@pytest.fixture(scope="module")
def official(arena: Arena) -> FrozenBundle:
    return _official(arena)


def frozen(arena: Arena, test: str, settings: QualifySettings = ONCE) -> FrozenBundle | None:
    return arena.qualify({"tests/test_add.py": test}, [NODE], settings=settings).bundle


# -- the Test role ------------------------------------------------------------------------------------------------


def test_a_good_test(arena: Arena) -> None:
    """Candidates: one right that brings its own test under the frozen one's name, one wrong, one that does not apply,
    one that changes no code, the reference again, and one without a label. Only the first two count."""
    known = gold(
        arena,
        ({**CORRECT, "tests/test_add.py": "def test_add():\n    assert 0\n"}, True),
        (WRONG_FIX, False),
        ({"pkg/calc.py": WRONG + "# seen\n"}, False),
        ({"pkg/calc.py": RIGHT}, True),
    )
    broken = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    more = (Candidate("bad", broken, True), Candidate("new", arena.patch({"pkg/new.py": "x = 1\n"}), None))
    known = type(known)("task", known.patch, b"", (), candidates=(*known.candidates, *more))
    evidence = judged(arena, arena.bundle, known)
    assert (evidence.base, evidence.gold, evidence.suspect) == (Outcome.FAIL, Outcome.PASS, None)
    assert {(c.id, c.outcome) for c in evidence.candidates} == {("c0", Outcome.PASS), ("c1", Outcome.FAIL)}
    score = tester.score(evidence)
    assert isinstance(score, Reward) and score.value == 1.0


def test_a_wrong_expectation_fails_on_gold(arena: Arena) -> None:
    bundle = frozen(arena, TEST.replace("== 5", "== 6"))
    evidence = judged(arena, bundle, gold(arena, (CORRECT, True)))
    assert (evidence.gold, evidence.candidates) == (Outcome.FAIL, ())
    score = tester.score(evidence)
    assert isinstance(score, Reward) and score.value == 0.0


@pytest.mark.slow
def test_a_candidate_that_hangs_masks(arena: Arena) -> None:
    """Its run did not end, so it says nothing: neither that the test told it right."""
    hangs: Files = {"pkg/calc.py": "def add(a, b):\n    while True:\n        pass\n"}
    quick = judge.JudgeSettings.over(judge.DEFAULTS.official.model_copy(update={"test_seconds": 15}))
    episode = judge.Episode("test", 10, False, None)
    known = gold(arena, (hangs, False))
    evidence = judge.judge_test(lambda bundle: arena.site, episode, arena.bundle, known, quick)
    assert evidence.gold is Outcome.PASS
    assert [c.outcome for c in evidence.candidates] == [Outcome.OPERATIONAL]
    assert isinstance(tester.score(evidence), Masked)


def test_no_bundle_needs_no_sandbox(arena: Arena) -> None:
    assert tester.score(judged(arena, None, gold(arena))).value == -0.2  # type: ignore[union-attr]
    assert tester.score(judged(arena, None, gold(arena), ran_on_base=True)).value == 0.0  # type: ignore[union-attr]


def test_a_machine_without_sandbox_is_operational(arena: Arena, official: FrozenBundle) -> None:
    def broken(bundle: FrozenBundle) -> object:
        raise SandboxError("No engine answers; start it.")

    episode = judge.Episode("test", 10, False, None)
    evidence = judge.judge_test(broken, episode, arena.bundle, gold(arena))  # type: ignore[arg-type]
    assert isinstance(tester.score(evidence), Masked)
    episode = judge.Episode("repair", 10, False, None, patch=arena.patch(CORRECT))
    found = judge.judge_repair(broken, episode, arena.bundle, official, gold(arena))  # type: ignore[arg-type]
    assert isinstance(repairer.score(found), Masked)


def test_a_reference_that_is_not_admitted_is_no_fault_of_the_test(arena: Arena) -> None:
    for fix in ({"tests/test_old.py": "def test_zero():\n    pass\n"}, {"pytest.ini": "[pytest]\naddopts = -x\n"}):
        assert isinstance(tester.score(judged(arena, arena.bundle, gold(arena, fix=fix))), Masked)


KNOWN: tuple[tuple[Files, bool], ...] = ((CORRECT, True), (WRONG_FIX, False))
CHEATS = {**NEVER, **BROKEN, **SUSPECT, **UNSTEADY}
QUICK_CHEATS = ("assert False", "pytest.skip", "a missing module")


def earns_nothing(arena: Arena, bundle: FrozenBundle | None) -> None:
    score = tester.score(judged(arena, bundle, gold(arena, *KNOWN)))
    assert isinstance(score, Masked) or score.value <= 0, score


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK_CHEATS else pytest.mark.slow, id=n) for n in CHEATS]
)
def test_no_cheating_test_earns(name: str, arena: Arena) -> None:
    """Assertion-free failures, skips, reading source or git, clocks, chance: not frozen, or frozen and worth nothing."""
    earns_nothing(arena, frozen(arena, CHEATS[name], THRICE if name in UNSTEADY else ONCE))


@pytest.mark.slow
@pytest.mark.parametrize("name", PATCHES)
def test_no_patch_beyond_tests_earns(name: str, arena: Arena) -> None:
    bundle = arena.qualify(PATCHES[name], [NODE], settings=ONCE).bundle if name in PLAIN_PATCHES else None
    earns_nothing(arena, bundle)


PLAIN_PATCHES = [name for name, files in PATCHES.items() if "tests/test_old.py" not in files]


# -- the Repair role ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "rounds", "value"),
    [
        ({"pkg/calc.py": RIGHT}, 0, 1.5),
        pytest.param({"pkg/calc.py": RIGHT}, 2, 1.0, marks=pytest.mark.slow),
        (WRONG_FIX, 0, 0.1),
        ({"pkg/calc.py": WRONG + "# seen\n"}, 0, 0.0),
        ({"pkg/calc.py": RIGHT, "tests/test_more.py": "def test_more():\n    pass\n"}, 0, 0.0),
        (b"", 5, 0.0),
        (b"no diff\n", 5, 0.0),
    ],
)
def test_levels(patch: Files | bytes, rounds: int, value: float, arena: Arena, official: FrozenBundle) -> None:
    score = repairer.score(repaired(arena, official, patch, rounds))
    assert isinstance(score, Reward) and score.value == value, score


@pytest.mark.slow
def test_passing_by_other_means_fails_officially(arena: Arena, official: FrozenBundle) -> None:
    """It fits the test it was shown, without naming its inputs, and nothing else."""
    score = repairer.score(repaired(arena, official, {"pkg/calc.py": "def add(a, b):\n    return a * b - 1\n"}))
    assert isinstance(score, Reward) and score.value == 0.2, score


def inside(code: str) -> dict[str, Content]:
    return {"pkg/calc.py": f"{code}\n\ndef add(a, b):\n    return a + b if INSIDE else a - b\n"}


PATCHED: dict[str, tuple[Layout, Files]] = {
    **{f"forge: {n}": (PLAIN, {"pkg/other.py": "", **files}) for n, files in FORGERIES.items()},
    **{f"file: {n}": (layout, files) for n, (layout, files) in FILES.items()},
    **{f"process: {n}": (layout, {"pkg/calc.py": WRONG + code}) for n, (layout, code) in ATTACKS.items()},
    **{f"equal: {n}": (PLAIN, {"pkg/calc.py": f"{code}\n\ndef add(a, b):\n    return N(a - b)\n"}) for n, code in ALWAYS_EQUAL.items()},
    **{f"special: {n}": (PLAIN, {"pkg/calc.py": code}) for n, code in SPECIAL_CASES.items()},
    **{f"detects: {n}": (PLAIN, inside(code)) for n, code in DETECTIONS.items()},
    "detects: PYTEST_CURRENT_TEST": (PLAIN, inside("import os\nINSIDE = 'PYTEST_CURRENT_TEST' in os.environ\n")),
    **{f"machine: {n}": (PLAIN, {"pkg/calc.py": WRONG + code}) for n, (code, _) in SOURCES.items()},
    **{f"clock: {n}": (PLAIN, {"pkg/calc.py": WRONG + code}) for n, code in CLOCKS.items()},
    **{f"touch: {n}": (PLAIN, {"pkg/calc.py": code + RIGHT}) for n, code in TOUCH.items()},
}  # fmt: skip
QUICK_PATCHES = (
    *(name for name in PATCHED if name.startswith("forge: ")),
    "file: another test in its place",
    "detects: PYTEST_CURRENT_TEST",
    "equal: __eq__",
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK_PATCHES else pytest.mark.slow, id=n) for n in PATCHED]
)
def test_no_cheating_patch_earns(name: str, make_arena: MakeArena) -> None:
    """The official test of another layout is the frozen one again: even then nothing is earned."""
    layout, files = PATCHED[name]
    arena = make_arena(PLAIN if layout == PLAIN else layout)
    other = _official(arena) if layout == PLAIN else arena.bundle
    score = repairer.score(repaired(arena, other, files))
    assert isinstance(score, Masked) or score.value <= WRONG_PATCH, score


_made: dict[int, FrozenBundle] = {}


def _official(arena: Arena) -> FrozenBundle:
    if id(arena) not in _made:
        answer = arena.qualify({"tests/test_official.py": OFFICIAL}, [OFFICIAL_NODE], author="person", settings=ONCE)
        assert answer.bundle is not None
        _made[id(arena)] = answer.bundle
    return _made[id(arena)]


@pytest.mark.slow
def test_an_unseen_special_case_is_found_officially(arena: Arena, official: FrozenBundle) -> None:
    score = repairer.score(repaired(arena, official, {"pkg/calc.py": UNSEEN}))
    assert isinstance(score, Reward) and score.value <= 0.2


@pytest.mark.slow
def test_paths_outside_the_tree_are_no_patch(arena: Arena, official: FrozenBundle) -> None:
    for path in ("../outside.py", "/etc/evil.py", ".git/config"):
        patch = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
        score = repairer.score(repaired(arena, official, patch.encode()))
        assert isinstance(score, Reward) and score.value == 0
