"""Asking somebody: a callback of the program, which may be async, and must say True or False."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from metier._log import logger
from metier.guard.decision import Decision
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from metier.guard.decision import Action

log = logger("metier.guard")

Approve: TypeAlias = Callable[["Action", "Decision"], "bool | Awaitable[bool]"]


def asked(approve: Approve, action: Action, decision: Decision) -> Decision:
    """What comes of asking; whatever is not a plain True is a no, and says whether anybody really answered."""
    try:
        answer = approve(action, decision)
        if inspect.isawaitable(answer):
            answer = _awaited(answer)
    except Exception as error:
        log.warning("asking failed: %s: %s", type(error).__name__, error)
        return _no(decision, f"Asking failed: {shown(type(error).__name__)}.", "approval-failed")
    if answer is True:
        return Decision(outcome="allow", reason="Somebody was asked and agreed.", rule=decision.rule)
    if answer is False:
        return _no(decision, "Somebody was asked and did not agree.", "approval-denied")
    return _no(decision, f"The answer was {shown(repr(answer), 40)}, neither True nor False.", "approval-failed")


def _awaited(answer: Awaitable[Any]) -> Any:
    """The answer of an async callback, from wherever the question came."""
    import anyio
    import anyio.from_thread

    async def wait() -> Any:
        return await answer

    try:
        return anyio.from_thread.run(wait)
    except RuntimeError:
        # Not in a worker thread of an event loop: there may be no event loop at all.
        pass
    try:
        return anyio.run(wait)
    except RuntimeError:
        if inspect.iscoroutine(answer):
            answer.close()
        raise


def _no(decision: Decision, why: str, code: str) -> Decision:
    return Decision(
        outcome="deny",
        reason=f"{decision.reason} {why}",
        rule=decision.rule,
        code=code,
        hint="Do the task another way.",
    )
