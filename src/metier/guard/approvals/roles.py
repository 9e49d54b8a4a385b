"""Roles of people (viewer, author, reviewer, admin; each includes the ones before it), and refusals for lack of one."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from metier.errors import InvalidArgument, NotPermitted
from metier.hints import for_people
from metier.skill import shown
from metier.store.people import ROLES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from metier.store import Person, TenantScope

_ALIASES = {"skill-admin": "admin"}


def parse_role(text: str) -> str:
    """The role that a text names; raises `InvalidArgument` where it names none.

    >>> parse_role("skill-admin")
    'admin'
    """
    role = _ALIASES.get(text, text)
    if role not in ROLES:
        raise InvalidArgument(f"{shown(text)!r} is no role.", hint=f"Roles are {', '.join(ROLES)}.")
    return role


def has_role(person: Person, role: str) -> bool:
    """Whether a person has a role, or one that includes it.

    >>> from metier.store import Person
    >>> has_role(Person(name="ada", roles=frozenset({"admin"})), "reviewer")
    True
    """
    least = _rank(role)
    return least >= 0 and any(_rank(own) >= least for own in person.roles)


def _rank(role: str) -> int:
    role = _ALIASES.get(role, role)
    return ROLES.index(role) if role in ROLES else -1


def require_role(person: Person, role: str, what: str) -> None:
    """Raise `NotPermitted` unless a person has a role; `what` is the thing they want to do, `quarantine a skill`."""
    if not has_role(person, role):
        raise NotPermitted(
            f"{shown(person.name)!r} may not {what}: that takes the role {role}.",
            hint=for_people("Ask somebody with the role {role}; `metier user list` shows who has it.", role=role),
            person=person.name,
            role=role,
        )


def is_approver(person: Person, approvers: Collection[str]) -> bool:
    """Whether `approvers` of a policy file include a person: `role:reviewer`, `user:ada`, `agent:robot`.

    A role never includes an agent: a model that decides about skills is named by itself, or not at all.

    >>> from metier.store import Person
    >>> robot = Person(name="robot", kind="agent", roles=frozenset({"admin"}))
    >>> is_approver(robot, ["role:admin"]), is_approver(robot, ["agent:robot"])
    (False, True)
    """
    if person.kind == "agent":
        return f"agent:{person.name}" in approvers
    return any(
        text == f"user:{person.name}" or (text.startswith("role:") and has_role(person, text.removeprefix("role:")))
        for text in approvers
    )


@contextlib.contextmanager
def recording_refusals(scope: TenantScope, person: Person, subject: str, **more: Any) -> Iterator[None]:
    """Run the body in one transaction; a `NotPermitted` is recorded after it, as the transaction is rolled back.

    The record has the type `subject.refused`, with the fields of the error's `about`, if it has any.
    """
    try:
        with scope.transaction():
            yield
    except NotPermitted as error:
        from metier.guard.audit.governance_events import actor_of, record_event

        about = error.context.pop("about", {})
        refused = {"reason": error.message, "decision": "deny", "code": error.code}
        record_event(scope, f"{subject}.refused", actor_of(person, scope), **{**refused, **more, **dict(about)})  # type: ignore[call-overload]
        raise
