"""People and their tokens: admins add and remove them, and one admin always stays."""

from __future__ import annotations

import re
import time
import unicodedata
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.errors import InvalidArgument, NotPermitted, PersonNotFound
from metier.guard.approvals.nodes import revoke_nodes_of
from metier.guard.approvals.roles import has_role, parse_role, recording_refusals, require_role
from metier.guard.approvals.status import expiry
from metier.guard.audit.governance_events import actor_of, event_record
from metier.hints import for_people
from metier.skill import shown
from metier.skill.names import is_mixed_script, is_taken_for
from metier.store import Person

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.guard.approvals.status import Clock
    from metier.store import AccessToken, TenantScope
    from metier.store.people import PersonKind

TokenState: TypeAlias = Literal["counts", "expired", "revoked"]
_NAME = re.compile(r"\w[\w.@+\\-]{0,63}")
_MAX_LABEL = 200
_RESERVED = ("metier", "policy", "system")
"""Names in records for those who are no person."""


def deciding_scope(scope: TenantScope) -> TenantScope:
    """The scope of the people who decide for a tenant: its own, or while it has none that of the installation."""
    return scope.store.of() if scope.people.is_empty else scope


def known_person(scope: TenantScope, name: str) -> Person | None:
    """The person of a name who decides for a tenant, or None.

    Until the first person is added, to any tenant, a store belongs to its owner, who may do everything.
    """
    if not scope.store.has_people:
        return Person(name=name, roles=frozenset({"admin"}))
    return deciding_scope(scope).people.get(name)


def may_be_introduced(scope: TenantScope) -> bool:
    """Whether an admin of the whole installation may still make tokens for the people of a tenant.

    The first person of a tenant is known by nothing but a token, and nobody else decides there. So the right lasts
    until one of them has done anything: from then on only they let others in.
    """
    if not scope.tenant or scope.people.is_empty:
        return False
    return not any(scope.audit.search(user=one.name, limit=1) for one in scope.people.all())


def introducer(scope: TenantScope, person: Person | None) -> Person | None:
    """A person of the installation where they may make a tenant's first tokens, else None."""
    return person if person is not None and _is_admin(person) and may_be_introduced(scope) else None


def add_person(
    scope: TenantScope,
    by: Person,
    name: str,
    roles: Iterable[str],
    *,
    kind: PersonKind = "user",
    notes: tuple[str, ...] = (),
) -> Person:
    """Add a person, or change the roles of one; the first must be an admin, or nobody could add more."""
    _require_name(scope, name)
    person = Person(name=name, kind=kind, roles=frozenset(map(parse_role, roles)))
    with recording_refusals(scope, by, "person", notes=(person.title,)):
        require_role(by, "admin", "say who may decide")
        is_first = not scope.store.has_people
        if is_first and (scope.tenant or person.name != by.name or not _is_admin(person)):
            raise InvalidArgument(
                "The first person who is added must be you, as an admin of the whole installation: else nobody could "
                "add others.",
                hint=for_people("Add yourself first: `metier user add {name} --role admin`.", name=shown(by.name)),
            )
        if scope.people.is_empty and not _is_admin(person):
            raise InvalidArgument(
                "The first person of a tenant must be an admin: from then on only its own people decide for it.",
                hint=for_people(
                    "Add an admin first: `metier user add NAME --role admin --tenant {tenant}`.",
                    tenant=shown(scope.tenant),
                ),
            )
        if not _is_admin(person):
            _require_another_admin(scope, name)
        scope.people.add(person, event_record(scope, "person.added", actor_of(by, scope), notes=notes))
    return person


def _require_name(scope: TenantScope, name: str) -> None:
    """Raise `InvalidArgument` for an invalid name, and for one that would be taken for another person's."""
    if not _NAME.fullmatch(name) or unicodedata.normalize("NFKC", name) != name:
        raise InvalidArgument(
            f"{shown(name)!r} cannot be the name of a person.",
            hint="Use letters, digits and . _ @ + -, at most 64 of them, in their plain form.",
        )
    known = {one.name for where in (scope, scope.store.of()) for one in where.people.all()}
    for other in (*sorted(known - {name}), *_RESERVED):
        if is_taken_for(name, other) or is_taken_for(other, name):
            whose = "means Métier itself in records" if other in _RESERVED else "is there already"
            raise InvalidArgument(
                f"{shown(name)!r} would be taken for {shown(other)!r}, which {whose}.", hint="Use another name."
            )
    if is_mixed_script(name):
        raise InvalidArgument(
            f"{shown(name)!r} has letters of several alphabets, of which some look the same.",
            hint="Use letters of one alphabet.",
        )


def remove_person(scope: TenantScope, by: Person, name: str) -> Person:
    """Remove a person and all of their tokens; their approvals stay."""
    with recording_refusals(scope, by, "person", notes=(f"remove {name}",)):
        require_role(by, "admin", "remove people")
        person = scope.people.get(name)
        if person is None:
            raise PersonNotFound(
                f"Nobody is called {shown(name)!r} here.", hint=for_people("`metier user list` shows who is.")
            )
        _require_another_admin(scope, name)
        scope.people.remove(name, event_record(scope, "person.removed", actor_of(by, scope)))
        revoke_nodes_of(scope, by, name)
    return person


def make_token(
    scope: TenantScope,
    by: Person,
    name: str,
    *,
    label: str = "",
    expires: float | None = None,
    clock: Clock = time.time,
) -> tuple[AccessToken, str]:
    """Make a token, and its secret, which cannot be shown again: an admin makes any, others their own.

    A token made by a person who is known by a token ends with that one.
    """
    if len(label) > _MAX_LABEL:
        raise InvalidArgument(f"A label has at most {_MAX_LABEL} characters.", hint="Say it in fewer words.")
    with recording_refusals(scope, by, "token", notes=(f"token of {name}",)):
        if name != by.name:
            require_role(by, "admin", "make a token for somebody else")
        if scope.people.get(name) is None:
            raise PersonNotFound(f"Nobody is called {shown(name)!r} here.", hint=_hint_for_absent(scope, by, name))
        record = event_record(scope, "token.made", actor_of(by, scope), notes=(label,) if label else ())
        ends = expiry(clock(), expires)
        return scope.people.new_token(name, label=label, expires_at=ends, parent=by.token, record=record)


def _hint_for_absent(scope: TenantScope, by: Person, name: str) -> str:
    """The hint for a name that nobody of a tenant has; admins of the installation are told of another tenant's."""
    if not scope.tenant and has_role(by, "admin"):
        for tenant in filter(None, scope.store.tenants()):
            if scope.store.of(tenant).people.get(name) is not None:
                said = "The tenant {tenant!r} has somebody of that name: add `--tenant {tenant}`."
                return for_people(said, tenant=shown(tenant))
    return for_people(
        "`metier user list` shows who is, and `metier user add {name} --role ROLE` adds them.", name=shown(name)
    )


def token_state(token: AccessToken, now: str) -> TokenState:
    """The state of a token at a time."""
    if token.revoked_at:
        return "revoked"
    return "expired" if token.expires_at and token.expires_at <= now else "counts"


def visible_tokens(scope: TenantScope, person: Person) -> list[AccessToken]:
    """The tokens that a person may see: an admin sees all, others their own."""
    require_role(person, "viewer", "see tokens")
    return [one for one in scope.people.tokens() if has_role(person, "admin") or one.person == person.name]


def revoke_token(scope: TenantScope, by: Person, token: str) -> list[AccessToken]:
    """Revoke a token, and the tokens made with it, which are returned too: an admin revokes any, others their own."""
    with scope.transaction():
        found = next((one for one in scope.people.tokens() if one.id == token), None)
        # A person who may not see a token is not told whether there is one.
        if found is None or not (found.person == by.name or has_role(by, "admin")):
            raise PersonNotFound(
                f"There is no token {shown(token)!r}.", hint=for_people("`metier user tokens` shows them.")
            )
        revoked = scope.people.revoke_token(token, event_record(scope, "token.revoked", actor_of(by, scope)))
        if not revoked:
            raise PersonNotFound(
                f"Token {shown(token)} was revoked already.", hint=for_people("`metier user tokens` shows them.")
            )
    return revoked


def _is_admin(person: Person) -> bool:
    return person.kind == "user" and has_role(person, "admin")


def _require_another_admin(scope: TenantScope, name: str) -> None:
    """Raise `NotPermitted` where no admin would be left."""
    admins = [one.name for one in scope.people.all() if _is_admin(one)]
    if admins == [name]:
        raise NotPermitted(
            f"{shown(name)!r} is the only admin: nobody could add or remove anybody.",
            hint=for_people("Make somebody else an admin first: `metier user add NAME --role admin`."),
        )
