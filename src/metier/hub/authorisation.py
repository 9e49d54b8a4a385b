"""The right to change skills: of people by their roles, of agents only as far as a policy lets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from metier.errors import MetierError, NotPermitted
from metier.guard import Action
from metier.guard.approvals.roles import require_role
from metier.guard.audit.governance_events import actor_of, record_refusal
from metier.guard.decision_context import DecisionContext
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard import Actor, Subject
    from metier.guard.governance import Governance
    from metier.guard.policy.rules import PolicyRule
    from metier.store import Person, TenantScope

_MAY_LOOSEN = ("enterprise", "personal")
"""The layers whose policy may loosen; that of a project can only tighten."""


def rule_for_agent(
    governance: Governance, point: Literal["apply", "install"], subject: Subject, actor: Actor
) -> PolicyRule | None:
    """The rule that lets an agent decide: one that allows this very point and names agents.

    `{point: apply, agent: reviewer, effect: allow}` lets the agent `reviewer` decide about proposals of others,
    `{point: install, agent: builder, effect: allow}` lets `builder` make new skills without anybody.
    """
    action = Action(point=point, skill=subject, by="model")
    context = DecisionContext(action=action, actor=actor, governance=governance)
    for rule in context.effective.rules:
        if rule.effect != "allow" or point not in rule.points or not rule.agent:
            continue
        if rule.origin is None or rule.origin.layer not in _MAY_LOOSEN:
            continue
        try:
            if rule.is_about(context) and rule.holds(context):
                return rule
        except MetierError:
            continue  # what cannot be told does not allow
    return None


def demand_of_person(person: Person, role: str, what: str) -> None:
    """Raise `NotPermitted` unless somebody has a role and is no agent; records nothing."""
    if person.kind == "agent":
        raise NotPermitted(
            f"{shown(person.name)!r} is an agent, and only a person may {what}.",
            hint="Make a proposal, and let a person decide.",
            person=person.name,
        )
    require_role(person, role, what)


def require_person(scope: TenantScope, person: Person, role: str, what: str, *, type: str, skill: str) -> None:  # noqa: A002
    """Raise `NotPermitted` unless somebody has a role and is no agent; `type` is what they tried, for the record."""
    try:
        demand_of_person(person, role, what)
    except NotPermitted as error:
        said = {"reason": error.message, "decision": "deny", "code": error.code}
        record_refusal(scope, type, actor_of(person, scope), skill, **said)
        raise
