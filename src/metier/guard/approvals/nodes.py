"""Machines that a server knows: enrolled by people, revoked, and trusted again after their log was changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.errors import InvalidArgument, NotPermitted, PersonNotFound
from metier.guard.approvals.roles import has_role, recording_refusals, require_role
from metier.guard.audit.governance_events import actor_of, event_record
from metier.skill import shown
from metier.store import Person
from metier.store.node_records import RESET
from metier.store.nodes import ManagedNode
from metier.store.rows import new_id, now

if TYPE_CHECKING:
    from metier.store import TenantScope

MAX_NAME = 200


def enrol_node(scope: TenantScope, by: Person, name: str, platform: str = "") -> tuple[ManagedNode, str]:
    """Make a machine a node; it, and the secret of its token, which cannot be shown again.

    The token belongs to the machine: it counts until the node is revoked or the person removed, whatever happens to
    the person's own tokens.
    """
    if not name.strip() or len(name) > MAX_NAME or len(platform) > MAX_NAME:
        raise InvalidArgument(f"The name of a node has 1 to {MAX_NAME} characters.", hint="Name it by its machine.")
    node = ManagedNode(id=new_id("n"), name=name, person=by.name, platform=platform, registered_at=now())
    with recording_refusals(scope, by, "node", notes=(f"node {name}",)):
        require_role(by, "viewer", "make a machine a node")
        actor = actor_of(by, scope)
        scope.people.add(Person(name=node.id, kind="node"), event_record(scope, "person.added", actor))
        record = event_record(scope, "token.made", actor, notes=(name,))
        _, secret = scope.people.new_token(node.id, label=name, record=record)
        scope.nodes.add(node)
        scope.audit.append(_event(scope, by, "node.registered", node))
    return node, secret


def known_node(scope: TenantScope, id: str) -> ManagedNode:  # noqa: A002
    """The node of an id; raises `PersonNotFound` where there is none."""
    found = scope.nodes.get(id)
    if found is None:
        raise PersonNotFound(f"There is no node {shown(id)!r}.", hint="The list of nodes has all of them.")
    return found


def revoke_node(scope: TenantScope, by: Person, id: str) -> ManagedNode:  # noqa: A002
    """Take a machine's token away for good: an admin any, others those that they enrolled themselves."""
    with recording_refusals(scope, by, "node", notes=(f"revoke {id}",)):
        node = known_node(scope, id)
        if node.person != by.name and not has_role(by, "admin"):
            raise NotPermitted(
                f"{shown(by.name)!r} may not revoke {shown(node.name)!r}: another person enrolled it.",
                hint="Ask an admin.",
            )
        _revoke(scope, by, node)
    return known_node(scope, id)


def revoke_nodes_of(scope: TenantScope, by: Person, person: str) -> None:
    """Revoke the nodes of a person who is removed, in the transaction that is under way."""
    for node in scope.nodes.all():
        if node.person == person:
            _revoke(scope, by, node)


def _revoke(scope: TenantScope, by: Person, node: ManagedNode) -> None:
    if node.status != "revoked":
        scope.people.remove(node.id, event_record(scope, "person.removed", actor_of(by, scope)))
        scope.nodes.set_status(node.id, "revoked", node.fault, node.fault_at)
        scope.audit.append(_event(scope, by, "node.revoked", node))


def reset_node(scope: TenantScope, by: Person, id: str, reason: str) -> ManagedNode:  # noqa: A002
    """Accept the audit log of a node again, from its first record on; what it sent before stays as it is."""
    with recording_refusals(scope, by, "node", notes=(f"reset {id}",)):
        require_role(by, "admin", "accept the audit log of a node again")
        node = known_node(scope, id)
        if node.status != "tampered":
            raise InvalidArgument(
                f"The audit log of {shown(node.name)!r} is accepted as it is.",
                hint="Only one that was changed begins anew.",
            )
        scope.nodes.begin_anew(node)
        scope.audit.append({**_event(scope, by, RESET, node, reason=reason), "epoch": node.epoch + 1})
    return known_node(scope, id)


def _event(scope: TenantScope, by: Person, type: str, node: ManagedNode, reason: str = "") -> dict[str, Any]:  # noqa: A002
    said = f"{node.id}: {node.name}" if not reason else f"{node.id}: {reason}"
    return {**event_record(scope, type, actor_of(by, scope), reason=said), "node": node.id}
