"""The reports of a node to its server: what was recorded here, what lies here, and what waits for people."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from metier._lazy import logger
from metier.errors import MetierError, ServerUnreachable
from metier.hub.node.content import bring_skills
from metier.hub.node.inventory import InventoryReport
from metier.hub.node.shipping import Shipping
from metier.hub.node.submissions import Submissions

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.guard.node.exchange import NodeExchange

log = logger("metier.hub")

_EVERY = 1.0
"""Seconds between two looks at what is to be reported."""
_MOST_PAUSE = 60.0
_VERIFY_EVERY = 600.0


class Reports:
    """A thread that reports to the server, beside the one that listens to it."""

    def __init__(self, exchange: NodeExchange) -> None:
        self._exchange = exchange
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metier-node-reports", daemon=True)
        self._submissions = Submissions(exchange)
        self._verified = 0.0
        self._shipping: Shipping | None = None
        self._inventory = InventoryReport(exchange.connection)

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def stop(self) -> None:
        """End soon."""
        self._stopping.set()

    def finish(self, seconds: float) -> None:
        """End once everything is reported, or the time is over."""
        self.stop()
        self._thread.join(seconds)

    def _run(self) -> None:
        pause = _EVERY
        while not self._stopping.wait(pause):
            pause = _EVERY if self._report_all() else min(pause * 2, _MOST_PAUSE)
        self._attempt(self._ship)  # all else can wait for the next process

    def report(self) -> None:
        """Report everything once; raises where the server does not take it, or has other records than are here."""
        shipping = Shipping.here(self._exchange.connection)
        shipping.verify(whole=True)
        shipping.ship()
        self._submissions.submit()
        self._inventory.send()

    def _report_all(self) -> bool:
        """Report everything; whether nothing went wrong."""
        went_well = [self._attempt(one) for one in (self._ship, self._verify, self._submissions.submit)]
        return all(went_well)

    def _attempt(self, report: Callable[[], object]) -> bool:
        try:
            report()
        except ServerUnreachable:
            return False
        except MetierError as error:
            log.warning("a report to the server of this node failed: %s", error)
            return False
        except Exception:
            log.exception("a report to the server of this node failed")
            return False
        return True

    def _ship(self) -> None:
        """Ship what was recorded, once the server has said on this connection that what it has is still here."""
        if self._shipping is None or not self._shipping.has_store:
            shipping = Shipping.here(self._exchange.connection)
            shipping.verify()
            self._shipping = shipping
        self._shipping.ship()

    def _verify(self) -> None:
        """Read the deployed skills, bring again what was changed in their folder, and say what else lies here."""
        if self._stopping.is_set():
            return  # a process that is about to end has no time to read everything
        now = time.monotonic()
        if not self._verified or now > self._verified + _VERIFY_EVERY:
            self._verified = now
            bring_skills(self._exchange, again=True)
            self._inventory.send()
