"""The budget of one command: money and time, shared by all trials that run at once.

Money is held before it is spent: the worst case of a request, or of a whole trial of a program that asks models by
itself. What was not spent goes back. So no order of events spends more than the limit, as long as each worst case is
one; where one was not, the limit is exceeded by the rest of that one call, and nothing more is begun.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.errors import BudgetExceeded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anyio import Event


@dataclass(slots=True, kw_only=True)
class Hold:
    """Money that is kept for one call."""

    worst: float | None
    """The most that it can cost."""
    cost: float | None = None
    """The price that it came to; the worst case counts where nobody says it."""


class TrialBudget:
    """Limits of money, in US dollars, and of time, in seconds; without any, everything is counted and nothing refused.

    >>> import anyio
    >>> budget = TrialBudget(money=1.0)
    >>> async def spend(worst, cost):
    ...     async with budget.hold(worst) as hold:
    ...         hold.cost = cost
    >>> anyio.run(spend, 0.75, 0.25)
    >>> budget.spent, budget.money_left
    (0.25, 0.75)
    """

    def __init__(
        self, *, money: float | None = None, seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.money = money
        self.spent = 0.0
        """The money that was spent."""
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds
        self._held: list[float] = []
        self._waiting: list[Event] = []

    @property
    def money_left(self) -> float:
        """The money that is neither spent nor held; infinite without a limit."""
        return math.inf if self.money is None else self.money - self.spent - sum(self._held)

    @property
    def seconds_left(self) -> float:
        """The time that is left; infinite without a limit."""
        return math.inf if self._end is None else max(0.0, self._end - self._clock())

    @contextlib.asynccontextmanager
    async def hold(self, worst: float | None) -> AsyncIterator[Hold]:
        """Hold the worst case of a call while it lasts; raises `BudgetExceeded` where there is not so much left.

        It waits while other calls hold money that may come back. A call whose worst case is None, as nobody knows its
        price, is refused where money is limited.
        """
        kept = await self._keep(worst)
        hold = Hold(worst=worst)
        try:
            yield hold
        finally:
            self._held.remove(kept)
            self.spent += kept if hold.cost is None else hold.cost
            for event in self._waiting:
                event.set()
            self._waiting.clear()

    async def _keep(self, worst: float | None) -> float:
        from anyio import Event

        self.require_time()
        if self.money is not None and worst is None:
            raise BudgetExceeded(
                "The price is not known, and money is limited.", hint="Say the price, or test without a limit of money."
            )
        kept = worst or 0.0
        while kept > self.money_left:
            if not any(self._held):
                raise BudgetExceeded(
                    f"The next call may cost ${kept:.4f}, and ${max(0.0, self.money_left):.4f} are left.",
                    hint="Raise the limit of money, or run fewer trials.",
                )
            self._waiting.append(event := Event())
            await event.wait()
            self.require_time()
        self._held.append(kept)
        return kept

    def require_time(self) -> None:
        """Raise `BudgetExceeded` when the time is over."""
        if self.seconds_left <= 0:
            raise BudgetExceeded("The time is over.", hint="Raise the limit of time, or run fewer trials.")
