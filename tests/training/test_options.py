"""Dynamic sampling, Balanced Adaptive Rollout, GAGAR, TRACE and the choice of candidates, worked by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execcritic.batch.instance import Candidate
from execcritic_training import candidates
from execcritic_training.gagar import PatchFacts, grade, redistribute
from execcritic_training.rewards import Masked, Reward
from execcritic_training.sampling import Balanced, Plain, Sampled, sample
from execcritic_training.trace import TurnCredit


class Tape:
    """Rewards of each task in the order they are rolled; None is masked."""

    def __init__(self, **rewards: Sequence[float | None]) -> None:
        self.rewards = {task: list(values) for task, values in rewards.items()}

    def __call__(self, task: str, count: int) -> list[Sampled[int]]:
        made = [self.rewards[task].pop(0) for _ in range(count)]
        return [Sampled(i, Masked("x") if v is None else Reward(v, "x")) for i, v in enumerate(made)]


def values(members: Sequence[Sampled[int]]) -> list[float]:
    return [m.score.value for m in members if isinstance(m.score, Reward)]


def test_flat_groups_are_replaced_by_the_next_task() -> None:
    tape = Tape(a=[0, 0], b=[1, 0], c=[None, None], d=[0, 1])
    batch = sample("abcd", tape, Plain(2), groups=2, budget=100)
    assert [group.task for group in batch.groups] == ["b", "d"]
    assert (batch.complete, batch.rollouts, batch.dropped) == (True, 8, {"no variance": 1, "masked": 1})


def test_where_the_budget_ends_flat_groups_pad_the_batch() -> None:
    """Seven rollouts are three groups of two; the seventh is not spent."""
    tape = Tape(a=[0, 0], b=[1, 0], c=[1, 1], d=[0, 1])
    batch = sample("abcd", tape, Plain(2), groups=3, budget=7)
    assert [(group.task, group.padding) for group in batch.groups] == [("b", False), ("c", True), ("a", True)]
    assert (batch.complete, batch.rollouts) == (False, 6)


def test_where_the_tasks_end() -> None:
    batch = sample("a", Tape(a=[1, 0]), Plain(2), groups=2, budget=100)
    assert (len(batch.groups), batch.complete) == (1, False)
    assert sample("", Tape(), Plain(2), groups=2, budget=100).groups == ()


def balanced(most: int = 12) -> Balanced:
    return Balanced(size=4, most=most, success=lambda reward: reward.value >= 1)


def test_goes_on_until_it_is_balanced() -> None:
    """Four at first: one succeeds. Two more: none. Two more: one, so two and two of eight are taken, in order."""
    tape = Tape(a=[0, 0.1, 1, 0, 0, 0.2, 1, 0])
    batch = sample("a", tape, balanced(), groups=1, budget=100)
    assert values(batch.groups[0].members) == [0, 0.1, 1, 1]
    assert batch.rollouts == 8


@pytest.mark.parametrize(("rewards", "why"), [([1, 1, 1.5, 1], "solved"), ([0, 0.1, 0, 0.2], "hopeless")])
def test_gives_up_on_what_teaches_nothing(rewards: list[float], why: str) -> None:
    batch = sample("a", Tape(a=rewards), balanced(), groups=1, budget=100)
    assert (batch.groups, batch.dropped, batch.rollouts) == ((), {why: 1}, 4)


def test_what_is_nearest_to_balance_is_taken() -> None:
    """After eight of at most eight, one success: it and three of the failures."""
    batch = sample("a", Tape(a=[0, 1, 0, 0, 0, 0, 0, 0]), balanced(8), groups=1, budget=100)
    assert values(batch.groups[0].members) == [0, 1, 0, 0]


def test_masked_rollouts_are_no_probe() -> None:
    batch = sample("a", Tape(a=[None, None, None, 1, 0, 1, 0, None]), balanced(8), groups=1, budget=100)
    assert values(batch.groups[0].members) == [1, 0, 1, 0]
    nothing = sample("a", Tape(a=[None] * 8), balanced(8), groups=1, budget=100)
    assert (nothing.groups, nothing.dropped) == ((), {"masked": 1})


def test_a_budget_inside_a_group() -> None:
    batch = sample("ab", Tape(a=[1, 0, None], b=[]), balanced(), groups=1, budget=3)
    assert (batch.groups, batch.rollouts, batch.dropped) == ((), 3, {"budget": 1})


def test_gagar_keeps_the_sum() -> None:
    """Rewards 1, 1, 0, 0: advantages 0.5, 0.5, -0.5, -0.5. Grades 1 and 0.5: S+ = 1, sum of f A = 0.75, lambda = 4/3:
    4/3 * 1 * 0.5 = 2/3 and 4/3 * 0.5 * 0.5 = 1/3."""
    found = redistribute([0.5, 0.5, -0.5, -0.5], [1.0, 0.5, None, None])
    assert found == pytest.approx([2 / 3, 1 / 3, -0.5, -0.5])
    assert redistribute([0.0, 0.0], [1.0, 0.5]) == [0.0, 0.0]  # not mixed
    assert redistribute([-0.1, 0.3, -0.2], [0.5, 1.0, None]) == pytest.approx([-0.1, 0.3, -0.2])
    with pytest.raises(ValueError, match="grade"):
        redistribute([1.0, -1.0], [0.0, None])


@given(st.lists(st.tuples(st.floats(-2, 2), st.none() | st.floats(0.1, 1)), max_size=8))
def test_gagar_moves_credit_and_makes_none(group: list[tuple[float, float | None]]) -> None:
    before, grades = [a for a, _ in group], [g for _, g in group]
    after = redistribute(before, grades)
    assert math.fsum(after) == pytest.approx(math.fsum(before), abs=1e-9)
    assert all(a == b for a, b, g in zip(after, before, grades, strict=True) if g is None)


def test_grades() -> None:
    """A reference of 10 lines: 20 are fine, 40 are half of that, an unrelated file halves again; 0.1 at least."""
    assert [grade(PatchFacts(n, 10)) for n in (0, 20, 40, 1000)] == [1.0, 1.0, 0.5, 0.1]
    assert grade(PatchFacts(40, 10, 1)) == 0.25


def test_trace_by_hand() -> None:
    """Distances 4, 2, 1, 1 (epsilon 0): steps log 2, log 2, 0. Two steps ahead, discount 0.5:
    (1 * log 2 + 0.5 * log 2) / 1.5 = log 2; (log 2 + 0) / 1.5; 0."""
    method = TurnCredit(steps=2, discount=0.5, weight=0.2, epsilon=0.0)
    assert method.credits([-4, -2, -1, -1]) == pytest.approx([math.log(2), math.log(2) / 1.5, 0.0])
    tokens = method.per_token(0.5, [-4, -2, -1, -1], [0, None, 1, 2])
    assert tokens == pytest.approx([0.5 + 0.2 * math.log(2), 0.0, 0.5 + 0.2 * math.log(2) / 1.5, 0.5])
    assert TurnCredit().credits([0.0, 0.0]) == [0.0]  # certain from the start: epsilon keeps it finite
    with pytest.raises(ValueError, match="log-probability"):
        method.credits([0.1])


def diff(text: str, path: str = "a.py", context: str = " x\n", at: int = 1) -> bytes:
    return (
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -{at},2 +{at},2 @@\n{context}-old\n+{text}\n"
    ).encode()


def test_the_same_change_written_otherwise_is_one_candidate() -> None:
    plain = diff("new")
    bare = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -2 +2 @@\n-old\n+new  \n"
    two = [plain, diff("new", "b.py")]
    assert candidates.digest(plain) == candidates.digest(bare)
    assert candidates.digest(b"".join(two)) == candidates.digest(b"".join(reversed(two)))
    others = [diff("other"), diff("new", at=7), diff("new", "b.py"), b"".join(two)]
    assert len({candidates.digest(one) for one in (plain, *others)}) == 5


def test_a_pool() -> None:
    found = candidates.pool(
        [
            Candidate("b", diff("1"), True),
            Candidate("a", diff("1", context=" y\n"), None),
            Candidate("c", diff("2"), True),
            Candidate("d", diff("2"), False),
            Candidate("e", diff("3"), None),
            Candidate("f", b"no diff\n", True),
            Candidate("g", b" \n", True),
        ]
    )
    assert [(one.id, one.resolved) for one in found.candidates] == [("a", True)]
    assert (found.doubles, found.contradictory, found.unlabelled) == (2, 1, 1)
    assert (found.unreadable, found.empty) == (1, 1)


@pytest.mark.parametrize(("right", "wrong", "taken"), [(9, 9, (4, 4)), (1, 20, (1, 7)), (6, 2, (6, 2)), (0, 3, (0, 3))])
def test_eight_candidates_of_both_classes(right: int, wrong: int, taken: tuple[int, int]) -> None:
    all_ = [Candidate(f"r{i}", diff(f"r{i}"), True) for i in range(right)]
    all_ += [Candidate(f"w{i}", diff(f"w{i}"), False) for i in range(wrong)]
    chosen = candidates.choose(all_, "task")
    assert (sum(bool(c.resolved) for c in chosen), sum(not c.resolved for c in chosen)) == taken
    assert candidates.choose(all_[::-1], "task") == chosen
    assert candidates.choose([*all_, *all_[:2]], "task") == chosen
    if right > 4:
        assert candidates.choose(all_, "another") != chosen
