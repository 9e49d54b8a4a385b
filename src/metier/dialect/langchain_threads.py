"""The sessions of LangGraph's threads: what a checkpoint says of one, and what is here in memory.

A thread goes on wherever its checkpoint is read: in another process, or again from an earlier step. So the state of a
session is kept in the state of the graph, and whoever reads one that is not the one here goes on with that.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
import weakref
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, TypeAlias

from metier._lazy import dataclass, logger
from metier.errors import InvalidArgument, MetierError, SessionNotFound
from metier.skill import shown

if TYPE_CHECKING:
    from metier import Session
    from metier.dialect.skills import Skills

log = logger("metier.dialect")

Stamp: TypeAlias = tuple[str, int]
"""The writer of a state, and the number of its writes."""

MAX_LOST = 1_000
MAX_THREADS = 16_384
"""The number of threads that are known at once; for any other, its checkpoint counts."""


class Run(str):
    """One run of a graph, by its id; that it is over is noticed when nobody has it any more."""

    ending: weakref.finalize[Any, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedThread:
    """The state of a session as the state of a graph holds it, checked: a checkpoint may come from anywhere."""

    stamp: Stamp
    after: Stamp | None
    session: dict[str, Any]
    lost: tuple[str, ...]

    @classmethod
    def read(cls, value: Any) -> SavedThread | None:
        """Return the saved state in a graph; None where there is nothing yet."""
        if not value:
            return None
        stamp = _saved_stamp(value) if isinstance(value, dict) else None
        session, lost = (value.get("session"), value.get("lost")) if stamp else (None, None)
        is_usable = isinstance(session, dict) and isinstance(lost, list) and len(lost) <= MAX_LOST
        if stamp is None or not is_usable or not all(isinstance(name, str) for name in lost or ()):
            raise InvalidArgument(
                "What this thread has loaded cannot be read from its checkpoint.",
                hint="Begin a new thread, or set `metier_saved` to None in the state of this one.",
            )
        return cls(stamp=stamp, after=_saved_stamp(value.get("after")), session=session or {}, lost=tuple(lost or ()))

    @property
    def value(self) -> dict[str, Any]:
        """The same as the state of a graph holds it."""
        (by, count), after = self.stamp, self.after
        return {
            "by": by,
            "count": count,
            "after": None if after is None else {"by": after[0], "count": after[1]},
            "session": self.session,
            "lost": list(self.lost),
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The skills that were loaded, those included that were lost before."""
        active = self.session.get("active")
        found = [one.get("name") for one in active if isinstance(one, dict)] if isinstance(active, list) else []
        return (*self.lost, *(name for name in found if isinstance(name, str)))


def newest(old: Any, new: Any) -> Any:
    """Return the state of a graph after a step in which several calls wrote it."""
    try:
        before, now = SavedThread.read(old), SavedThread.read(new)
    except InvalidArgument:
        return new  # It is told where it is read.
    if before is None or now is None or now.after == before.stamp:
        return new
    if before.stamp[0] == now.stamp[0]:
        return old if before.stamp[1] > now.stamp[1] else new
    # Calls of one step that were made in two processes, neither of which knew of the other's: nothing has what both
    # loaded, and nobody is to take this for their own.
    both = hashlib.sha256(repr((before.stamp, now.stamp)).encode()).hexdigest()
    lost = tuple(dict.fromkeys(name for name in before.names if name not in now.names))
    return SavedThread(stamp=(both, 0), after=None, session=now.session, lost=(*now.lost, *lost)[:MAX_LOST]).value


class Thread:
    """The known state of one conversation."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lost: tuple[str, ...] = ()
        """Skills that it had loaded and that could not be loaded again, so that what they restrict is not known."""
        self.resuming = threading.Lock()
        """Held by whoever finds its session, who may have to ask somebody."""
        self._writing = threading.Lock()
        self._runs: weakref.WeakSet[Run] = weakref.WeakSet()
        self._is(None)

    def _is(self, base: Stamp | None) -> None:
        self._by = uuid.uuid4().hex
        self._base = base
        self._last = base
        self._step = ""
        self._written: tuple[dict[str, Any], tuple[str, ...]] | None = None

    def fits(self, stamp: Stamp, step: str) -> bool:
        """Whether the session here is the one of a state that is read at a step, or has gone on from there."""
        is_own = stamp[0] == self._by or stamp == self._base
        # What was written in this step is not to be read before it ends. In the middle of a run, others may have
        # written meanwhile. Otherwise somebody went back to what was before.
        return stamp == self._last or (is_own and (step == self._step or self.is_at_work))

    def resumed(self, saved: SavedThread, session: Session, lost: tuple[str, ...]) -> None:
        """From now on the session here is that of a state, without the skills that were lost."""
        with self._writing:
            self._is(saved.stamp)
            self.lost = lost
            if {one.name for one in session.active} - session.loaded.bound == set(saved.names) - set(
                lost
            ) - session.loaded.bound:
                self._written = (session.save(), saved.lost)

    def added(self, session: Session) -> list[tuple[str, str, Any, str]]:
        """Return the loads that were not written yet: name, handle, origin and arguments of each."""
        known = {one["name"] for one in self._written[0]["active"]} if self._written else set()
        new = [one for one in session.active if one.name not in known and one.name not in session.loaded.bound]
        return [(one.name, session.parts.known.handle(one.entry), one.by, one.arguments) for one in new]

    def update(self, session: Session, step: str, value: Any = None, *, is_call: bool = False) -> dict[str, Any] | None:
        """Return the update of the graph's state; None where nothing has changed.

        `value` is what stands there. After a call it is what stood there before the step, and says nothing.
        """
        with self._writing:
            try:
                now = (session.save(), self.lost)
            except SessionNotFound:
                return None  # It was ended meanwhile.
            if self._written is None and not value and not now[0]["active"]:
                return None
            if now != self._written:
                self._written, self._step = now, step
                self._last = (self._by, self._last[1] + 1 if self._last and self._last[0] == self._by else 0)
            elif is_call or (value and _saved_stamp(value) == self._last):
                return None
            stamp = self._last or (self._by, 0)
            return SavedThread(stamp=stamp, after=self._base, session=now[0], lost=now[1]).value

    @property
    def is_at_work(self) -> bool:
        """Whether a run is at work in it."""
        return bool(self._runs)

    def began(self, run: Run) -> None:
        """A run is at work in it."""
        self._runs.add(run)

    def stopped(self, run: Run) -> None:
        """A run is over, or waits for an answer."""
        self._runs.discard(run)


class Threads:
    """The conversations of an agent, and which of them end with their run."""

    def __init__(self, skills: Skills) -> None:
        self._skills = skills
        self._lock = threading.Lock()
        self._threads: OrderedDict[str, Thread] = OrderedDict()
        self._over: deque[str] = deque()

    def open(self, name: str, value: Any, step: str) -> tuple[Thread, Session]:
        """A conversation, and its session: the one that the state of the graph speaks of."""
        self._end_those_over()
        with self._lock:
            thread = self._threads.setdefault(name, Thread(name))
            self._threads.move_to_end(name)
            while len(self._threads) > MAX_THREADS:
                self._threads.popitem(last=False)
        saved = SavedThread.read(value)
        with thread.resuming:
            if saved is None:
                return thread, self._skills.session(name)
            here = self._skills.known(name)
            if here is not None and thread.fits(saved.stamp, step):
                return thread, here
            return thread, self._resumed(thread, here, saved)

    def _resumed(self, thread: Thread, here: Session | None, saved: SavedThread) -> Session:
        added = [] if here is None else thread.added(here)
        session = self._skills.resume(thread.name, saved.session)
        for name, handle, by, arguments in added:
            try:
                session.load([handle], "add", by=by, args=arguments)
            except MetierError as error:
                log.warning("%s is not loaded any more: %s", name, error)
        wanted = dict.fromkeys((*saved.names, *(name for name, *_ in added)))
        active = {one.name for one in session.active}
        lost = tuple(name for name in wanted if name not in active)
        if lost:
            log.warning("not loaded again in thread %r: %s", shown(thread.name), shown(", ".join(lost), 1_000))
        thread.resumed(saved, session, lost)
        return session

    def began(self, thread: Thread, run: Run, *, is_whole: bool) -> None:
        """A run is at work in a conversation, which `is_whole` in it and ends with it."""
        thread.began(run)
        if is_whole:
            # Only noted: this is called wherever the run happens to be forgotten.
            run.ending = weakref.finalize(run, self._over.append, thread.name)
            run.ending.atexit = False

    def waits(self, thread: Thread | None, state: Any) -> None:
        """A run waits for an answer, and goes on as another one."""
        run = state.get("metier_run")
        if thread is not None and run is not None:
            thread.stopped(run)
            if run.ending is not None:
                run.ending.detach()

    def over(self, name: str, run: Run | None, *, is_whole: bool) -> None:
        """A run is over, and its conversation too where it `is_whole` in it."""
        with self._lock:
            thread = self._threads.pop(name, None) if is_whole else self._threads.get(name)
        if thread is not None and run is not None:
            thread.stopped(run)
        if is_whole:
            self._skills.end(name)

    def _end_those_over(self) -> None:
        while self._over:
            name = self._over.popleft()
            with self._lock:
                thread = self._threads.get(name)
            if thread is None or not thread.is_at_work:
                self.over(name, None, is_whole=True)


def _saved_stamp(value: Any) -> Stamp | None:
    by, count = (value.get("by"), value.get("count")) if isinstance(value, dict) else (None, None)
    return (by, count) if isinstance(by, str) and isinstance(count, int) else None
