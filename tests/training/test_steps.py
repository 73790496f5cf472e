"""From judged episodes to weighted rows: what takes part, with which numbers, and what is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from execcritic_scaffold.errors import UsageError
from execcritic_training.alarm import FailureAlarm
from execcritic_training.records import Outcome, Record
from execcritic_training.rewards import Cause, Masked, Reward, Score
from execcritic_training.steps import Step, prepare
from tests.training.judged import TEMPLATE, bad, broken, episode, good, rl_recipe


def step(records: Sequence[Record], version: int = 0, **changes: object) -> Step:
    return prepare(records, rl_recipe(**changes), 0, version, TEMPLATE)


def parts(done: Step) -> dict[str, tuple[float, float]]:
    """Episode to advantage and weight."""
    return {one.row.record: (one.advantage, one.weight) for update in done.updates for one in update}


def test_advantages_are_centred_and_the_loss_is_per_token() -> None:
    two = (((1, 2), (3, 4)), ((9,), (5, 6, 7)))
    done = step([episode("a", good(), pairs=two), episode("b", bad()), episode("c", bad()), episode("d", broken())])
    mean = (0.2 - 0.2 - 0.2) / 3
    tokens = 5 + 2 + 2  # the broken one is in neither the mean nor the denominator
    assert parts(done) == {
        "a": (pytest.approx(0.2 - mean), pytest.approx(1 / tokens)),
        "b": (pytest.approx(-0.2 - mean), pytest.approx(1 / tokens)),
        "c": (pytest.approx(-0.2 - mean), pytest.approx(1 / tokens)),
    }
    assert done.metrics["masked/operational"] == 1
    assert done.metrics["base_to_gold"] == pytest.approx(1 / 3)
    assert done.metrics["level/no submission"] == pytest.approx(2 / 3)


def test_only_sampled_tokens_are_trained() -> None:
    done = step([episode("a", good(), pairs=(((1, 2), (3, 4)), ((9, 9), (5,)))), episode("b", bad())])
    (row,) = [one.row for one in done.updates[0] if one.row.record == "a"]
    assert row.ids == [1, 2, 3, 4, 9, 9, 5]
    assert list(row.mask) == [0, 0, 1, 1, 0, 0, 1]


def test_groups_are_told_by_key_before_anything_is_left_out() -> None:
    cut = episode("t", None, task="one", outcome=Outcome(status="truncated", reason="turns"))
    done = step(
        [
            cut,
            episode("a", good(), task="one"),
            episode("x", bad(), task="two"),
            episode("b", bad(), task="one"),
            episode("y", good(), task="two"),
        ]
    )
    found = parts(done)
    assert {name: round(advantage, 9) for name, (advantage, _) in found.items()} == {
        "a": 0.2,
        "b": -0.2,
        "x": -0.2,
        "y": 0.2,
    }
    assert done.metrics["masked/truncated"] == 1


@pytest.mark.parametrize(
    ("records", "counted"),
    [
        ([episode("a", good())], "groups/single"),
        ([episode("a", broken()), episode("b", broken())], "groups/all_masked"),
        ([episode("a", bad()), episode("b", bad())], "groups/no_variance"),
    ],
)
def test_nothing_to_learn_is_no_update_and_counted(records: list[Record], counted: str) -> None:
    done = step(records)
    assert done.updates == () and done.metrics[counted] == 1


def test_stale_rollouts_are_masked_and_newer_ones_refused() -> None:
    old, new = episode("old", good(), version=1), episode("new", bad(), version=6)
    done = step([old, new, episode("b", good(), version=5)], version=6)
    assert set(parts(done)) == {"new", "b"} and done.metrics["masked/stale"] == 1
    with pytest.raises(UsageError, match="episode new: a turn was sampled from version 6"):
        step([new, old], version=5)


def test_longer_rows_follow_the_rule_and_are_counted() -> None:
    long = episode("long", good(), pairs=(((1, 2), (3, 4)), ((7,), (5, 6, 7, 8))))
    records = [long, episode("b", bad())]
    dropped = step(records, window={"tokens": 6, "rule": "drop"})
    assert set(parts(dropped)) == {"b"} and dropped.metrics["rows/dropped"] == 1
    cut = step(records, window={"tokens": 6, "rule": "cut"})
    assert parts(cut)["long"] == (pytest.approx(0.2), pytest.approx(1 / 5)) and cut.metrics["rows/cut"] == 1


def test_updates_are_of_equal_size() -> None:
    records = [episode(f"e{n}", good() if n % 2 else bad()) for n in range(5)]
    done = step(records, batch=4)
    assert sorted(len(update) for update in done.updates) == [2, 3]
    assert all(sum(one.weight * one.row.trained for one in update) == pytest.approx(1) for update in done.updates)


def without_ids(record: Record) -> Record:
    turns = [turn.model_copy(update={"tokens": None, "untrainable": "no logprobs"}) for turn in record.turns]
    return record.model_copy(update={"turns": turns})


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (without_ids(episode("e7", good())), "episode e7, turn 0 has no token ids and log-probabilities"),
        (episode("e7", good(), template="cd" * 32), "episode e7 was rendered with the chat template"),
        (episode("e7", None), "episode e7 is not judged"),
        (episode("e7", None, role="repair", frozen="x"), "episode e7 is of the role repair"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_by_name(record: Record, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        step([episode("ok", bad()), record])


def test_a_reward_function_that_fails_names_the_episode() -> None:
    def reward(group: Sequence[Record]) -> list[Score]:
        return [Reward(1 / (record.id != "e2"), "x") for record in group]

    records = [episode(f"e{n}", good()) for n in range(4)]
    with pytest.raises(UsageError, match="fails on episode e2"):
        prepare(records, rl_recipe(), 0, 0, TEMPLATE, reward=reward)
    with pytest.raises(UsageError, match="gave 1 scores for 4 episodes"):
        prepare(records, rl_recipe(), 0, 0, TEMPLATE, reward=lambda group: [Masked("no")])
    with pytest.raises(UsageError, match="The reward of episode e0"):
        prepare(records, rl_recipe(), 0, 0, TEMPLATE, reward=lambda group: [0.5 for _ in group])  # type: ignore[misc]


def test_a_broken_episode_is_masked_whatever_its_evidence_says() -> None:
    lost = episode("e", good(), outcome=Outcome(status="op_error", reason="endpoint"))
    gone = episode("f", good(), outcome=Outcome(status="aborted", reason="ctrl-c"))
    done = step([lost, gone, episode("g", bad())])
    assert [getattr(score, "cause", None) for score in done.scores] == [Cause.OPERATIONAL, Cause.ABORTED, None]


def test_an_episode_that_a_limit_ended_at_once_is_masked() -> None:
    none = episode("n", None, pairs=(), outcome=Outcome(status="truncated", reason="context"))
    done = step([none, episode("a", good()), episode("b", bad())], rewards={"truncated": "zero"})
    assert set(parts(done)) == {"a", "b"} and done.metrics["masked/truncated"] == 1
    with pytest.raises(UsageError, match="episode n has no turn"):
        step([episode("n", good(), pairs=())])


def test_levels_are_the_recipes() -> None:
    record = replace(good(), turns=30)
    done = step([episode("long", record), episode("short", good())], rewards={"slack_factor": 0.25})
    assert [score.value for score in done.scores if isinstance(score, Reward)] == [pytest.approx(0.05), 0.2]


def test_the_alarm_counts_what_a_step_masked() -> None:
    done = step([episode("a", broken()), episode("b", good())])
    with pytest.raises(Exception, match="50% of the last 2 rollouts"):
        FailureAlarm(0.2, 2, 2).see(*done.scores)
