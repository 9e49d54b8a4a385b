"""Deliveries: notices are made of audit records, and sent until their receivers have them.

Each process of a server has a worker. The cursor of a webhook moves in the transaction that adds its deliveries, and an
attempt begins by a change that only one process can make: so no record is left out, and no two processes send the same
delivery at once. One whose process dies is sent again once its attempt counts as lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from metier._lazy import logger
from metier.errors import MetierError
from metier.guard import Actor
from metier.guard.approvals.status import timestamp
from metier.guard.audit.governance_events import record_event
from metier.serve.api.context import ServerContext
from metier.serve.api.notices.events import event_of, notice_of
from metier.serve.api.notices.expiry import record_expiring_approvals, record_faults
from metier.serve.api.notices.forms import AUDIT, message_of
from metier.serve.api.notices.transport import SECONDS, DeliveryFailed, post
from metier.serve.api.notices.webhooks import mark_gone, new_delivery
from metier.store import Delivery, TenantScope, Webhook
from metier.store.all_tenants import due_webhooks, tenants_with_webhooks
from metier.store.audit_log import ChainedRecord
from metier.store.rows import to_json

log = logger("metier.serve")

_TICK_SECONDS = 0.5
_SLOW_TICK_SECONDS = 60.0
"""The time between two looks at what no record tells of."""
_SENDERS = 8
_MOST_UNDER_WAY = 4 * _SENDERS
_MOST_IN_A_ROW = 50
"""The most deliveries to one webhook before others have their turn."""
_CLAIM_SECONDS = 6 * SECONDS
_DELAYS = (5, 30, 120, 600, 1_800, 3_600)
"""Seconds before each further attempt; the last one counts for all that follow."""
_BATCH_RECORDS = 500
_BATCH_CHARACTERS = 1_000_000
_KEPT_SECONDS = 30 * 86_400


class DeliveryWorker:
    """The part of a process that tells webhooks."""

    def __init__(self, context: ServerContext, *, clock: Callable[[], float] = time.time) -> None:
        self._context = context
        self._store = context.store
        self._clock = clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metier-deliveries", daemon=True)
        self._senders = ThreadPoolExecutor(_SENDERS, thread_name_prefix="metier-delivery")
        self._under_way: dict[tuple[str, str], Future[None]] = {}
        self._slow_at = 0.0

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the attempts that are under way; others wait in the store."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._senders.shutdown(cancel_futures=True)

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_SECONDS):
            try:
                self.queue()
                self.send()
            except MetierError as error:
                log.warning("webhooks were not told: %s", error)
            except Exception:
                log.exception("webhooks were not told")

    def run_once(self) -> None:
        """Make all deliveries that are needed now, and wait until those that are due were tried."""
        self.queue()
        while begun := self.send():
            wait(begun)

    def queue(self) -> None:
        """Make the deliveries of the records that were written since the last time."""
        is_slow_tick = self._clock() >= self._slow_at
        for tenant in tenants_with_webhooks(self._store.pool):
            scope = self._store.of(tenant)
            if is_slow_tick:
                record_expiring_approvals(scope, self._clock())
                record_faults(scope)
                scope.webhooks.prune(timestamp(self._clock() - _KEPT_SECONDS))
            last = scope.audit.last()
            for webhook in scope.webhooks.all():
                if last is not None and webhook.status == "active" and webhook.cursor != last.seq:
                    self._queue(scope, webhook, last.seq)
        if is_slow_tick:
            self._slow_at = self._clock() + _SLOW_TICK_SECONDS

    def _queue(self, scope: TenantScope, webhook: Webhook, last: int) -> None:
        if webhook.cursor > last:  # the store was restored since
            scope.webhooks.advance(webhook, last)
            return
        is_stream = webhook.events == (AUDIT,)
        # One batch at a time, so that they arrive in order.
        if is_stream and scope.webhooks.has_pending(webhook.id):
            return
        batch = _batch_after(scope, webhook.cursor)
        if not batch:
            return
        until = batch[-1].seq
        if is_stream:
            payload = to_json({"first": batch[0].seq, "last": until})
            made = [Delivery(webhook=webhook.id, event=AUDIT, payload=payload)]
        else:
            found = [(one.record, event_of(one.record)) for one in batch if one.record is not None]
            server = self._context.settings.address
            made = [
                new_delivery(webhook, notice_of(scope, event, record, server))
                for record, event in found
                if event is not None and event in webhook.events
            ]
        scope.webhooks.advance(webhook, until, made)

    def send(self) -> list[Future[None]]:
        """Begin to send what is due, one delivery at a time for each webhook; returns what was begun."""
        self._under_way = {key: one for key, one in self._under_way.items() if not one.done()}
        begun: list[Future[None]] = []
        for key in due_webhooks(self._store.pool, timestamp(self._clock()), _MOST_UNDER_WAY):
            if key not in self._under_way and len(self._under_way) < _MOST_UNDER_WAY:
                self._under_way[key] = self._senders.submit(self._send_all, self._store.of(key[0]), key[1])
                begun.append(self._under_way[key])
        return begun

    def _send_all(self, scope: TenantScope, webhook_id: str) -> None:
        """Send what is due to one webhook, until an attempt fails."""
        try:
            for _ in range(_MOST_IN_A_ROW):
                due = scope.webhooks.next_due(webhook_id, timestamp(self._clock()))
                if due is None or self._stopping.is_set() or not self._attempt(scope, due):
                    return
        except Exception:
            log.exception("a webhook was not told")

    def _attempt(self, scope: TenantScope, delivery: Delivery) -> bool:
        webhook = scope.webhooks.get(delivery.webhook)
        if webhook is None or webhook.status != "active":
            return False
        claimed = scope.webhooks.claim(delivery, timestamp(self._clock() + _CLAIM_SECONDS))
        if claimed is None:
            return False
        message = message_of(scope, webhook, claimed, int(self._clock()))
        allow_private = self._context.settings.webhooks.allow_private
        try:
            status = post(webhook.url, message.body, message.headers, allow_private=allow_private)
        except DeliveryFailed as error:
            self._note_failure(scope, webhook, claimed, str(error))
            return False
        if 200 <= status < 300:
            return scope.webhooks.finish(claimed, status="delivered", response=str(status))
        self._note_failure(scope, webhook, claimed, str(status), is_gone=status == 410)
        return False

    def _note_failure(
        self, scope: TenantScope, webhook: Webhook, claimed: Delivery, response: str, *, is_gone: bool = False
    ) -> None:
        """Let a delivery wait for its next attempt, or give it up; the others of its webhook wait as long."""
        later = timestamp(self._clock() + _DELAYS[min(claimed.attempts, len(_DELAYS)) - 1])
        if not is_gone and (not claimed.gives_up_at or later < claimed.gives_up_at):
            scope.webhooks.finish(claimed, status="pending", response=response, next_at=later)
            scope.webhooks.postpone(claimed, later)
            return
        with scope.transaction():
            if scope.webhooks.finish(claimed, status="failed", response=response):
                record_event(scope, "notification.failed", Actor(), reason=f"webhook {webhook.id}: {response}"[:500])
            if is_gone:
                mark_gone(scope, webhook.id)


def _batch_after(scope: TenantScope, seq: int) -> list[ChainedRecord]:
    """The next records, so many as one message holds."""
    found: list[ChainedRecord] = []
    size = 0
    for one in scope.audit.walk(start=seq + 1):
        size += len(one.text)
        if found and (len(found) == _BATCH_RECORDS or size > _BATCH_CHARACTERS):
            break
        found.append(one)
    return found
