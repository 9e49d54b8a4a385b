"""The budget of money and time that trials share."""

from __future__ import annotations

import random
from collections.abc import Sequence

import anyio
import pytest
from anyio.lowlevel import checkpoint

from metier.errors import BudgetExceeded
from metier.proof.budget import TrialBudget
from metier.testing import FakeClock


async def spend(budget: TrialBudget, calls: Sequence[tuple[float, float]], *, most_at_once: int) -> list[bool]:
    """Make calls at once, each with its worst case and its cost; return which of them were made."""
    made = [False] * len(calls)
    limiter = anyio.CapacityLimiter(most_at_once)

    async def call(place: int, worst: float, cost: float) -> None:
        async with limiter:
            try:
                async with budget.hold(worst) as hold:
                    made[place] = True
                    await checkpoint()
                    hold.cost = cost
            except BudgetExceeded:
                pass

    async with anyio.create_task_group() as group:
        for place, (worst, cost) in enumerate(calls):
            group.start_soon(call, place, worst, cost)
    return made


@pytest.mark.parametrize("most_at_once", [1, 4, 32])
@pytest.mark.parametrize("seed", range(20))
def test_no_order_of_calls_spends_more_than_there_is(seed: int, most_at_once: int) -> None:
    source = random.Random(seed)
    calls = [(worst, worst * source.random()) for worst in (source.uniform(0, 0.4) for _ in range(60))]
    budget = TrialBudget(money=2.0)
    made = anyio.run(lambda: spend(budget, calls, most_at_once=most_at_once))
    assert budget.spent <= 2.0
    assert budget.spent == pytest.approx(sum(cost for (_, cost), is_made in zip(calls, made, strict=True) if is_made))
    assert budget.money_left == pytest.approx(2.0 - budget.spent)
    refused = [worst for (worst, _), is_made in zip(calls, made, strict=True) if not is_made]
    assert all(worst > budget.money_left - 1e-9 or budget.spent > 1.0 for worst in refused)


@pytest.mark.parametrize("most_at_once", [1, 8])
@pytest.mark.parametrize("seed", range(10))
def test_worst_cases_that_were_none_exceed_it_by_the_calls_under_way_and_no_further_one_begins(
    seed: int, most_at_once: int
) -> None:
    source = random.Random(seed)
    excess = 0.5
    calls = [(0.3, source.choice((0.1, 0.3 + excess))) for _ in range(40)]
    budget = TrialBudget(money=2.0)
    anyio.run(lambda: spend(budget, calls, most_at_once=most_at_once))
    assert budget.spent <= 2.0 + most_at_once * excess
    if budget.spent > 2.0:
        assert anyio.run(lambda: spend(budget, [(0.01, 0.01)], most_at_once=1)) == [False]


def test_a_call_waits_for_money_that_others_hold_and_do_not_spend() -> None:
    budget = TrialBudget(money=1.0)
    made = anyio.run(lambda: spend(budget, [(0.9, 0.05)] * 10, most_at_once=10))
    assert sum(made) == 3, "0.9 is left for three of them, and not for a fourth"
    assert budget.spent == pytest.approx(0.15)


def test_a_call_whose_cost_nobody_says_counts_as_its_worst_case() -> None:
    budget = TrialBudget(money=1.0)

    async def fail() -> None:
        with pytest.raises(ConnectionError):
            async with budget.hold(0.4):
                raise ConnectionError

    anyio.run(fail)
    assert budget.spent == 0.4


def test_a_call_of_unknown_price_is_refused_where_money_is_limited_and_only_there() -> None:
    async def call(budget: TrialBudget) -> None:
        async with budget.hold(None):
            pass

    anyio.run(call, TrialBudget())
    with pytest.raises(BudgetExceeded, match="price is not known"):
        anyio.run(call, TrialBudget(money=100.0))


def test_time_ends_for_all_calls() -> None:
    clock = FakeClock()
    budget = TrialBudget(seconds=60, clock=clock)
    assert budget.seconds_left == 60
    clock.advance(59)
    budget.require_time()
    clock.advance(2)
    assert budget.seconds_left == 0
    with pytest.raises(BudgetExceeded, match="time is over"):
        anyio.run(lambda: spend_one(budget))


async def spend_one(budget: TrialBudget) -> None:
    async with budget.hold(0.0):
        pass
