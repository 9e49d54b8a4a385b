"""What people do about skills, as the audit trail says it: who they are, and a record in the transaction under way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from metier.guard.audit.log import governance_record
from metier.guard.decision import Actor
from metier.guard.notify import note_pending

if TYPE_CHECKING:
    from metier.store import Person, TenantScope


def actor_of(person: Person, scope: TenantScope, environment: str = "") -> Actor:
    """Who acts, for the tenant whose records they act on, and in which environment if that is known.

    >>> import tempfile
    >>> from metier.store import Person, Store
    >>> with Store.open(f"sqlite:///{tempfile.mkdtemp()}/metier.db") as store:
    ...     actor = actor_of(Person(name="robot", kind="agent"), store.of("acme"))
    >>> actor.agent, actor.user, actor.tenant
    ('robot', None, 'acme')
    """
    who = Actor(tenant=scope.tenant or None, environment=environment or None)
    return replace(who, agent=person.name) if person.kind == "agent" else replace(who, user=person.name)


def record_event(scope: TenantScope, type: str, actor: Actor, ref: str = "", **more: Any) -> None:  # noqa: A002
    """Record what happened, in the transaction that is under way; `ref` is the skill it is about, `name@source`.

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
    """The record of something that happened, for what the store writes down together with it."""
    given: dict[str, Any] = {"tenant": scope.tenant or None}
    if ref:
        given["skill"], _, given["source"] = ref.partition("@")
    return governance_record(type, actor=actor, **{**given, **more}).as_dict()


def record_refusal(scope: TenantScope, tried: str, actor: Actor, ref: str, **more: Any) -> None:
    """Record that something did not happen that was tried: `proposal.approved` becomes a `proposal.refused`."""
    record_event(scope, f"{tried.partition('.')[0]}.refused", actor, ref, **more, notes=(f"tried {tried}",))
