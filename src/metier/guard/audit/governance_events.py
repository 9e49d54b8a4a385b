"""Governance events: audit records of what people and agents decide about skills."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from metier._lazy import replace
from metier.guard.audit.log import AuditRecord, actor_fields
from metier.guard.decision import Actor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.errors import MetierError
    from metier.guard.decision import Decision
    from metier.store import Person, TenantScope

_REFUSING = (".denied", ".refused", ".rejected", ".failed")


class NewItem(NamedTuple):
    """An item that begins to wait by a record."""

    scope: TenantScope
    actor: Actor
    kind: str
    id: str


NEW_ITEMS: ContextVar[list[NewItem] | None] = ContextVar("metier_new_pending_items", default=None)
"""The items that began to wait by records, where somebody collects them."""


def _note_pending(scope: TenantScope, type: str, actor: Actor, fields: Mapping[str, Any]) -> None:  # noqa: A002
    """Note the item that begins to wait by a record, if one does."""
    items = NEW_ITEMS.get()
    if items is None:
        return
    if type == "approval.requested":
        items.append(NewItem(scope, actor, "request", fields["request"]))
    elif type == "proposal.created" and fields["proposal"]:
        items.append(NewItem(scope, actor, "proposal", fields["proposal"]))
    elif type == "skill.quarantined" and (what := fields["notes"][0]) not in scope.recorded_decisions().blocked:
        items.append(NewItem(scope, actor, "quarantine", what.replace(" ", ":", 1)))


def actor_of(person: Person, scope: TenantScope, environment: str = "") -> Actor:
    """Return the actor that a person is, for the tenant whose records they act on.

    >>> import tempfile
    >>> from metier.store import Person, Store
    >>> with Store.open(f"sqlite:///{tempfile.mkdtemp()}/metier.db") as store:
    ...     actor = actor_of(Person(name="robot", kind="agent"), store.of("acme"))
    >>> actor.agent, actor.user, actor.tenant
    ('robot', None, 'acme')
    """
    actor = Actor(tenant=scope.tenant or None, environment=environment or None)
    return replace(actor, agent=person.name) if person.kind == "agent" else replace(actor, user=person.name)


def record_event(scope: TenantScope, type: str, actor: Actor, ref: str = "", **more: Any) -> None:  # noqa: A002
    """Record an event in the transaction that is under way; `ref` is the skill that it is about, `name@source`.

    >>> import tempfile
    >>> from metier.store import Store
    >>> with Store.open(f"sqlite:///{tempfile.mkdtemp()}/metier.db") as store:
    ...     record_event(store.of(), "skill.deployed", Actor(user="ada"), "pdf@enterprise", reason="It is good.")
    ...     record = store.of().audit.tail(1)[0]
    >>> record["skill"], record["source"], record["user"]
    ('pdf', 'enterprise', 'ada')
    """
    _note_pending(scope, type, actor, more)
    scope.audit.append(event_record(scope, type, actor, ref, **more))


def event_record(scope: TenantScope, type: str, actor: Actor, ref: str = "", **more: Any) -> dict[str, Any]:  # noqa: A002
    """Return the record of an event, for a change of the store that writes its record itself."""
    given: dict[str, Any] = {"tenant": scope.tenant or None}
    if ref:
        given["skill"], _, given["source"] = ref.partition("@")
    return governance_record(type, actor=actor, **{**given, **more}).as_dict()


def record_refusal(scope: TenantScope, tried: str, actor: Actor, ref: str, **more: Any) -> None:
    """Record the refusal of an event that somebody tried: `proposal.approved` becomes a `proposal.refused`."""
    record_event(scope, f"{tried.partition('.')[0]}.refused", actor, ref, **more, notes=(f"tried {tried}",))


def denied(scope: TenantScope, tried: str, actor: Actor, ref: str, decision: Decision, **more: Any) -> MetierError:
    """The error for an event that a decision is against, once that is on record."""
    grounds = {"reason": decision.reason, "decision": decision.outcome, "rule": decision.rule, "code": decision.code}
    record_refusal(scope, tried, actor, ref, **more, **grounds)
    return decision.as_error()


def governance_record(
    type: str,  # noqa: A002
    *,
    actor: Actor,
    reason: str = "",
    **more: Any,
) -> AuditRecord:
    """Return the record of a governance event such as `approval.granted`; `more` are other fields of the record.

    >>> from metier.guard import Actor
    >>> record = governance_record("approval.denied", actor=Actor(user="sam"), skill="pdf@acme", reason="Not yet.")
    >>> record.decision, record.user, record.event
    ('deny', 'sam', 'approval')
    """
    given: dict[str, Any] = {
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "event": type.partition(".")[0],
        "decision": "deny" if type.endswith(_REFUSING) else "allow",
        **actor_fields(actor),
    }
    return AuditRecord(type=type, reason=reason, **{**given, **more})
