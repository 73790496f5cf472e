"""Which groups a training step gets: sampled on until enough of them have something to say, within a budget.

Dynamic sampling (METHOD 6): a group whose rewards are all equal moves nothing, so it is replaced by another task's.
Balanced Adaptive Rollout goes on with one task until as many rollouts succeed as fail, and gives up early on tasks that
always or never succeed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from execcritic_training.rewards.score import Reward, Score

T = TypeVar("T")
Success = Callable[[Reward], bool]


@dataclass(frozen=True)
class Sampled(Generic[T]):
    """One rollout with its score; `rollout` is whatever the caller trains on."""

    rollout: T
    score: Score


Roll = Callable[[str, int], Sequence[Sampled[T]]]
"""(task, how many) -> that many rollouts of it, judged."""


@dataclass(frozen=True)
class Chosen(Generic[T]):
    """A group for the step. `padding`: its rewards are all equal, so its advantages are 0; it only keeps the batch at
    its size, and must weigh 0 in any other term of the loss too (a KL penalty would move the model)."""

    task: str
    members: tuple[Sampled[T], ...]
    padding: bool = False


@dataclass(frozen=True)
class Batch(Generic[T]):
    """What a step got. `complete` is False where the budget, or the tasks, ended before there were enough groups;
    `dropped` counts groups by why they were not taken; `rollouts` is what was spent."""

    groups: tuple[Chosen[T], ...]
    complete: bool
    rollouts: int
    dropped: Mapping[str, int] = field(default_factory=dict)


class Strategy(Protocol):
    """How many rollouts of a task are made, and which are taken: see `Plain` and `Balanced`."""

    def group(self, roll: Roll[T], task: str, left: int) -> tuple[int, list[Sampled[T]], str | None]:
        """(rollouts spent, the group, why it is not taken or None). Never spends more than `left`."""


@dataclass(frozen=True)
class Plain:
    """`size` rollouts, all of them taken."""

    size: int

    def group(self, roll: Roll[T], task: str, left: int) -> tuple[int, list[Sampled[T]], str | None]:
        if left < self.size:
            return 0, [], "budget"
        made = list(roll(task, self.size))
        return len(made), made, _flat(made)


@dataclass(frozen=True)
class Balanced:
    """Goes on by `step` rollouts up to `most`, until half of a group of `size` succeeds and half fails.

    After `probe` rollouts with a reward that all succeed, or all fail, the task is given up as solved or hopeless.
    Where `most` is reached first, what is nearest to balance is taken, as long as both kinds are there.
    """

    size: int
    most: int
    success: Success
    probe: int = 4
    step: int = 2

    def group(self, roll: Roll[T], task: str, left: int) -> tuple[int, list[Sampled[T]], str | None]:
        made: list[Sampled[T]] = []
        most = min(self.most, left)
        while len(made) < most:
            made += roll(task, min(self.probe if not made else self.step, most - len(made)))
            won, lost = self._split(made)
            if len(won) + len(lost) >= self.probe and not (won and lost):
                return len(made), made, "solved" if won else "hopeless"
            if min(len(won), len(lost)) >= self.size // 2 and len(won) + len(lost) >= self.size:
                break
        won, lost = self._split(made)
        if len(won) + len(lost) < self.size:
            return len(made), made, "budget" if most < self.most else "masked"
        half = min(len(won), max(self.size // 2, self.size - len(lost)))
        taken = {id(one) for one in (*won[:half], *lost[: self.size - half])}
        group = [one for one in made if id(one) in taken]
        return len(made), group, _flat(group)

    def _split(self, made: Sequence[Sampled[T]]) -> tuple[list[Sampled[T]], list[Sampled[T]]]:
        scored = [(one, one.score) for one in made]
        won = [one for one, score in scored if isinstance(score, Reward) and self.success(score)]
        lost = [one for one, score in scored if isinstance(score, Reward) and not self.success(score)]
        return won, lost


def sample(tasks: Iterable[str], roll: Roll[T], strategy: Strategy, groups: int, budget: int) -> Batch[T]:
    """`groups` groups with unequal rewards, by at most `budget` rollouts, tasks taken in the order given.

    Where the budget or the tasks end first, groups without a difference fill the batch up to its size as padding, the
    latest first, as far as there are any: ranks that wait for each other need equal batches.
    """
    taken: list[Chosen[T]] = []
    flat: list[Chosen[T]] = []
    dropped: Counter[str] = Counter()
    spent = 0
    waiting: Iterator[str] = iter(tasks)
    while len(taken) < groups and spent < budget and (task := next(waiting, None)) is not None:
        used, members, why = strategy.group(roll, task, budget - spent)
        spent += used
        if why is None:
            taken.append(Chosen(task, tuple(members)))
            continue
        dropped[why] += 1
        if why == "no variance":
            flat.append(Chosen(task, tuple(members), padding=True))
        elif why == "budget":
            break
    complete = len(taken) == groups
    padding = flat[::-1][: groups - len(taken)]
    return Batch((*taken, *padding), complete, spent, dict(dropped))


def _flat(members: Sequence[Sampled[T]]) -> str | None:
    """Why a group moves nothing, None where it does."""
    values = {one.score.value for one in members if isinstance(one.score, Reward)}
    if not values:
        return "masked"
    return "no variance" if len(values) == 1 else None
