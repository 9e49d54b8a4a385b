"""A pool of sessions: many conversations at once, each kept for as long as it is used."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from metier.errors import InvalidArgument, SessionNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from metier.session.context import SessionContext

DAY = 24 * 60 * 60.0
MAX_SESSIONS = 4_096
MAX_SAVED = 65_536
"""The number of saved sessions that are kept; each is a few hundred bytes."""


class PooledSession(Protocol):
    """The members of a session that a pool uses."""

    @property
    def id(self) -> str: ...

    @property
    def context(self) -> SessionContext: ...

    def close(self) -> None: ...

    def save(self, *, seal: bool = False) -> dict[str, Any]: ...


Kind = TypeVar("Kind", bound=PooledSession)


class _Making:
    """A session that is being made: by one, while others wait for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.waiting = 0
        self.is_ended = False


class SessionPool(Generic[Kind]):
    """Sessions by id. One that nobody used for a day ends, and so does the one used longest ago when there are many.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> sessions = library.sessions()
    >>> session = sessions.begin(skills=["greet"])
    >>> sessions.get(session.id) is session
    True
    """

    def __init__(
        self,
        begin: Callable[..., Kind],
        resume: Callable[..., Kind],
        *,
        seconds: float = DAY,
        most: int = MAX_SESSIONS,
        remembers: bool = False,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        """Keep sessions that `begin` and `resume` make; `options` are those of each, unless the call says otherwise.

        With `remembers`, one that had to go for want of time or room is saved in memory and resumed by its id: what its
        skills restrict must not end because others have much to say.
        """
        if seconds <= 0 or most < 1:
            raise InvalidArgument("Sessions need some time and some room.", hint="Use positive numbers.")
        self._begin = begin
        self._resume = resume
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._options = options
        self._kept: OrderedDict[str, tuple[Kind, float]] = OrderedDict()
        self._remembers = remembers
        self._saved: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._makings: dict[str, _Making] = {}

    def begin(self, **options: Any) -> Kind:
        """A new session; one whose first skills cannot be loaded is not kept."""
        return self._keep(self._begin(**(self._options | options)))

    def resume(self, state: Mapping[str, Any] | str | bytes, **options: Any) -> Kind:
        """Go on with a saved session, under the same options as the others here."""
        return self._keep(self._resume(state, **(self._options | options)))

    def _keep(self, session: Kind) -> Kind:
        with self._lock:
            ended = self._outdated()
            is_taken = session.id in self._kept and not self._kept[session.id][0].context.is_closed
            if not is_taken:
                self._kept[session.id] = (session, self._clock())
                self._kept.move_to_end(session.id)
                ended += self._outdated()
        _close(ended)
        if is_taken:
            session.close()
            raise InvalidArgument(f"There is a session {session.id!r} already.", hint="Use another id.")
        return session

    def get(self, id: str) -> Kind:  # noqa: A002
        """The session of an id, which is in use again; raises `SessionNotFound`."""
        found = self._used(id)
        if found is None and self._remembers:
            with self._making_one(id) as making:
                found = self._used(id) or self._resumed(id, making)
        if found is None:
            raise SessionNotFound(f"There is no session {str(id)[:80]!r}.", hint="Begin a new one.", id=id)
        return found

    def held(self, id: str) -> Kind | None:  # noqa: A002
        """The session of an id if it is in memory, which is in use again; waits for nobody, and ends no other."""
        with self._lock:
            found, used = self._kept.get(id, (None, 0.0))
            if found is None or found.context.is_closed or used <= self._clock() - self._seconds:
                return None
            self._kept[id] = (found, self._clock())
            self._kept.move_to_end(id)
            return found

    def open(self, id: str) -> Kind:  # noqa: A002
        """The session of an id, or a new one where there is none; only who asks for the same id waits for it."""
        found = self._used(id)
        if found is None:
            with self._making_one(id) as making:
                found = self._used(id) or self._resumed(id, making) or self.begin(id=id)
        return found

    def _used(self, id: str) -> Kind | None:  # noqa: A002
        with self._lock:
            ended = self._outdated()
            found, _ = self._kept.pop(id, (None, 0.0))
            if found is not None and found.context.is_closed:
                found = None
            if found is not None:
                self._kept[id] = (found, self._clock())
        _close(ended)
        return found

    @contextlib.contextmanager
    def _making_one(self, id: str) -> Iterator[_Making]:  # noqa: A002
        # One at a time: whoever asks for the same one meanwhile must not be told that there is none.
        with self._lock:
            making = self._makings.setdefault(id, _Making())
            making.waiting += 1
        try:
            with making.lock:
                yield making
        finally:
            with self._lock:
                making.waiting -= 1
                if not making.waiting:
                    del self._makings[id]

    def _resumed(self, id: str, making: _Making) -> Kind | None:  # noqa: A002
        with self._lock:
            state = self._saved.pop(id, None)
            making.is_ended = False
        if state is None:
            return None
        try:
            session = self.resume(state)
        except BaseException:
            with self._lock:
                if not making.is_ended:
                    self._saved[id] = state
            raise
        if making.is_ended:
            self.end(id)
            return None
        return session

    def end(self, id: str) -> None:  # noqa: A002
        """End a session; one that is not there has ended already."""
        with self._lock:
            found, _ = self._kept.pop(id, (None, 0.0))
            self._saved.pop(id, None)
            if id in self._makings:
                # Nobody waits here for whoever is asked about it: it ends once it is there.
                self._makings[id].is_ended = True
        if found is not None:
            found.close()

    def __len__(self) -> int:
        with self._lock:
            ended = self._outdated()
        _close(ended)
        return len(self._kept)

    def __contains__(self, id: object) -> bool:  # noqa: A002
        with self._lock:
            found = self._kept.get(id) if isinstance(id, str) else None
            return found is not None and not found[0].context.is_closed and found[1] > self._clock() - self._seconds

    def _outdated(self) -> list[Kind]:
        """Take out what nobody used for long, and the least used where there are too many."""
        ended: list[Kind] = []
        limit = self._clock() - self._seconds
        while self._kept:
            id, (session, used) = next(iter(self._kept.items()))  # noqa: A001
            if used > limit and len(self._kept) <= self._most:
                break
            del self._kept[id]
            ended.append(session)
            if self._remembers:
                # In the same moment as it goes: in between, somebody would be told that there is none.
                self._remember(session)
        return ended

    def _remember(self, session: Kind) -> None:
        with contextlib.suppress(SessionNotFound):  # it was closed by its user
            state = session.save(seal=True)
            if state["active"]:
                self._saved[session.id] = state
        while len(self._saved) > MAX_SAVED:
            self._saved.popitem(last=False)


def _close(sessions: list[Kind]) -> None:
    for session in sessions:
        session.close()
