"""The synchronisation of a node: one process of this machine keeps it current, and the next takes over when it ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from metier._lazy import logger
from metier.errors import MetierError
from metier.guard.node.binding import read_binding
from metier.guard.node.exchange import NodeExchange
from metier.guard.node.lease import advance_lease
from metier.hub.node.content import bring_skills
from metier.hub.node.reports import Reports
from metier.library.places import node_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logger("metier.hub")

_FIRST_SECONDS = 2.0
"""Seconds that the first exchange may hold up its caller."""
_LAST_SECONDS = 2.0
"""Seconds that are left at the end of the process to ship records."""
_TAKE_OVER_SECONDS = 1.0
_MOST_PAUSE = 30.0
_starting = threading.Lock()
_threads: dict[tuple[int, str], SyncThread] = {}


def keep_current() -> None:
    """Keep this node current from now on, as long as this process lasts; returns after the first exchange."""
    key = (os.getpid(), node_folder())  # a forked process has no thread of its own
    with _starting:
        thread = _threads.get(key)
        if thread is None or not thread.is_alive:
            thread = _threads[key] = SyncThread(key[1])
            thread.start()
    thread.first.wait(_FIRST_SECONDS)


@atexit.register
def finish() -> None:
    """End what keeps this node current, once what can be shipped in a moment is shipped."""
    own = [thread for (process, _), thread in _threads.items() if process == os.getpid()]
    _threads.clear()
    for thread in own:
        thread.stop()


class SyncThread:
    """The thread that keeps a node current, if no other process does, and the one that reports to its server."""

    def __init__(self, folder: str) -> None:
        self.first = threading.Event()
        """Set once the first exchange is over, or nobody needs to wait for it."""
        self._folder = folder
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metier-node", daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, seconds: float = _LAST_SECONDS) -> None:
        """End, once what can be shipped in that time is."""
        self._stopping.set()
        reports = self._reports
        if reports is not None:
            reports.finish(seconds)

    _reports: Reports | None = None

    def _run(self) -> None:
        while not self._stopping.is_set():
            with _alone(os.path.join(self._folder, "sync.lock")) as is_alone:
                if is_alone and not self._keep():
                    self.first.set()
                    return
            self.first.set()
            self._stopping.wait(_TAKE_OVER_SECONDS)

    def _keep(self) -> bool:
        """Keep the node current; False once this machine is none any more."""
        pause = 1.0
        while not self._stopping.is_set():
            try:
                exchange = NodeExchange.here()
                if exchange is None:
                    return False
                exchange.renew()
                bring_skills(exchange)
                self.first.set()
                pause = 1.0
                self._follow(exchange)
            except MetierError as error:
                log.info("the server of this node was not reached: %s", error)
            except Exception:
                log.exception("this node could not be kept current")
            self.first.set()
            self._note_time()
            self._stopping.wait(pause)
            pause = min(pause * 2, _MOST_PAUSE)
        return True

    def _follow(self, exchange: NodeExchange) -> None:
        """Take what the server sends, until it says nothing any more."""
        self._reports = reports = Reports(exchange)
        reports.start()
        try:
            for envelope in exchange.leases():
                exchange.take(envelope)
                bring_skills(exchange)
                if self._stopping.is_set():
                    return
        finally:
            reports.stop()

    def _note_time(self) -> None:
        with contextlib.suppress(MetierError, OSError):
            binding = read_binding()
            if binding is not None:
                advance_lease(self._folder, binding)


@contextlib.contextmanager
def _alone(path: str) -> Iterator[bool]:
    """Whether no other process has a file locked; it is locked while the block runs, and no forked process has it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError:
        yield False
        return
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
