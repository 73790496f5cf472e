"""From the judged episodes of one step to what each of its updates trains on. No torch.

Rewards come from the evidence, advantages from groups told by their key and before anything is left out (so that no
filter shifts a border), rows from the sampled ids. What takes no part (masked, too old, all rewards equal, too long)
is counted by why, and has no weight in the loss: neither above nor below the line.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from execcritic_scaffold.errors import UsageError
from execcritic_training import rewards
from execcritic_training.advantages import Advantages, Rollout, advantages, weights
from execcritic_training.evidence import Outcome, RepairEvidence, TestEvidence
from execcritic_training.recipes import RlRecipe
from execcritic_training.records import Record, require_template, require_tokens
from execcritic_training.rewards import Cause, Masked, RepairLevels, Reward, Score, TestLevels, repairer, tester
from execcritic_training.rows import Counts, Row, build_rows
from execcritic_training.staleness import Freshness

RewardFunction = Callable[[Sequence[Record]], Sequence[Score]]
"""The scores of a group of judged episodes, in its order."""


BROKEN = frozenset({"op_error", "aborted"})


@dataclass(frozen=True)
class Weighted:
    """A row with the advantage of its episode and what each of its trained tokens weighs in the loss of the update."""

    row: Row
    advantage: float
    weight: float


@dataclass(frozen=True)
class Step:
    """The rows of each update, the score of each episode in the order given, and numbers for the log."""

    updates: tuple[tuple[Weighted, ...], ...]
    scores: tuple[Score, ...]
    metrics: dict[str, float] = field(default_factory=dict)


def prepare(
    records: Sequence[Record],
    recipe: RlRecipe,
    step: int,
    version: int,
    template: str,
    *,
    reward: RewardFunction | None = None,
    stops: Collection[int] = (),
) -> Step:
    """What step `step` (from 0) trains on, with the policy at `version`. `template` is the hash of the chat template
    that is trained; `reward` None: METHOD's of the role; `stops` as `rows.build_rows` takes them.

    Raises UsageError, naming the episode, for one of the other role, without ids or log-probabilities, rendered with
    another template, not judged, sampled from a version that is still to come, or on which the reward function fails.
    """
    for record in records:
        if record.role != recipe.role:
            raise UsageError(f"episode {record.id} is of the role {record.role}; the recipe trains {recipe.role}.")
        if not _never_began(record) and record.outcome.status not in BROKEN:  # those are masked whatever they hold
            require_tokens(record)
            require_template(record, template)
    found = scores(records, reward or by_role(recipe), recipe)
    found = [_fresh(record, score, recipe, version) for record, score in zip(records, found, strict=True)]
    credit = advantages([Rollout(r.group, s) for r, s in zip(records, found, strict=True)])
    taking_part = [
        n
        for n, (record, score) in enumerate(zip(records, found, strict=True))
        if isinstance(score, Reward) and credit.groups[record.group].informative
    ]
    random.Random(f"{recipe.seed} {step}").shuffle(taking_part)
    counts = Counts()
    answers: list[tuple[float, list[Row]]] = []
    for n in taking_part:
        rows, counted = build_rows([records[n]], recipe.window.of_rows(), stops)
        counts.add(counted)
        if rows:
            answers.append((credit.values[n], rows))
    updates = tuple(_weighted(part, recipe) for part in _parts(answers, recipe.batch))
    return Step(updates, tuple(found), metrics(records, found, credit, counts))


def scores(records: Sequence[Record], reward: RewardFunction, recipe: RlRecipe) -> list[Score]:
    """The score of each episode. Broken and aborted ones are masked whatever their evidence says; truncated ones have
    what the recipe's `rewards.truncated` says."""
    found: list[Score | None] = [_without_evidence(record, recipe.levels()) for record in records]
    groups: dict[str, list[int]] = {}
    for n, record in enumerate(records):
        if found[n] is None:
            groups.setdefault(record.group, []).append(n)
    for members in groups.values():
        for n, score in zip(members, _rewarded([records[n] for n in members], reward), strict=True):
            found[n] = score
    return [score for score in found if score is not None]


def by_role(recipe: RlRecipe) -> RewardFunction:
    """METHOD's reward of the recipe's role, with the recipe's levels."""
    levels = recipe.levels()

    def reward(group: Sequence[Record]) -> Sequence[Score]:
        if isinstance(levels, TestLevels):
            return tester.scores([r.evidence for r in group if isinstance(r.evidence, TestEvidence)], levels)
        return [repairer.score(r.evidence, levels) for r in group if isinstance(r.evidence, RepairEvidence)]

    return reward


def metrics(records: Sequence[Record], found: Sequence[Score], credit: Advantages, counts: Counts) -> dict[str, float]:
    """Reward by level, Base-to-Gold, turns, what was masked and why, groups without a difference, counts of rows."""
    got = [score for score in found if isinstance(score, Reward)]
    said = {"rollouts": float(len(records)), **credit.summary()}
    said |= {f"rows/{name}": float(value) for name, value in vars(counts).items()}
    if got:
        said["reward/mean"] = sum(score.value for score in got) / len(got)
        for level in sorted({score.level for score in got}):
            said[f"level/{level}"] = sum(score.level == level for score in got) / len(got)
    tests = [r.evidence for r in records if isinstance(r.evidence, TestEvidence) and r.evidence.operational is None]
    if tests:
        both = sum(one.base is Outcome.FAIL and one.gold is Outcome.PASS for one in tests)
        said["base_to_gold"] = both / len(tests)
    if records:
        said["turns/mean"] = sum(len(record.turns) for record in records) / len(records)
    return said


def _without_evidence(record: Record, levels: TestLevels | RepairLevels) -> Score | None:
    """The score of an episode that the evidence has no say in; None where it has."""
    status, reason = record.outcome.status, record.outcome.reason or ""
    if status == "op_error":
        return Masked(reason)
    if status == "aborted":
        return Masked(reason, Cause.ABORTED)
    if status == "truncated":
        masked = levels.truncated == "mask" or _never_began(record)
        return Masked(reason, Cause.TRUNCATED) if masked else Reward(0.0, "truncated")
    if record.evidence is None:
        raise UsageError(f"episode {record.id} is not judged; judge it, or leave it out.")
    return None


def _never_began(record: Record) -> bool:
    """Whether a limit ended it before the first turn: nothing was sampled that could be rewarded."""
    return record.outcome.status == "truncated" and not record.turns


def _rewarded(group: Sequence[Record], reward: RewardFunction) -> Sequence[Score]:
    try:
        found = list(reward(group))
    except Exception as error:
        raise _failed(group, reward, error) from error
    if len(found) != len(group):
        raise UsageError(
            f"The reward function gave {len(found)} scores for {len(group)} episodes ({group[0].id}, …); have it give "
            "one for each, Masked where there is none."
        )
    for record, score in zip(group, found, strict=True):
        if not isinstance(score, rewards.Reward | rewards.Masked):
            raise UsageError(f"The reward of episode {record.id} is {score!r}; return a Reward or Masked.")
    return found


def _failed(group: Sequence[Record], reward: RewardFunction, error: Exception) -> UsageError:
    """Names the episode: the first on which the function fails alone, else the whole group."""
    name, told = f"the group of {group[0].id}", error
    for record in group:
        try:
            reward([record])
        except Exception as alone:
            name, told = f"episode {record.id}", alone
            break
    return UsageError(
        f"The reward function fails on {name} ({type(told).__name__}: {told}); correct it. Nothing was trained on "
        "this step."
    )


def _fresh(record: Record, score: Score, recipe: RlRecipe, version: int) -> Score:
    if isinstance(score, Masked):
        return score
    versions = [record.policy.version if t.policy_version is None else t.policy_version for t in record.turns]
    try:
        return Freshness(recipe.sound.staleness).check(versions, version) or score
    except ValueError as error:
        raise UsageError(f"episode {record.id}: {error}; train on episodes of this run's own policy.") from None


def _parts(answers: list[tuple[float, list[Row]]], size: int) -> list[list[tuple[float, list[Row]]]]:
    """Parts of at most `size`, as equal as can be: a last part of one answer would weigh as much as a full one."""
    many = -(-len(answers) // size)
    return [answers[n * len(answers) // many : (n + 1) * len(answers) // many] for n in range(many)]


def _weighted(answers: list[tuple[float, list[Row]]], recipe: RlRecipe) -> tuple[Weighted, ...]:
    lengths = [sum(row.trained for row in rows) for _, rows in answers]
    each = weights(lengths, recipe.normaliser, max([recipe.window.tokens, *lengths]))
    return tuple(
        Weighted(row, advantage, weight)
        for (advantage, rows), weight in zip(answers, each, strict=True)
        for row in rows
    )
