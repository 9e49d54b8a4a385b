"""The checks of a node: what its server said last must still hold, and only what it deployed counts as deployed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._paths import is_inside
from metier.guard.decision import issue, refuse
from metier.guard.node.faults import LEASE_ENDED, OFFLINE, STATE_INVALID
from metier.hints import for_people
from metier.skill.tool_rules import canonical_tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metier.guard.decision import Action, Decision
    from metier.guard.decision_context import DecisionContext

_REASONS = {
    STATE_INVALID: "What this node has of its server is missing, or is not what the server signed.",
    LEASE_ENDED: "This node has not reached its server for longer than its lease lasts.",
    OFFLINE: "Policy wants the server to be asked first, and it does not answer.",
}
_HINT = for_people("`metier node status` says what is wrong; `metier node sync` asks the server again.")
_LOOKS = frozenset({"load", "read"})
"""Points that change nothing."""
_READING = frozenset({"read", "grep", "glob", "ls"})
"""Tools that change nothing, and reach nobody."""


def node_standing(context: DecisionContext) -> Iterable[Decision]:
    """Deny what a node that may not rely on its state would do; after its lease, as much as policy says."""
    fault = context.states[-1].fault
    return () if not fault or context.action.is_control else _against_fault(context, fault)


def _against_fault(context: DecisionContext, fault: str) -> Iterator[Decision]:
    outcome = context.effective.nodes_offline if fault == LEASE_ENDED else "deny"
    if outcome == "read-only":
        if _only_reads(context.action):
            return
        outcome = "deny"
    yield issue(
        check=f"nodes.offline: {context.effective.nodes_offline}" if fault == LEASE_ENDED else "node",
        outcome="ask" if outcome == "ask" else "deny",
        reason=_REASONS[fault],
        code="approval-needed" if outcome == "ask" else fault,
        hint=_HINT,
        origin=context.effective.origin("nodes.offline" if fault == LEASE_ENDED else "nodes.online"),
        holds_always=True,
    )


def _only_reads(action: Action) -> bool:
    return action.point in _LOOKS or (action.point == "call" and canonical_tool(action.tool) in _READING)


def undeployed(context: DecisionContext) -> Iterable[Decision]:
    """Deny what lies in the folder of deployed skills and was not deployed by the server."""
    return _against_undeployed(context) if context.states[-1].managed else ()


def _against_undeployed(context: DecisionContext) -> Iterator[Decision]:
    subject, state = context.subject, context.states[-1]
    if subject is None or context.location in state.installs:
        return
    if context.location and is_inside(context.location, state.managed):
        yield refuse(
            check="node",
            reason=f"Skill {subject.name!r} lies where the server deploys skills, and the server did not deploy it.",
            code="skill-denied",
            hint=for_people("`metier node sync` brings exactly what is deployed."),
            holds_always=True,
        )
