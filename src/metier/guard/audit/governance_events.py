"""Governance events: audit records of what people and agents decide about skills."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from metier.guard.audit.log import AuditRecord
from metier.guard.decision import Actor
from metier.guard.notify import note_pending

if TYPE_CHECKING:
    from metier.store import Person, TenantScope

_REFUSING = (".denied", ".refused", ".rejected", ".failed")


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
    note_pending(scope, type, actor, more)
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


def governance_record(
    type: str,  # noqa: A002
    *,
    actor: Actor,
    skill: str = "",
    digest: str = "",
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
        "agent": actor.agent,
        "task": actor.task,
        "tenant": actor.tenant,
        "environment": actor.environment or "",
        "user": actor.user,
        "session": actor.session,
        "correlation_id": actor.correlation_id,
        "parent": actor.parent,
        "model": actor.model,
    }
    return AuditRecord(type=type, skill=skill, digest=digest, reason=reason, **{**given, **more})
