"""The conversations of a server: each has a session of its own, found by a key that nobody can guess."""

from __future__ import annotations

import contextlib
import secrets
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from metier.dialect import Kit
from metier.errors import InvalidArgument, MetierError, SessionNotFound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from metier import Session
    from metier.dialect import Skills
    from metier.library import Entry

MAX_CONVERSATIONS = 4_096
"""How many there are at once; the one that was used longest ago ends for a new one."""
_KEY_BYTES = 24


@dataclass(slots=True, kw_only=True)
class Beginning:
    """A conversation that has just begun."""

    key: str
    kit: Kit
    goes_on: bool = False
    """Whether anybody is told its key; otherwise it ends at once."""


class Conversations:
    """Sessions by conversation, over one library and one guard.

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
        self._sessions = self.library.sessions(guard=self.guard, most=most, **options)
        self._kits: dict[str, Kit] = {}
        self._most = most
        self._lock = threading.Lock()
        self._beginning = threading.Lock()
        self.window = self.alone()
        """What is shown before anything is loaded: nothing is ever loaded into its session."""
        if self._builtin:
            _ = self.window.executor  # a name that is wrong is an error now, not at the first request

    def begin(self, key: str | None = None) -> tuple[str, Kit]:
        """A new conversation, and the key that finds it again; one that came from elsewhere is nobody's to guess."""
        key = key or secrets.token_urlsafe(_KEY_BYTES)
        kit = self._kit(self._sessions.begin())
        with self._lock:
            self._kits[key] = kit
            if len(self._kits) > 2 * self._most:
                self._kits = {one: kept for one, kept in self._kits.items() if not kept.session.is_closed}
        return key, kit

    @contextlib.asynccontextmanager
    async def beginning(self) -> AsyncIterator[Beginning]:
        """A new conversation, which ends with the block unless it is said to go on."""
        key, kit = await anyio.to_thread.run_sync(self.begin)
        begun = Beginning(key=key, kit=kit)
        try:
            yield begun
        finally:
            if not begun.goes_on:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self.end, key)

    def get(self, key: str) -> Kit:
        """The conversation of a key; raises `SessionNotFound` for a key that was not given out, or has ended."""
        kit = self._kits.get(key)
        try:
            if kit is not None:
                self._sessions.get(kit.session.id)  # it is in use
                return kit
        except SessionNotFound:
            self._kits.pop(key, None)
        raise SessionNotFound(
            "There is no such conversation, or it has ended.",
            hint="Load a skill without naming a conversation: the result names a new one.",
        )

    def of(self, key: str) -> Kit:
        """The conversation of a key that a transport vouches for; begun when it is first asked for."""
        with self._beginning:
            try:
                return self.get(key)
            except SessionNotFound:
                return self.begin(key)[1]

    def alone(self) -> Kit:
        """A conversation that nobody finds again; whoever asked for it closes its session."""
        return self._kit(self.library.session(guard=self.guard, **self._options))

    def end(self, key: str) -> None:
        """End a conversation: what it has loaded is unloaded."""
        kit = self._kits.pop(key, None)
        if kit is not None:
            self._sessions.end(kit.session.id)

    def close(self) -> None:
        """End them all."""
        for key in list(self._kits):
            self.end(key)
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
