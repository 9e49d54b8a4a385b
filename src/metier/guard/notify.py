"""The notify command: the program of the policy key `notify`, started when an item begins to wait for a decision.

`governance_events` notes each record by which an item begins to wait; `notifying` starts the program for those that are
still pending at its end. `metier.run.notify_command` runs it, through the hook `metier._notifier`.
"""

from __future__ import annotations

import contextlib
import functools
import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from metier import _notifier
from metier._log import logger
from metier.errors import MetierError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier.guard.decision import Actor
    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import TenantScope

log = logger("metier.guard")


class _NewItem(NamedTuple):
    """An item that begins to wait by a record."""

    scope: TenantScope
    actor: Actor
    kind: str
    id: str


_new_items: ContextVar[list[_NewItem] | None] = ContextVar("metier_new_pending_items", default=None)


def note_pending(scope: TenantScope, type: str, actor: Actor, fields: Mapping[str, Any]) -> None:  # noqa: A002
    """Note the item that begins to wait by a record, if one does."""
    items = _new_items.get()
    if items is None:
        return
    if type == "approval.requested":
        items.append(_NewItem(scope, actor, "request", fields["request"]))
    elif type == "proposal.created" and fields["proposal"]:
        items.append(_NewItem(scope, actor, "proposal", fields["proposal"]))
    elif type == "skill.quarantined" and (what := fields["notes"][0]) not in scope.recorded_decisions().blocked:
        items.append(_NewItem(scope, actor, "quarantine", what.replace(" ", ":", 1)))


@contextlib.contextmanager
def notifying(effective: EffectivePolicy) -> Iterator[None]:
    """At the end, start the notify command for each item that began to wait inside, is durable and still pending.

    The program runs in the background, and its failure changes nothing here.
    """
    if effective.notify is None:
        yield
        return
    items: list[_NewItem] = []
    token = _new_items.set(items)
    try:
        yield
    finally:
        _new_items.reset(token)
        outer = _new_items.get()
        if outer is not None:
            outer.extend(items)
        else:
            for one in items:
                _notify(effective, one)


def _notify(effective: EffectivePolicy, item: _NewItem) -> None:
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
