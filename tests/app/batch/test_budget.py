"""Money: reserved before, settled after; and what a run directory has cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from execcritic import config
from execcritic.batch import budget
from execcritic.batch.budget import Budget
from execcritic.models import BEGUN
from execcritic_scaffold.errors import UsageError

A, B, C = (("a", 0), ("b", 0), ("c", 0))


def test_reserved_money_is_not_there_for_another_run() -> None:
    money = Budget(2.5, 1.0, 0.0)
    assert money.reserve(A)
    assert money.reserve(B)
    assert not money.reserve(C)
    money.settle(A, 0.25)
    assert money.reserve(C)
    assert not money.reserve(A)
    money.settle(B, 1.0)
    money.settle(C, 1.25)
    assert money.spent == 2.5
    assert not money.reserve(A)


def test_an_unknown_price_makes_the_sum_unknown_and_holds_nothing_back() -> None:
    money = Budget(1.0, 1.0, 0.0)
    assert money.reserve(A)
    money.settle(A, None)
    assert money.spent is None
    assert all(money.reserve(key) for key in (A, B, C))


def test_a_total_needs_a_limit_on_each_run() -> None:
    loaded = config.load(sets=["batch.cost=5", "limits.test.cost=null"], environ={})
    assert budget.most(loaded, ("test", "repair")) is None
    with pytest.raises(UsageError, match="instance_cost"):
        Budget(5.0, None, 0.0)


def test_an_instance_s_cost_lowers_the_limits_of_its_roles() -> None:
    loaded = config.load(sets=["batch.instance_cost=1.3"], environ={})
    limits = budget.limited(loaded, ("test", "repair")).limits
    assert (limits.test.cost, limits.repair.cost) == (pytest.approx(0.3), pytest.approx(1.0))
    assert budget.limited(loaded, ("repair",)).limits.repair.cost == pytest.approx(1.3)
    unlimited = config.load(sets=["batch.instance_cost=1", "limits.repair.cost=null"], environ={})
    assert budget.limited(unlimited, ("test", "repair")).limits.repair.cost == pytest.approx(0.5)
    assert budget.limited(config.load(environ={}), ("test",)) == config.load(environ={})


def reply(cost: float | None) -> str:
    return json.dumps({"event": "reply", "turn": 1, "usage": {"cost": cost}}, separators=(",", ":")) + "\n"


def test_what_a_run_directory_has_cost(tmp_path: Path) -> None:
    """Replies that a later attempt played again, and those of another run's Round 0, were not paid here."""
    for role in ("test", "repair"):
        (tmp_path / role).mkdir()
    assert budget.paid(tmp_path) == 0
    (tmp_path / "test" / "trajectory.1.jsonl").write_text(reply(1) + reply(1) + reply(1))
    (tmp_path / "test" / "trajectory.jsonl").write_text(reply(1) + reply(1) + '{"event":"reply","usa')
    assert budget.paid(tmp_path) == 3
    (tmp_path / "repair" / BEGUN).write_text(reply(0.5))
    (tmp_path / "repair" / "trajectory.jsonl").write_text(reply(0.5) + '{"event":"message"}\n' + reply(0.25))
    assert budget.paid(tmp_path) == 3.25
    (tmp_path / "repair" / "trajectory.jsonl").write_text(reply(0.5) + reply(None))
    assert budget.paid(tmp_path) is None
