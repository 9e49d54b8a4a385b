"""The notify command: the program of the policy key `notify`, started when an item begins to wait for a decision.

`governance_events` notes each record by which an item begins to wait; `notifying` starts the program for those that are
still pending at its end. `metier.run.notify_command` runs it, through the hook `metier._notifier`.
"""

from __future__ import annotations

import contextlib
import functools
import json
from typing import TYPE_CHECKING

from metier import _notifier
from metier._lazy import logger
from metier.errors import MetierError
from metier.guard.audit.governance_events import NEW_ITEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.audit.governance_events import NewItem
    from metier.guard.decision import Actor
    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import TenantScope

log = logger("metier.guard")


@contextlib.contextmanager
def notifying(effective: EffectivePolicy) -> Iterator[None]:
    """At the end, start the notify command for each item that began to wait inside, is durable and still pending.

    The program runs in the background, and its failure changes nothing here.
    """
    if effective.notify is None:
        yield
        return
    items: list[NewItem] = []
    token = NEW_ITEMS.set(items)
    try:
        yield
    finally:
        NEW_ITEMS.reset(token)
        outer = NEW_ITEMS.get()
        if outer is not None:
            outer.extend(items)
        else:
            for one in items:
                _notify(effective, one)


def _notify(effective: EffectivePolicy, item: NewItem) -> None:
    from metier.guard.approvals.pending import pending_items
    from metier.guard.approvals.people import known_person
    from metier.store import Person

    scope, actor, notify = item.scope, item.actor, effective.notify
    # Inside of a caller's transaction it may still be rolled back.
    if notify is None or item.kind not in notify.kinds or scope.store.pool.is_in_transaction:
        return
    try:
        name = actor.user or actor.agent or ""
        known = known_person(scope, name) if actor.user else None
        person = known or Person(name=name, kind="user" if actor.user else "agent")
        pending = (one for one, _ in pending_items(scope, effective, person) if (one.kind, one.id) == item[2:])
        if (entry := next(pending, None)) is not None:
            data = json.dumps(entry.as_dict()).encode()
            failed = functools.partial(_record_failure, scope, actor, notify.run[0])
            _notifier.start(notify.run, data, limit=notify.seconds, failed=failed)
    except (MetierError, RuntimeError) as error:
        log.warning("nobody was told that something waits: %s", error)


def _record_failure(scope: TenantScope, actor: Actor, program: str, problem: str) -> None:
    from metier.guard.audit.governance_events import record_event

    try:
        record_event(scope, "notification.failed", actor, reason=f"{program[:200]}: {problem[:500]}")
    except MetierError as error:
        log.warning("a notification failed (%s), which could not be recorded: %s", problem, error)
