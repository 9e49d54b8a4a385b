"""A run that is suspended: what it waits for, and its calls made again once there may be an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.guard import Answers
from metier.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from metier.guard import Question


class Suspension:
    """The questions that the calls of one run wait for; calls that come after one that waits wait for their turn."""

    def __init__(self, given: Mapping[str, bool] | None = None, calls: Collection[str] = ()) -> None:
        """`given` are answers by the id of their question; they count for `calls`, which waited, and for no others."""
        self._given = dict(given or {})
        self._calls = frozenset(calls)
        self.open: list[Question] = []
        """The questions to be answered before the run goes on."""

    async def made(self, call: str, make: Callable[..., Awaitable[Any]]) -> Any:
        """Return the result of a call; it does not count while a question is open."""
        if self.open:
            return None
        answers = Answers(self._given if call in self._calls else None)
        made = await make(answers=answers)
        # What was done must not be done again: only a call that was refused can wait.
        if isinstance(made, ToolResult) and not made.success:
            self.open = [*answers.open, *answers.waiting]
        return made
