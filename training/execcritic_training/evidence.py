"""What the judge found out about an episode after it ended: the only thing that a reward may look at (METHOD 5).

Gold and labels live here and nowhere else; the process of an agent never opens a file that holds it. Validity is a
field apart: a machine's failure is never a behavioural outcome (HARNESS 6).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """One execution of the frozen test. OPERATIONAL: it could not be judged, by a fault of the machine."""

    PASS = "pass"
    FAIL = "fail"
    OPERATIONAL = "operational"


@dataclass(frozen=True)
class Labelled:
    """A candidate patch: its official label (True: correct) and how the frozen test judged it."""

    id: str
    correct: bool
    outcome: Outcome


@dataclass(frozen=True)
class TestEvidence:
    """One Test episode. `submitted` is False where no bundle was valid; `base` is FAIL for a clean Base failure;
    `gold` is None where Gold was not run. `turns` counts the episode's turns; `operational` is why the episode or its
    qualification could not be judged at all, None where it could; `suspect` is what in the test may get its outcomes
    from elsewhere than behaviour."""

    __test__ = False  # pytest would take it for a class of tests

    submitted: bool
    turns: int
    base: Outcome | None = None
    gold: Outcome | None = None
    candidates: tuple[Labelled, ...] = ()
    operational: str | None = None
    truncated: bool = False
    suspect: str | None = None


@dataclass(frozen=True)
class RepairEvidence:
    """One Repair episode's terminal patch. `selected` is the fixed oracle test used as feedback, `official` the
    official evaluation; `rounds` is 0 where Round 0 was submitted; `forbidden` says which rule the patch broke,
    `suspect` what in it a fix has no reason to bring."""

    patch: bool
    turns: int
    rounds: int
    forbidden: str | None = None
    selected: Outcome | None = None
    official: Outcome | None = None
    operational: str | None = None
    truncated: bool = False
    suspect: str | None = None
