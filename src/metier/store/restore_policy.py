"""What was taken from people since a backup was made: whoever brings it back does not give it to them again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier.store.codec import now, to_json
from metier.store.people import ROLES
from metier.store.rows import every_record, every_row

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from metier.store.connection_pool import ConnectionPool
    from metier.store.store import Store

    Row: TypeAlias = Mapping[str, Any]
    Key: TypeAlias = tuple[str, ...]

_FREEDOM = {"agent": 0, "service": 1, "user": 2}
"""What somebody is, those first who may do less with the same role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPerson:
    """Somebody who may do less than a backup says, or who stays because nobody else would be left."""

    tenant: str
    name: str
    kind: str
    state: Literal["removed", "lowered", "admin"]
    roles: tuple[str, ...] = ()
    """Those that they have now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptToken:
    """A token that counts in a backup, and was revoked since, or went with whom it belonged to."""

    tenant: str
    id: str
    person: str
    label: str


@dataclass(slots=True)
class Withheld:
    """What a backup says of people and their tokens and what is not done, and what is kept instead."""

    people: list[KeptPerson] = field(default_factory=list)
    tokens: list[KeptToken] = field(default_factory=list)
    people_rows: dict[Key, Row] = field(default_factory=dict)
    token_rows: dict[Key, Row] = field(default_factory=dict)
    gone: set[Key] = field(default_factory=set)
    """Tenant and name of those whom the backup has and who stay removed."""


def withheld_since(store: Store, saved: Callable[[str], Iterable[Row]]) -> Withheld:
    """The roles and tokens that people have lost since the rows were saved, inside of a transaction.

    Not everybody who is missing was removed: a store may have been made anew. So the audit trail has to say it.
    """
    found, removed, known = Withheld(), _removed(store.driver), _known(store)
    left: dict[Key, Row] = {}
    for row in saved("people"):
        key, standing = _person(row), known.get(_person(row))
        if standing is not None:
            left[key] = _lower(row, standing)
            if left[key] is not row:
                found.people_rows[key] = left[key]
                found.people.append(_kept(left[key], "lowered"))
        elif key in removed:
            found.gone.add(key)
            found.people.append(_kept({**row, "roles": "[]"}, "removed"))
        else:
            left[key] = row
    stay = _left_in_charge(known, left.values())
    found.people_rows |= stay
    found.people += [_kept(row, "admin") for row in stay.values()]
    _add_tokens(found, store, saved("tokens"), removed, stay.keys())
    return found


def _add_tokens(
    found: Withheld, store: Store, saved: Iterable[Row], removed: Collection[Key], stay: Collection[Key]
) -> None:
    counting = {(tenant, one.id) for tenant in store.tenants() for one in store.of(tenant).people.tokens()}
    every = {(row["tenant"], row["id"]): row for row in every_row(store.driver, "tokens")}
    known = {key: row for key, row in every.items() if key in counting}
    revoked = {(tenant, reason.partition(" ")[0]) for tenant, reason in _reasons(store.driver, "token.revoked")}
    for row in saved:
        key, owner = (row["tenant"], row["id"]), (row["tenant"], row["person"])
        standing = known.pop(key, None)
        if row["revoked_at"] or owner in found.gone:
            continue
        revoked_at = standing["revoked_at"] if standing is not None else ""
        if key in revoked or (standing is None and owner in removed):
            revoked_at = revoked_at or now()
        if revoked_at:
            found.token_rows[key] = {**row, "revoked_at": revoked_at}
            found.tokens.append(KeptToken(tenant=row["tenant"], id=row["id"], person=row["person"], label=row["label"]))
    # Somebody who is known by a token alone could not let others in without it.
    found.token_rows |= {key: row for key, row in known.items() if (row["tenant"], row["person"]) in stay}


def _removed(driver: ConnectionPool) -> set[Key]:
    """Tenant and name of everybody who ever was removed, as `user ada` in the records of it says."""
    return {(tenant, reason.partition(" ")[2]) for tenant, reason in _reasons(driver, "person.removed")}


def _reasons(driver: ConnectionPool, type: str) -> Iterator[tuple[str, str]]:  # noqa: A002
    for tenant, record in every_record(driver, type):
        if isinstance(record.get("reason"), str):
            yield tenant, record["reason"]


def _known(store: Store) -> dict[Key, Row]:
    """Everybody, and what they may do by the audit trail: their row may say otherwise, or be gone.

    Who has no record is nobody, and must not become somebody by staying.
    """
    added = {_person(row): row["added_at"] for row in every_row(store.driver, "people")}
    found: dict[Key, Row] = {}
    for tenant in store.tenants():
        for name, title in store.of(tenant).ledger().people.items():
            kind, _, roles = title.partition(f" {name}: ")
            row = {"tenant": tenant, "name": name, "kind": kind, "roles": to_json([*filter(None, roles.split(", "))])}
            found[tenant, name] = {**row, "added_at": added.get((tenant, name), "")}
    return found


def _left_in_charge(known: Mapping[Key, Row], left: Iterable[Row]) -> dict[Key, Row]:
    """The admins of each tenant that would have none: without people, a store is anybody's who gets hold of it."""
    managed = {row["tenant"] for row in left if _is_admin(row)}
    return {key: row for key, row in known.items() if _is_admin(row) and row["tenant"] not in managed}


def _lower(saved: Row, standing: Row) -> Row:
    """What both say that somebody may do; what was saved itself where that is no more than what they may do now."""
    kind = min(saved["kind"], standing["kind"], key=lambda kind: _FREEDOM.get(kind, len(_FREEDOM)))
    roles = min(saved["roles"], standing["roles"], key=_rank)
    if (kind, roles) == (saved["kind"], saved["roles"]):
        return saved
    return {**standing, "kind": kind, "roles": roles}


def _is_admin(person: Row) -> bool:
    return person["kind"] == "user" and "admin" in roles_in(person["roles"])


def _rank(written: str) -> int:
    """How much roles allow: each includes those before it."""
    return max((ROLES.index(role) for role in roles_in(written)), default=-1)


def roles_in(written: str) -> list[str]:
    """Roles as a column has them; whoever made a backup may have written anything there."""
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        return []
    return [role for role in found if role in ROLES] if isinstance(found, list) else []


def _person(row: Row) -> Key:
    return row["tenant"], row["name"]


def _kept(row: Row, state: Literal["removed", "lowered", "admin"]) -> KeptPerson:
    return KeptPerson(
        tenant=row["tenant"], name=row["name"], kind=row["kind"], state=state, roles=tuple(roles_in(row["roles"]))
    )
