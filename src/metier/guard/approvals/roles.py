"""Roles: what people may do to the store. Each includes the ones before it: viewer, author, reviewer, admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.errors import InvalidArgument, NotPermitted
from metier.hints import for_people
from metier.skill import shown
from metier.store.people import ROLES

if TYPE_CHECKING:
    from collections.abc import Collection

    from metier.store import Person

_RANKS = {role: rank for rank, role in enumerate(ROLES)} | {"skill-admin": ROLES.index("admin")}
"""`skill-admin` is an admin by another name."""


def parse_role(text: str) -> str:
    """The role that a text names; raises `InvalidArgument` where it names none.

    >>> parse_role("skill-admin")
    'admin'
    """
    rank = _RANKS.get(text)
    if rank is None:
        raise InvalidArgument(f"{shown(text)!r} is no role.", hint=f"Roles are {', '.join(ROLES)}.")
    return ROLES[rank]


def has_role(person: Person, role: str) -> bool:
    """Whether somebody has a role, or one that includes it.

    >>> from metier.store import Person
    >>> has_role(Person(name="ada", roles=frozenset({"admin"})), "reviewer")
    True
    """
    least = _RANKS.get(role)
    return least is not None and any(_RANKS.get(own, -1) >= least for own in person.roles)


def require_role(person: Person, role: str, what: str) -> None:
    """Raise `NotPermitted` unless somebody has a role; `what` is the thing they want to do, `quarantine a skill`."""
    if not has_role(person, role):
        raise NotPermitted(
            f"{shown(person.name)!r} may not {what}: that takes the role {role}.",
            hint=for_people("Ask somebody with the role {role}; `metier user list` shows who has it.", role=role),
            person=person.name,
            role=role,
        )


def is_approver(person: Person, names: Collection[str]) -> bool:
    """Whether a list of a policy file means somebody: `role:reviewer`, `user:ada`, `agent:robot`.

    A role never means an agent: a model that decides about skills is named by itself, or not meant.

    >>> from metier.store import Person
    >>> robot = Person(name="robot", kind="agent", roles=frozenset({"admin"}))
    >>> is_approver(robot, ["role:admin"]), is_approver(robot, ["agent:robot"])
    (False, True)
    """
    if person.kind == "agent":
        return f"agent:{person.name}" in names
    return any(
        text == f"user:{person.name}" or (text.startswith("role:") and has_role(person, text.removeprefix("role:")))
        for text in names
    )
