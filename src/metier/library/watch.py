"""Watching: an index that refreshes itself when files change.

Only the folders in which a skill can appear or change are watched, not what lies inside skills: ten thousand skills
are ten thousand watches set up in well under a second, where a recursive watch of the tree takes forty thousand.
A look now and then finds what events cannot show: folders that did not exist yet, and file systems without events.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from metier._lazy import logger, replace
from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from metier.library.index import SkillLookup
    from metier.library.refresh import Change
    from metier.library.snapshot import Snapshot

log = logger("metier.watch")

_DEBOUNCE_MS = 30
_STEP_MS = 10


class Watch:
    """A watched index; close it to stop, or use it in a `with` statement."""

    def __init__(
        self,
        index: SkillLookup,
        on_change: Callable[[Change], object],
        *,
        interval: float | None = 5.0,
        events: bool = True,
    ) -> None:
        if not callable(on_change):
            raise InvalidArgument("A watch needs something to call.", hint="Pass a function that takes a Change.")
        if interval is not None and not (isinstance(interval, int | float) and 0.01 <= interval <= 86_400):
            raise InvalidArgument(
                f"{interval} is not a usable interval.", hint="Use 0.01 to 86,400 seconds, or None for no polling."
            )
        self._index = index
        self._on_change = on_change
        self._interval = interval
        self._stop = threading.Event()
        self._telling = threading.Lock()
        self._told = index.snapshot
        self._threads: list[threading.Thread] = []
        if events:
            self._begin(self._follow_events, "metier-watch-events")
        if interval is not None:
            self._begin(self._poll, "metier-watch-poll")

    def _begin(self, work: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    @property
    def is_running(self) -> bool:
        """Whether anything watches at the moment."""
        return any(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        """Stop watching; returns once no callback can come any more (unless called from one)."""
        self._stop.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout=10)

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refresh(self) -> None:
        """One refresh; whatever goes wrong in it or in the callback, watching goes on."""
        try:
            read = self._index.refresh().files_read
            with self._telling:
                # Compared with what was told last, not with the last refresh: that may have been somebody else's.
                now = self._index.snapshot
                change = self._index.changes(self._told, now)
                self._told = now
        except Exception:
            log.exception("A refresh of the library failed; watching goes on.")
            return
        if change and not self._stop.is_set():
            try:
                self._on_change(replace(change, files_read=read))
            except Exception:
                log.exception("The callback of a watch failed; watching goes on.")

    def _poll(self) -> None:
        while not self._stop.wait(self._interval):
            self._refresh()

    def _follow_events(self) -> None:
        try:
            from watchfiles import watch
        except ImportError:
            log.warning("watchfiles is not installed; changes are found by polling only.")
            return
        while not self._stop.is_set():
            snapshot = self._index.snapshot
            folders = self._folders(snapshot)
            if not folders:
                # Nothing to watch yet; polling will find the first folder.
                self._stop.wait(1.0)
                continue
            try:
                changes = watch(
                    *folders,
                    watch_filter=None,
                    debounce=_DEBOUNCE_MS,
                    step=_STEP_MS,
                    stop_event=self._stop,
                    rust_timeout=500,
                    yield_on_timeout=True,
                    raise_interrupt=False,
                    recursive=False,
                    ignore_permission_denied=True,
                )
                # What happened between the last look and the watches being set up left no event.
                first = True
                for batch in changes:
                    if batch or first:
                        first = False
                        self._refresh()
                    if self._index.snapshot is not snapshot:
                        break
            except (OSError, RuntimeError) as error:
                # Out of watches, or a folder went away while the watch was set up.
                log.warning("File events are not available (%s); changes are found by polling.", error)
                if self._stop.wait(min(self._interval or 5.0, 5.0)):
                    return
                self._refresh()

    @staticmethod
    def _folders(snapshot: Snapshot) -> tuple[str, ...]:
        """The folders that matter: those that were searched, and those of the skills themselves."""
        folders: set[str] = set()
        for place, rows in zip(snapshot.places, snapshot.rows, strict=True):
            folders.update(rows.folders)
            root = getattr(place.source, "root", None)
            if root is not None:
                folders.update(os.path.dirname(f"{root}/{key}") for key in rows.keys)
        return tuple(sorted(folder for folder in folders if os.path.isdir(folder)))
