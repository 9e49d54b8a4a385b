"""The conversations of a server: each has a session of its own, found by a key that nobody can guess."""

from __future__ import annotations

import contextlib
import secrets
import threading
import uuid
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.to_thread

from metier._cache import BoundedCache
from metier._lazy import dataclass
from metier.dialect import Kit
from metier.errors import InvalidArgument, SessionNotFound
from metier.tools.thread_handoff import ThreadHandoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from metier import Session
    from metier.dialect import Skills
    from metier.library import Entry
    from metier.session import SessionPool

MAX_CONVERSATIONS = 4_096
"""The number of conversations in memory; those used longest ago are put away until they are needed."""
_MAX_KEYS = 100_000
_KEY_BYTES = 24


@dataclass(slots=True, kw_only=True)
class NewConversation:
    """A conversation that has just begun."""

    key: str
    kit: Kit
    goes_on: bool = False
    """Whether anybody is told its key; otherwise it ends at once."""


class Conversations:
    """Sessions by conversation, over one library and one guard.

    There are two kinds, and the key of one is none of the other: those whose key is given to a model, which passes it
    on, and those of a line to a client, whose key the transport vouches for.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> from metier.dialect import Skills
    >>> conversations = Conversations(Skills(library))
    >>> key, kit = conversations.begin()
    >>> conversations.get(key) is kit
    True
    """

    def __init__(
        self, skills: Skills, *, builtin: Sequence[str] = (), most: int = MAX_CONVERSATIONS, **options: Any
    ) -> None:
        """`options` are those of every session."""
        if options.get("delivery", "result") != "result":
            raise InvalidArgument(
                "Clients read the instructions of a server once, and would not see what is loaded.",
                hint="Leave delivery at 'result'.",
            )
        self.library, self.guard, self.dialect = skills.library, skills.guard, skills.dialect
        self._builtin = tuple(builtin)
        self._options = options
        self._named, self._lines = (
            # What a skill restricts must not end because others begin many conversations.
            _Kits(self.library.sessions(guard=self.guard, most=most, remembers=True, **options), self._kit, most)
            for _ in range(2)
        )
        self.window = self.alone()
        """The view before anything is loaded: nothing is ever loaded into its session."""
        if self._builtin:
            _ = self.window.executor  # a name that is wrong is an error now, not at the first request

    def begin(self) -> tuple[str, Kit]:
        """A new conversation, and the key that finds it again."""
        key = secrets.token_urlsafe(_KEY_BYTES)
        return key, self._named.begin(key)

    @contextlib.asynccontextmanager
    async def beginning(self) -> AsyncIterator[NewConversation]:
        """A new conversation, which ends with the block unless it is said to go on."""
        # Whoever gives up while it is made leaves nothing behind.
        making: ThreadHandoff[tuple[str, Kit]] = ThreadHandoff(
            lambda made: self._named.end(made[0]), self.guard.in_thread
        )
        key, kit = await making.fetch(self.begin)
        begun = NewConversation(key=key, kit=kit)
        try:
            yield begun
        finally:
            if not begun.goes_on:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._named.end, key)

    def get(self, key: str) -> Kit:
        """The conversation of a key; raises `SessionNotFound` for a key that was not given out, or has ended."""
        kit = self._named.get(key)
        if kit is None:
            raise SessionNotFound(
                "There is no such conversation, or it has ended.",
                hint="Load a skill without naming a conversation: the result names a new one.",
            )
        return kit

    def of(self, key: str) -> Kit:
        """The conversation of a key that a transport vouches for; begun when it is first asked for.

        Raises `SessionNotFound` where it has ended: whoever goes on must know that nothing is loaded any more.
        """
        kit = self._lines.get(key, begins=True)
        if kit is None:
            raise SessionNotFound("This session has ended.", hint="Begin a new one.")
        return kit

    def held(self, key: str) -> Kit | None:
        """The conversation of a line, if it is in memory: to ask for it takes no time."""
        return self._lines.held(key)

    def is_over(self, key: str) -> bool:
        """Whether the conversation of a line was there and has ended."""
        return self._lines.is_over(key)

    def end(self, key: str) -> None:
        """End the conversation of a line: what it has loaded is unloaded."""
        self._lines.end(key)

    def alone(self) -> Kit:
        """A conversation that nobody finds again; whoever asked for it closes its session."""
        return self._kit(self.library.session(guard=self.guard, **self._options))

    def close(self) -> None:
        """End them all."""
        self._named.close()
        self._lines.close()
        self.window.session.close()

    def _kit(self, session: Session) -> Kit:
        return Kit(session, self.dialect, builtin=self._builtin)

    def entries(self, after: str = "", *, by: Literal["model", "host"] = "model") -> Iterator[Entry]:
        """The skills that may be known of here, by name, behind the one that is called `after`.

        For the `host`, those that people may know of: policy may keep some from models alone.
        """
        names, is_hidden = (
            self.window.session.context.options.names,
            self.window.session.parts.known.hidden_predicate(by=by),
        )
        for entry in self.library.entries():
            if entry.name <= after or (names is not None and entry.name not in names):
                continue
            if is_hidden is None or not is_hidden(entry):
                yield entry

    def may_know(self, entry: Entry) -> bool:
        """Whether a skill is neither blocked nor outside of what these conversations may know of."""
        names = self.window.session.context.options.names
        if names is not None and entry.name not in names:
            return False
        return not self.window.session.parts.known.is_hidden(entry)


@dataclass(slots=True, kw_only=True)
class _Place:
    """The place of a key's session."""

    id: str
    has_begun: bool = False
    """Whether the session was there once: one that is not found any more has ended, and is not begun anew."""


class _Kits:
    """Kits by key, each with a session that is kept, or put away and resumed when it is used again."""

    def __init__(self, sessions: SessionPool[Session], make: Callable[[Session], Kit], most: int) -> None:
        self._sessions, self._make, self._most = sessions, make, most
        self._places: OrderedDict[str, _Place] = OrderedDict()
        self._over: BoundedCache[str, None] = BoundedCache(_MAX_KEYS)
        """Keys of what has ended: a request that is under way must not begin it anew."""
        self._kits: dict[str, Kit] = {}
        self._lock = threading.Lock()
        """Never held while a session is made, resumed or closed: that may take as long as a person needs to answer."""

    def begin(self, key: str) -> Kit:
        """The kit of a key that nobody knows yet."""
        session = self._sessions.begin()
        with self._lock:
            self._places[key] = _Place(id=session.id, has_begun=True)
            kit = self._kit_of(key, session)
        self._forget_oldest()
        return kit

    def get(self, key: str, *, begins: bool = False) -> Kit | None:
        """The kit of a key, which is in use again; None for one that has ended, or was never there."""
        with self._lock:
            if key not in self._places:
                if not begins or key in self._over:
                    return None
                self._places[key] = _Place(id=uuid.uuid4().hex)
            self._places.move_to_end(key)
            place = self._places[key]
        self._forget_oldest()
        try:
            session = self._sessions.get(place.id) if place.has_begun else self._sessions.open(place.id)
        except SessionNotFound:
            self.end(key)
            return None
        with self._lock:
            place.has_begun = True
            if self._places.get(key) is place:
                return self._kit_of(key, session)
        # It was ended while its session was made.
        self._sessions.end(place.id)
        return None

    def held(self, key: str) -> Kit | None:
        """The kit of a key whose session is in memory."""
        with self._lock:
            place, kit = self._places.get(key), self._kits.get(key)
            if place is None or kit is None or self._sessions.held(place.id) is not kit.session:
                return None
            self._places.move_to_end(key)
            return kit

    def is_over(self, key: str) -> bool:
        return key in self._over

    def end(self, key: str) -> None:
        with self._lock:
            place = self._places.pop(key, None)
            if place is None:
                return
            self._over[key] = None
            self._kits.pop(key, None)
        self._sessions.end(place.id)

    def close(self) -> None:
        for key in list(self._places):
            self.end(key)

    def _forget_oldest(self) -> None:
        with self._lock:
            oldest = list(islice(self._places, max(0, len(self._places) - _MAX_KEYS)))
        for key in oldest:
            self.end(key)

    def _kit_of(self, key: str, session: Session) -> Kit:
        kit = self._kits.get(key)
        if kit is None or kit.session is not session:
            kit = self._kits[key] = self._make(session)
            if len(self._kits) > 2 * self._most:
                self._kits = {one: kept for one, kept in self._kits.items() if not kept.session.context.is_closed}
        return kit
