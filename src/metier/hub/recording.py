"""What the audit trail says about proposals, versions and deployments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from metier.guard import Actor
from metier.guard.audit.records import governance_record

if TYPE_CHECKING:
    from metier.store import Person, Scope


def actor_of(person: Person, scope: Scope, environment: str = "") -> Actor:
    """Who acts, for the tenant whose records they act on, and in which environment if that is known."""
    who = Actor(tenant=scope.tenant or None, environment=environment or None)
    return replace(who, agent=person.name) if person.kind == "agent" else replace(who, user=person.name)


def keep_record(scope: Scope, type: str, actor: Actor, skill: str, **more: Any) -> None:  # noqa: A002
    """Record what became of a skill, `name@source`, in the transaction that is under way."""
    name, _, source = skill.partition("@")
    given = {"source": source, "tenant": scope.tenant or None, **more}
    scope.audit.append(governance_record(type, actor=actor, skill=name, **given).as_dict())


def keep_refusal(scope: Scope, tried: str, actor: Actor, skill: str, **more: Any) -> None:
    """Record that something did not happen that was tried: `proposal.approved` becomes a `proposal.refused`."""
    keep_record(scope, f"{tried.partition('.')[0]}.refused", actor, skill, **more, notes=(f"tried {tried}",))
