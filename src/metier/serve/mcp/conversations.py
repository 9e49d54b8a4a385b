"""The conversations of a server: each has a session of its own, found by a key that nobody can guess."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from metier.dialect import Kit
from metier.errors import InvalidArgument, MetierError, SessionNotFound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from metier import Session
    from metier.dialect import Skills
    from metier.library import Entry

MAX_CONVERSATIONS = 4_096
"""How many there are at once of those whose names were given out, and how many sessions a transport has open."""
QUIET_SECONDS = 600.0
"""How long nobody must have used a conversation before it ends for a new one."""
_MAX_OVER = 100_000
_KEY_BYTES = 24


@dataclass(slots=True, kw_only=True)
class Beginning:
    """A conversation that has just begun."""

    kit: Kit
    key: str = ""
    """What finds it again; empty for one that nobody will."""
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
        self,
        skills: Skills,
        *,
        builtin: Sequence[str] = (),
        most: int = MAX_CONVERSATIONS,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
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
        self._most = most
        self._clock = clock
        self._named = self.library.sessions(guard=self.guard, most=most, clock=clock, **options)
        self._kits: OrderedDict[str, tuple[Kit, float]] = OrderedDict()
        # A transport has at most that many open. One that its client left open and silent for long may end here before
        # it does there; one that is in use does not, however many others come and go.
        self._lined = self.library.sessions(guard=self.guard, most=2 * most, clock=clock, **options)
        self._lines: dict[str, Kit] = {}
        self._over: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.RLock()
        self.window = self.alone()
        """What is shown before anything is loaded: nothing is ever loaded into its session."""
        if self._builtin:
            _ = self.window.executor  # a name that is wrong is an error now, not at the first request

    # --- those whose key is given out -------------------------------------------------------------------------------

    def begin(self) -> tuple[str, Kit]:
        """A new conversation, and the key that finds it again.

        It takes the place of the one that was used longest ago where there are too many; raises where even that one is
        in use, so that nobody can end the conversations of others by beginning new ones.
        """
        with self._lock:
            self._require_room()
            key, kit = secrets.token_urlsafe(_KEY_BYTES), self._kit(self._named.begin())
            self._kits[key] = (kit, self._clock())
        return key, kit

    def _require_room(self) -> None:
        while self._kits:
            key, (kit, used) = next(iter(self._kits.items()))
            if not kit.session.is_closed:
                if len(self._named) < self._most or used <= self._clock() - QUIET_SECONDS:
                    return
                raise coded(
                    InvalidArgument(
                        f"There are {self._most:,} conversations already, and all are in use.",
                        hint="Go on with one that was begun, or try again in some minutes.",
                    ),
                    "busy",
                )
            del self._kits[key]

    @contextlib.asynccontextmanager
    async def beginning(self, *, may_go_on: bool = True) -> AsyncIterator[Beginning]:
        """A new conversation, which ends with the block unless it may go on and is said to."""
        if may_go_on:
            key, kit = await anyio.to_thread.run_sync(self.begin)
            begun = Beginning(key=key, kit=kit)
        else:
            begun = Beginning(kit=await anyio.to_thread.run_sync(self.alone))
        try:
            yield begun
        finally:
            if not (begun.key and begun.goes_on):
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._end_beginning, begun)

    def _end_beginning(self, begun: Beginning) -> None:
        with self._lock:
            self._kits.pop(begun.key, None)
        self._named.end(begun.kit.session.id)
        begun.kit.session.close()

    def get(self, key: str) -> Kit:
        """The conversation of a key; raises `SessionNotFound` for a key that was not given out, or has ended."""
        with self._lock:
            kit, _ = self._kits.get(key, (None, 0.0))
            try:
                if kit is not None:
                    self._named.get(kit.session.id)  # it is in use
                    self._kits[key] = (kit, self._clock())
                    self._kits.move_to_end(key)
                    return kit
            except SessionNotFound:
                del self._kits[key]
        raise SessionNotFound(
            "There is no such conversation, or it has ended.",
            hint="Load a skill without naming a conversation: the result names a new one.",
        )

    # --- those of a line to a client ----------------------------------------------------------------------------------

    def of(self, key: str) -> Kit:
        """The conversation of a key that a transport vouches for; begun when it is first asked for.

        Raises `SessionNotFound` where it has ended: whoever goes on with it must know that nothing is loaded any more.
        """
        with self._lock:
            kit = self._lines.get(key)
            if kit is None and key not in self._over:
                kit = self._lines[key] = self._kit(self._lined.begin())
            try:
                if kit is not None:
                    self._lined.get(kit.session.id)
                    return kit
            except SessionNotFound:
                self.end(key)
        raise SessionNotFound("This session has ended.", hint="Begin a new one.")

    def is_over(self, key: str) -> bool:
        """Whether the conversation of a line has ended."""
        kit = self._lines.get(key)
        return key in self._over or (kit is not None and kit.session.is_closed)

    def end(self, key: str) -> None:
        """End the conversation of a line: what it has loaded is unloaded."""
        with self._lock:
            kit = self._lines.pop(key, None)
            if kit is None:
                return
            self._over[key] = None
            while len(self._over) > _MAX_OVER:
                self._over.popitem(last=False)
        self._lined.end(kit.session.id)

    def alone(self) -> Kit:
        """A conversation that nobody finds again; whoever asked for it closes its session."""
        return self._kit(self.library.session(guard=self.guard, **self._options))

    def close(self) -> None:
        """End them all."""
        for key in list(self._lines):
            self.end(key)
        for key in list(self._kits):
            kit, _ = self._kits.pop(key)
            self._named.end(kit.session.id)
        self.window.session.close()

    def _kit(self, session: Session) -> Kit:
        return Kit(session, self.dialect, builtin=self._builtin)

    # --- what there is ----------------------------------------------------------------------------------------------

    def entries(self, after: str = "") -> Iterator[Entry]:
        """The skills that may be known of here, by name, behind the one that is called `after`."""
        for entry in self.library.entries():
            if entry.name > after and self.may_know(entry):
                yield entry

    def may_know(self, entry: Entry) -> bool:
        """Whether a skill is neither blocked nor outside of what these conversations may know of."""
        names = self.window.session.options.names
        if names is not None and entry.name not in names:
            return False
        return not self.guard.is_blocked(entry.name) and not self._is_blocked_by_content(entry)

    def _is_blocked_by_content(self, entry: Entry) -> bool:
        # To know the content costs a look at all its files.
        if not any(blocked.startswith("sha256:") for blocked in self.guard.blocked):
            return False
        try:
            return self.guard.is_blocked(entry.name, self.library.digest(entry))
        except MetierError:
            return True  # what cannot be read might be what is blocked
