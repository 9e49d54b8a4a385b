"""The context of a session: who acts, where, over which index of skills, under which guard, and who listens."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.errors import InvalidArgument, SessionNotFound
from metier.hints import Hint
from metier.session.events import Event, Listeners

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard import Action, Actor, Guard
    from metier.guard.audited_action import AuditedAction
    from metier.library import SkillIndex
    from metier.session.lineage import Lineage

By: TypeAlias = Literal["model", "user", "host", "client"]
"""The origin of a request: the model, a person, the program itself, or a client that speaks for a person."""
MAX_ID = 200


@dataclass(slots=True, kw_only=True, eq=False)
class SessionContext:
    """Data that all parts of one session share."""

    id: str
    workspace: str
    index: SkillIndex
    guard: Guard
    actor: Actor
    """The actor of audit records; it changes with the task and with the model that answers."""
    listeners: Listeners = field(default_factory=Listeners)
    is_closed: bool = False
    given_lineage: Lineage | None = None

    @property
    def lineage(self) -> Lineage:
        """The agents that started one another on the way to this session."""
        if self.given_lineage is None:
            from metier.session.lineage import Lineage

            self.given_lineage = Lineage()
        return self.given_lineage

    def require_open(self) -> None:
        """Raise `SessionNotFound` once the session was closed."""
        if self.is_closed:
            raise SessionNotFound(
                f"Session {self.id} was closed.",
                hint=Hint("Begin another with library.session().", person="Begin another one.", model="Tell the user."),
            )

    def emit(self, event: Event) -> None:
        """Tell the listeners of an event."""
        self.listeners.tell(event if event.session else replace(event, session=self.id))

    @contextlib.contextmanager
    def audited(self, action: Action, audited: AuditedAction | None = None) -> Iterator[AuditedAction]:
        """Let the guard decide about an action and record it; raises `Refused` when it is not allowed.

        `audited` is the action as `enter_async` has returned it.
        """
        with audited or self.guard.enter(action, self.actor) as audited:
            if not audited.decision.is_allowed:
                decision = audited.decision
                name = action.skill.name if action.skill is not None else ""
                self.emit(Event(kind="refused", skill=name, code=decision.code, message=decision.reason))
                raise decision.as_error()
            yield audited

    async def enter_async(self, action: Action) -> AuditedAction:
        """Let the guard decide without blocking the event loop while a person is asked."""
        return await self.guard.enter_async(action, self.actor)


def checked_id(id: object) -> str:  # noqa: A002
    """Return an id that can stand in records and in the environment of a script; raises `InvalidArgument`."""
    if not isinstance(id, str) or not id.isprintable() or len(id) > MAX_ID:
        raise InvalidArgument(
            f"{id!r:.80} is no id of a session.", hint=f"Use printable text of at most {MAX_ID} characters."
        )
    return id
