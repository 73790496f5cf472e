"""Centring, masks, flat groups, length normalisers, staleness and the alarm, worked by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execcritic_scaffold.errors import InfrastructureError
from execcritic_training.advantages import Rollout, advantages, group_key, weights
from execcritic_training.alarm import FailureAlarm
from execcritic_training.rewards import Cause, Masked, Reward, Score
from execcritic_training.staleness import Freshness


def rollouts(*groups: list[float | Cause]) -> list[Rollout]:
    def score(value: float | Cause) -> Score:
        return Masked("x", value) if isinstance(value, Cause) else Reward(value, "x")

    return [Rollout(f"g{number}", score(value)) for number, group in enumerate(groups) for value in group]


def near(*values: float) -> object:
    return pytest.approx(list(values), abs=1e-12)


def test_centred_and_not_divided() -> None:
    """Mean of 1, 0, 0, 0.2 is 0.3."""
    assert advantages(rollouts([1.0, 0.0, 0.0, 0.2])).values == near(0.7, -0.3, -0.3, -0.1)


def test_two_failures_of_the_machine_in_a_group_of_four() -> None:
    """R-F06. Mean of 1 and 0 is 0.5. As zeros the two would make it 0.25, and +0.75, -0.25, -0.25, -0.25."""
    found = advantages(rollouts([1.0, Cause.OPERATIONAL, 0.0, Cause.ABORTED]))
    assert found.values == near(0.5, 0.0, -0.5, 0.0)
    assert found.groups["g0"].masked == {Cause.OPERATIONAL: 1, Cause.ABORTED: 1}
    assert found.summary()["masked/share"] == 0.5


def test_repair_is_masked_after_centring_without_a_value_of_its_own() -> None:
    """1.5, 0.1 and one that passes the selected test and could not be judged officially: the mean is 0.8. With its
    floor of 0.2 it would be 0.6, with 0 it would be 8/15: neither is what the patch is worth."""
    assert advantages(rollouts([1.5, 0.1, Cause.OPERATIONAL])).values == near(0.7, -0.7, 0.0)


@pytest.mark.parametrize("flat", [[0.1, 0.1, 0.1], [0.0] * 4, [0.7], [Cause.OPERATIONAL, 1.5, Cause.TRUNCATED]])
def test_groups_without_a_difference_are_exactly_zero(flat: list[float | Cause]) -> None:
    """R-F09. The floating-point mean of three times 0.1 is not 0.1."""
    found = advantages(rollouts(flat, [1.0, 0.0]))
    assert found.values[: len(flat)] == (0.0,) * len(flat)
    assert found.summary()["groups/no_variance"] == 1
    assert found.summary()["groups/no_variance_share"] == 0.5


def test_all_masked_and_nothing_at_all() -> None:
    found = advantages(rollouts([Cause.TRUNCATED] * 3))
    assert found.values == (0.0, 0.0, 0.0)
    assert found.groups["g0"].mean is None
    assert (found.summary()["groups/all_masked"], found.summary()["groups/no_variance"]) == (1, 0)
    assert advantages([]).values == ()


def test_a_missing_rollout_does_not_shift_groups() -> None:
    """F09: by key, not by place. One of group 0 is gone; the others' advantages are those of their own groups."""
    found = advantages(rollouts([1.0, 0.0, 0.5], [0.2, 0.0, 0.0, 0.2])[1:])
    assert found.values == near(-0.25, 0.25, 0.1, -0.1, -0.1, 0.1)


def test_a_reward_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        advantages(rollouts([math.nan, 1.0]))


def test_keys_tell_task_role_and_bundle_apart() -> None:
    keys = [group_key("a", "test", None), group_key("a", "repair", None), group_key("a", "repair", "b")]
    assert len({*keys, group_key("b", "repair", "b"), group_key('a", "repair', "test", None)}) == 5
    assert group_key("a", "test", None) == keys[0]


scores = st.sampled_from([-0.2, 0.0, 0.1, 0.2, 0.5, 1.0, 1.5, Cause.OPERATIONAL, Cause.TRUNCATED])


@given(st.lists(st.lists(scores, min_size=1, max_size=8), max_size=6), st.randoms())
def test_sums_are_zero_and_order_is_nothing(groups: list[list[float | Cause]], random: object) -> None:
    batch = rollouts(*groups)
    found = advantages(batch)
    for key in found.groups:
        mine = [value for value, rollout in zip(found.values, batch, strict=True) if rollout.group == key]
        assert abs(math.fsum(mine)) < 1e-12
    assert all(v == 0 for v, r in zip(found.values, batch, strict=True) if isinstance(r.score, Masked))
    order = list(range(len(batch)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert advantages([batch[i] for i in order]).values == tuple(found.values[i] for i in order)


def test_length_normalisers() -> None:
    """R-F10: answers of 2 and 200 tokens, and one of which nothing is trained."""
    assert weights([2, 200, 0], "token") == near(1 / 202, 1 / 202, 0)
    assert weights([2, 200, 0], "sequence") == near(1 / 4, 1 / 400, 0)
    assert weights([2, 200, 0], "constant", 1000) == near(1 / 2000, 1 / 2000, 0)
    assert weights([0, 0], "token") == [0.0, 0.0]
    with pytest.raises(ValueError, match="longest"):
        weights([2, 200], "constant", 100)


def test_staleness() -> None:
    fresh = Freshness(bound=2)
    assert fresh.check([5, 5], 7) is None
    old = fresh.check([4, 4], 7)
    assert old is not None and old.cause is Cause.STALE and "3 updates ago" in old.reason
    mixed = fresh.check([6, 7], 7)
    assert mixed is not None and mixed.cause is Cause.STALE
    assert Freshness(bound=2, mixed=True).check([6, 7], 7) is None
    with pytest.raises(ValueError, match="version 8"):
        fresh.check([8], 7)
    with pytest.raises(ValueError, match="without a policy version"):
        fresh.check([], 7)


def test_alarm() -> None:
    """F10: at most a quarter of the last 8. The third failure of 8 is too many; truncated ones do not count."""
    alarm = FailureAlarm(bound=0.25, window=8, least=4)
    good, bad, cut = Reward(1.0, "x"), Masked("no sandbox"), Masked("x", Cause.TRUNCATED)
    alarm.see(bad, bad, good)  # too few to say
    with pytest.raises(InfrastructureError, match="no sandbox"):
        alarm.see(good)
    calm = FailureAlarm(bound=0.25, window=8, least=4)
    calm.see(*[good] * 6, bad, bad, cut)
    assert calm.rate == 0.25
    with pytest.raises(InfrastructureError, match=r"38% of the last 8 .* resume"):
        calm.see(bad)
    with pytest.raises(ValueError, match="window"):
        FailureAlarm(least=200)
