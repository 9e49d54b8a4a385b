"""Namespaces of a registry: the people who may publish in each, and the criteria that submissions have to meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.errors import InvalidArgument, NotPermitted, SkillNotFound
from metier.guard.approvals.roles import has_role, is_approver
from metier.guard.audit.governance_events import actor_of, record_event, record_refusal
from metier.hub.authorisation import require_person
from metier.skill import is_valid_name, shown
from metier.store import RegistryNamespace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.store import Person, TenantScope

DEFAULT = "default"
"""The namespace that a registry has from the start: its admins publish in it."""
_KINDS = ("user:", "role:")


def find_namespace(scope: TenantScope, name: str) -> RegistryNamespace:
    """The namespace of a name; raises `SkillNotFound` where there is none."""
    found = scope.namespaces.get(name)
    if found is not None:
        return found
    if name == DEFAULT:
        return RegistryNamespace(name=DEFAULT, owners=("role:admin",))
    raise SkillNotFound(f"There is no namespace {shown(name)!r}.", hint="An admin makes one, and names its owners.")


def list_namespaces(scope: TenantScope) -> list[RegistryNamespace]:
    """All namespaces by name."""
    found = {DEFAULT: find_namespace(scope, DEFAULT)} | {one.name: one for one in scope.namespaces.all()}
    return [found[name] for name in sorted(found)]


def put_namespace(
    scope: TenantScope, person: Person, name: str, owners: Sequence[str], criteria: Sequence[str] = ()
) -> RegistryNamespace:
    """Make a namespace, or change its owners and criteria; takes the role admin."""
    require_person(scope, person, "admin", "change a namespace", type="namespace.changed", skill="")
    if not is_valid_name(name):
        raise InvalidArgument(
            f"{shown(name)!r} is no name for a namespace.", hint="Use a-z, 0-9 and single hyphens, at most 64."
        )
    for owner in owners:
        if not owner.startswith(_KINDS) or not owner.partition(":")[2]:
            raise InvalidArgument(f"{shown(owner)!r} is no owner.", hint="Write user:ada or role:reviewer.")
    with scope.transaction():
        put = scope.namespaces.put(RegistryNamespace(name=name, owners=tuple(owners), criteria=tuple(criteria)))
        notes = (f"namespace {name}", *(f"owner {owner}" for owner in put.owners))
        record_event(scope, "namespace.changed", actor_of(person, scope), notes=notes)
    return put


def is_owner(person: Person, namespace: RegistryNamespace) -> bool:
    """Whether a person may publish in a namespace: one of its owners, or an admin, who could become one."""
    return person.kind != "agent" and (has_role(person, "admin") or is_approver(person, namespace.owners))


def require_owner(scope: TenantScope, person: Person, namespace: RegistryNamespace, *, tried: str, ref: str) -> None:
    """Raise `NotPermitted` unless a person owns a namespace; `tried` is the event that is refused, for the record."""
    if is_owner(person, namespace):
        return
    error = NotPermitted(
        f"{shown(person.name)!r} does not own the namespace {namespace.name!r}.",
        hint="Submit it for review, or ask an owner.",
        person=person.name,
    )
    record_refusal(scope, tried, actor_of(person, scope), ref, reason=error.message, decision="deny", code=error.code)
    raise error
