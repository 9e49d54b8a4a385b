"""Restrictions that a restore must not loosen: blocks, refusals, revocations, lost roles and revoked tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from metier._lazy import dataclass, field, fields
from metier.store.all_tenants import every_reason, every_row
from metier.store.approvals import APPROVALS
from metier.store.blocks import BLOCKS
from metier.store.people import ROLES
from metier.store.rows import now, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from metier.store.connection_pool import ConnectionPool
    from metier.store.store import Store

    Row: TypeAlias = Mapping[str, Any]
    Key: TypeAlias = tuple[str, ...]

Kept = TypeVar("Kept")

_KEYS = {
    "blocks": ("tenant", "kind", "value"),
    "approvals": ("tenant", "id"),
    "approval_requests": ("tenant", "id"),
    "people": ("tenant", "name"),
    "tokens": ("tenant", "id"),
}
_PERSON = {"people": "name", "tokens": "person"}
"""The column of the person that a row is about."""
_FREEDOM = {"agent": 0, "service": 1, "user": 2}
"""The kinds of people, those first who may do less with the same role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBlock:
    """A block that a backup does not have."""

    tenant: str
    kind: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDecision:
    """A revoked approval or a refusal that a backup does not have."""

    tenant: str
    decision: Literal["revoked", "denied"]
    id: str
    skill: str
    """`name@source`."""
    digest: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPerson:
    """A person who may do less than a backup says, or who stays because nobody else would be left."""

    tenant: str
    name: str
    kind: str
    state: Literal["removed", "lowered", "admin"]
    roles: tuple[str, ...] = ()
    """The roles from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptToken:
    """A token that is valid in a backup and was revoked since, or belongs to a person who was removed."""

    tenant: str
    id: str
    person: str
    label: str


@dataclass(slots=True, kw_only=True)
class KeptRestrictions:
    """The restrictions of a store that a backup does not have."""

    blocks: list[KeptBlock] = field(default_factory=list)
    decisions: list[KeptDecision] = field(default_factory=list)
    people: list[KeptPerson] = field(default_factory=list)
    tokens: list[KeptToken] = field(default_factory=list)
    rows: dict[str, dict[Key, Row]] = field(default_factory=lambda: {table: {} for table in _KEYS})
    """The rows of these restrictions, by table and key."""
    gone: set[Key] = field(default_factory=set)
    """Tenant and name of the people in the backup who stay removed, with all of their tokens."""

    def over(self, table: str, saved: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows of a backup's table, with stricter rows in place of theirs or after them.

        >>> row = {"tenant": "", "id": "a-1", "revoked_at": "2026-01-01"}
        >>> kept = KeptRestrictions(rows={"approvals": {("", "a-1"): row}})
        >>> list(kept.over("approvals", [{"tenant": "", "id": "a-1", "revoked_at": ""}])) == [row]
        True
        """
        left, person = dict(self.rows.get(table, {})), _PERSON.get(table)
        for row in saved:
            if person is not None and (row["tenant"], row[person]) in self.gone:
                continue
            yield (left.pop(_key(table, row), row)) if left else row
        yield from left.values()


def restrictions_since(store: Store, saved: Callable[[str], Iterable[Row]]) -> KeptRestrictions:
    """Return the restrictions of a store that the rows of a backup do not have, inside of a transaction."""
    kept = KeptRestrictions()
    _add_decisions(kept, store, saved)
    stay, removed = _add_people(kept, store, saved("people"))
    _add_tokens(kept, store, saved("tokens"), removed, stay)
    return kept


def _add_decisions(kept: KeptRestrictions, store: Store, saved: Callable[[str], Iterable[Row]]) -> None:
    scopes = [store.of(tenant) for tenant in store.tenants()]
    blocked = {_key("blocks", row) for row in saved("blocks")}
    for scope in scopes:
        for block in scope.blocks.all():
            row = {**BLOCKS.to_row(block), "tenant": scope.tenant}
            if _key("blocks", row) not in blocked:
                kept.rows["blocks"][_key("blocks", row)] = row
                kept.blocks.append(_from_row(KeptBlock, row))
    decided = (
        {**APPROVALS.to_row(one), "number": 0, "tenant": scope.tenant}
        for scope in scopes
        for one in scope.approvals.all()
    )
    against: dict[Key, Row] = {_key("approvals", row): row for row in decided if not _grants(row)}
    before = {key: row for row in saved("approvals") if (key := _key("approvals", row)) in against}
    decisions = {key: row for key, row in against.items() if _is_looser(before.get(key), row)}
    kept.rows["approvals"] = dict(decisions)
    kept.rows["approval_requests"] = _answered_requests(store.pool, decisions.values())
    for one in decisions.values():
        decision, reason = ("denied", "reason") if _refuses(one) else ("revoked", "revoked_reason")
        kept.decisions.append(_from_row(KeptDecision, {**one, "decision": decision, "reason": one[reason]}))


def _key(table: str, row: Row) -> Key:
    return tuple(row[name] for name in _KEYS[table])


def _grants(approval: Row) -> bool:
    return approval["decision"] == "approved" and not approval["revoked_at"]


def _refuses(approval: Row) -> bool:
    return approval["decision"] != "approved" and not approval["revoked_at"]


def _is_looser(saved: Row | None, approval: Row) -> bool:
    """Return whether a backup allows what was decided against; a saved refusal that was revoked is not stricter."""
    if _refuses(approval):
        return saved is None or not _refuses(saved)
    return saved is not None and _grants(saved)


def _answered_requests(pool: ConnectionPool, decisions: Iterable[Row]) -> dict[Key, Row]:
    """Return the refused requests: their authors must be known, because they may not revoke the refusal."""
    wanted = {(row["tenant"], row["request"]) for row in decisions if _refuses(row)}
    if not wanted:
        return {}
    found = {_key("approval_requests", row): row for row in every_row(pool, "approval_requests")}
    # A pending request has no answer yet, and there is at most one for a content.
    return {key: found[key] for key in wanted if key in found and found[key]["status"] != "pending"}


def _add_people(kept: KeptRestrictions, store: Store, saved: Iterable[Row]) -> tuple[Collection[Key], set[Key]]:
    """Add people who have lost roles; returns the admins who stay, and everybody who was ever removed.

    Not every missing person was removed: a store may have been made anew. So the audit log has to say it.
    """
    reasons = every_reason(store.pool, "person.removed")  # such as `user ada`
    removed: set[Key] = {(tenant, reason.partition(" ")[2]) for tenant, reason in reasons}
    known = _recorded_people(store)
    left: dict[Key, Row] = {}
    for row in saved:
        key = _key("people", row)
        standing = known.get(key)
        if standing is not None:
            left[key] = _lower(row, standing)
            if left[key] is not row:
                kept.rows["people"][key] = left[key]
                kept.people.append(_kept_person(left[key], "lowered"))
        elif key in removed:
            kept.gone.add(key)
            kept.people.append(_kept_person({**row, "roles": "[]"}, "removed"))
        else:
            left[key] = row
    # Without people, a store would belong to anybody with access to it: a tenant without an admin keeps its own.
    managed = {row["tenant"] for row in left.values() if _is_admin(row)}
    stay = {key: row for key, row in known.items() if _is_admin(row) and row["tenant"] not in managed}
    kept.rows["people"] |= stay
    kept.people += [_kept_person(row, "admin") for row in stay.values()]
    return stay.keys(), removed


def _add_tokens(
    kept: KeptRestrictions, store: Store, saved: Iterable[Row], removed: Collection[Key], stay: Collection[Key]
) -> None:
    valid: set[Key] = {(tenant, one.id) for tenant in store.tenants() for one in store.of(tenant).people.tokens()}
    known = {key: row for row in every_row(store.pool, "tokens") if (key := _key("tokens", row)) in valid}
    revoked = {(tenant, reason.partition(" ")[0]) for tenant, reason in every_reason(store.pool, "token.revoked")}
    for row in saved:
        key, owner = _key("tokens", row), (row["tenant"], row["person"])
        standing = known.pop(key, None)
        if row["revoked_at"] or owner in kept.gone:
            continue
        revoked_at = standing["revoked_at"] if standing is not None else ""
        if key in revoked or (standing is None and owner in removed):
            revoked_at = revoked_at or now()
        if revoked_at:
            kept.rows["tokens"][key] = {**row, "revoked_at": revoked_at}
            kept.tokens.append(_from_row(KeptToken, row))
    # An admin who is known by a token alone could not let others in without it.
    kept.rows["tokens"] |= {key: row for key, row in known.items() if (row["tenant"], row["person"]) in stay}


def _recorded_people(store: Store) -> dict[Key, Row]:
    """Return everybody with the roles of the audit log: their row may say otherwise, or be gone.

    A person without a record is unknown, and must not become known by staying.
    """
    added = {_key("people", row): row["added_at"] for row in every_row(store.pool, "people")}
    found: dict[Key, Row] = {}
    for tenant in store.tenants():
        for name, title in store.of(tenant).recorded_decisions().people.items():
            kind, _, roles = title.partition(f" {name}: ")
            row = {"tenant": tenant, "name": name, "kind": kind, "roles": to_json([*filter(None, roles.split(", "))])}
            found[tenant, name] = {**row, "added_at": added.get((tenant, name), "")}
    return found


def _lower(saved: Row, standing: Row) -> Row:
    """Return the lower of two kinds and roles; the saved row itself where that is no more than the current one."""
    kind = min(saved["kind"], standing["kind"], key=lambda kind: _FREEDOM.get(kind, len(_FREEDOM)))
    roles = min(saved["roles"], standing["roles"], key=_rank)
    if (kind, roles) == (saved["kind"], saved["roles"]):
        return saved
    return {**standing, "kind": kind, "roles": roles}


def _is_admin(person: Row) -> bool:
    return person["kind"] == "user" and "admin" in parse_roles(person["roles"])


def _rank(written: str) -> int:
    """Return how much roles allow: each includes those before it."""
    return max((ROLES.index(role) for role in parse_roles(written)), default=-1)


def parse_roles(written: str) -> list[str]:
    """Return the roles in a column; the author of a backup may have written anything there."""
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        return []
    return [role for role in found if role in ROLES] if isinstance(found, list) else []


def _kept_person(row: Row, state: Literal["removed", "lowered", "admin"]) -> KeptPerson:
    return _from_row(KeptPerson, {**row, "state": state, "roles": tuple(parse_roles(row["roles"]))})


def _from_row(kind: type[Kept], row: Row) -> Kept:
    return kind(**{one.name: row[one.name] for one in fields(kind)})  # type: ignore[arg-type]
