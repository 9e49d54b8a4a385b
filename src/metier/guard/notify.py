"""Notices: the program that policy names is told of a thing at the moment when it begins to wait."""

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


class _Begun(NamedTuple):
    """Something that was recorded as the beginning of a wait."""

    scope: TenantScope
    actor: Actor
    kind: str
    id: str


_collected: ContextVar[list[_Begun] | None] = ContextVar("metier_collected_notices", default=None)


def note_pending(scope: TenantScope, type: str, actor: Actor, fields: Mapping[str, Any]) -> None:  # noqa: A002
    """Collect a record that is about to be kept, if something begins to wait by it."""
    begun = _collected.get()
    if begun is None:
        return
    if type == "approval.requested":
        begun.append(_Begun(scope, actor, "request", fields["request"]))
    elif type == "proposal.created" and fields["proposal"]:
        begun.append(_Begun(scope, actor, "proposal", fields["proposal"]))
    elif type == "skill.quarantined" and (what := fields["notes"][0]) not in scope.ledger().blocked:
        begun.append(_Begun(scope, actor, "quarantine", what.replace(" ", ":", 1)))


@contextlib.contextmanager
def notifying(effective: EffectivePolicy) -> Iterator[None]:
    """At the end, tell the program of the policy what began to wait inside, as far as it is durable and still waits.

    The program runs in the background. Whatever becomes of it changes nothing here.
    """
    if effective.notify is None:
        yield
        return
    begun: list[_Begun] = []
    token = _collected.set(begun)
    try:
        yield
    finally:
        _collected.reset(token)
        outer = _collected.get()
        if outer is not None:
            outer.extend(begun)
        else:
            for one in begun:
                _tell(effective, one)


def _tell(effective: EffectivePolicy, begun: _Begun) -> None:
    from metier.guard.approvals.pending import pending_items
    from metier.guard.approvals.people import known_person
    from metier.store import Person

    scope, actor, notify = begun.scope, begun.actor, effective.notify
    # Inside of a caller's transaction it may still be taken back.
    if notify is None or begun.kind not in notify.kinds or scope.store.driver.is_in_transaction:
        return
    try:
        name = actor.user or actor.agent or ""
        known = known_person(scope, name) if actor.user else None
        person = known or Person(name=name, kind="user" if actor.user else "agent")
        found = (one for one, _ in pending_items(scope, effective, person) if (one.kind, one.id) == begun[2:])
        if (entry := next(found, None)) is not None:
            data = json.dumps(entry.as_dict()).encode()
            failed = functools.partial(_keep_failure, scope, actor, notify.run[0])
            _notifier.start(notify.run, data, limit=notify.seconds, failed=failed)
    except (MetierError, RuntimeError) as error:
        log.warning("nobody was told that something waits: %s", error)


def _keep_failure(scope: TenantScope, actor: Actor, program: str, problem: str) -> None:
    from metier.guard.audit.governance_events import record_event

    try:
        record_event(scope, "notification.failed", actor, reason=f"{program[:200]}: {problem[:500]}")
    except MetierError as error:
        log.warning("a notification failed (%s), which could not be recorded: %s", problem, error)
