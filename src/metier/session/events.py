"""Events of a session, told to its listeners as they happen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import dataclass, field, logger, replace
from metier.errors import InvalidArgument
from metier.guard.audit.redaction import redact_value
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logger("metier.session")

EventKind: TypeAlias = Literal[
    "loading",
    "loaded",
    "refused",
    "unloaded",
    "stale",
    "noted",
    "read",
    "ran",
    "iteration",
    "thought",
    "text",
    "action",
    "observation",
    "suspended",
    "answer",
]
View: TypeAlias = Literal["summary", "full"]
"""The amount that a listener is told: actions and their results, or everything that is not hidden."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_DETAILS = frozenset({"iteration", "thought", "observation"})
SKILL_EVENTS = frozenset(
    {"loading", "loaded", "refused", "unloaded", "stale", "noted", "read", "ran", "action", "observation"}
)
"""Events of skills and tools, and of what came of them; the rest is what a model says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened.

    >>> Event(kind="loaded", skill="deploy", message="Loaded deploy.").kind
    'loaded'
    """

    kind: EventKind
    message: str = ""
    """One line for a person."""
    skill: str = ""
    tool: str = ""
    code: str = ""
    """The reason of a refusal, as a stable code."""
    hidden: bool = False
    """For the record of the program that made it, not for listeners."""
    data: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    session: str = ""
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))


Listener: TypeAlias = Callable[[Event], object]


def seen_by(event: Event, view: View) -> Event | None:
    """The event as a listener gets it, secrets redacted; None when it is not for them."""
    if event.hidden or (view == "summary" and event.kind in _DETAILS):
        return None
    return replace(event, message=redact_value(event.message), data=MappingProxyType(redact_value(dict(event.data))))


class Listeners:
    """The listeners of one session. An exception of one is logged, and stops neither the others nor the session."""

    def __init__(self) -> None:
        self.registered: tuple[tuple[Listener, View], ...] = ()
        """The listeners, each with its view; an event that nobody listens to need not be made."""
        self._changing = threading.Lock()

    def add(self, listener: Listener, view: View = "full") -> Callable[[], None]:
        """Listen from now on; the returned function stops it."""
        import inspect

        if not callable(listener) or inspect.iscoroutinefunction(listener):
            what = "async" if callable(listener) else shown(type(listener).__name__)
            raise InvalidArgument(f"What listens is {what}.", hint="Give a plain function of one event.")
        pair = (listener, view)
        with self._changing:
            self.registered = (*self.registered, pair)

        def stop() -> None:
            with self._changing:
                self.registered = tuple(other for other in self.registered if other is not pair)

        return stop

    def tell(self, event: Event) -> None:
        """Tell everybody who may know."""
        for listener, view in self.registered:
            told = seen_by(event, view)
            if told is None:
                continue
            try:
                listener(told)
            except Exception:
                log.exception("a listener failed on %s", event.kind)
