"""What was forbidden since a backup was made: it stays so when the backup is brought back, which loosens nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier.store.codec import to_row
from metier.store.restore_policy import withheld_since
from metier.store.rows import every_row

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from metier.store.connection_pool import ConnectionPool
    from metier.store.restore_policy import KeptPerson, KeptToken
    from metier.store.scope import TenantScope
    from metier.store.store import Store

    Row: TypeAlias = Mapping[str, Any]
    Key: TypeAlias = tuple[str, ...]

_KEYS = {
    "blocks": ("tenant", "kind", "value"),
    "approvals": ("tenant", "id"),
    "approval_requests": ("tenant", "id"),
    "people": ("tenant", "name"),
    "tokens": ("tenant", "id"),
}
_PERSON = {"people": "name", "tokens": "person"}
"""Where a row says who it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBlock:
    """A block of the store as it was before a backup was brought back."""

    tenant: str
    kind: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDecision:
    """An approval that had been revoked, or a refusal, before a backup was brought back that knows nothing of it."""

    tenant: str
    decision: Literal["revoked", "denied"]
    id: str
    skill: str
    """`name@source`."""
    digest: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forbidden:
    """What a store forbids and a backup does not."""

    blocks: tuple[KeptBlock, ...] = ()
    decisions: tuple[KeptDecision, ...] = ()
    people: tuple[KeptPerson, ...] = ()
    tokens: tuple[KeptToken, ...] = ()
    rows: Mapping[str, Mapping[Key, Row]] = field(default_factory=dict)
    """The rows that say so, by table and key."""
    gone: Collection[Key] = ()
    """Tenant and name of those who stay removed, with all of their tokens."""

    def over(self, table: str, saved: Iterable[Row]) -> Iterator[Row]:
        """The rows of a backup's table, with those that forbid more in place of theirs or after them.

        >>> row = {"tenant": "", "id": "a-1", "revoked_at": "2026-01-01"}
        >>> forbidden = Forbidden(rows={"approvals": {("", "a-1"): row}})
        >>> list(forbidden.over("approvals", [{"tenant": "", "id": "a-1", "revoked_at": ""}])) == [row]
        True
        """
        left, person = dict(self.rows.get(table, {})), _PERSON.get(table)
        for row in saved:
            if person is not None and (row["tenant"], row[person]) in self.gone:
                continue
            yield (left.pop(_key(table, row), row)) if left else row
        yield from left.values()


def forbidden_since(store: Store, saved: Callable[[str], Iterable[Row]]) -> Forbidden:
    """The decisions by which a store forbids more than the rows of a backup, inside of a transaction."""
    driver, scopes = store.driver, [store.of(tenant) for tenant in store.tenants()]
    blocked = {_key("blocks", row) for row in saved("blocks")}
    standing = [_row(scope, block) for scope in scopes for block in scope.blocks.all()]
    blocks = {key: row for row in standing if (key := _key("blocks", row)) not in blocked}
    decided = [_row(scope, approval, number=0) for scope in scopes for approval in scope.approvals.all()]
    against = {_key("approvals", row): row for row in decided if not _counts(row)}
    before = {key: row for row in saved("approvals") if (key := _key("approvals", row)) in against}
    decisions = {key: row for key, row in against.items() if _is_looser(before.get(key), row)}
    withheld = withheld_since(store, saved)
    return Forbidden(
        blocks=tuple(
            KeptBlock(tenant=row["tenant"], kind=row["kind"], value=row["value"], reason=row["reason"])
            for row in blocks.values()
        ),
        decisions=tuple(_kept(row) for row in decisions.values()),
        people=tuple(withheld.people),
        tokens=tuple(withheld.tokens),
        rows={
            "blocks": blocks,
            "approvals": decisions,
            "approval_requests": _answered(driver, decisions.values()),
            "people": withheld.people_rows,
            "tokens": withheld.token_rows,
        },
        gone=withheld.gone,
    )


def _row(scope: TenantScope, kept: object, **more: int) -> Row:
    return {**to_row(kept), **more, "tenant": scope.tenant}


def _key(table: str, row: Row) -> Key:
    return tuple(row[name] for name in _KEYS[table])


def _counts(approval: Row) -> bool:
    return approval["decision"] == "approved" and not approval["revoked_at"]


def _is_refusal(approval: Row) -> bool:
    return approval["decision"] != "approved" and not approval["revoked_at"]


def _is_looser(saved: Row | None, approval: Row) -> bool:
    """Whether a backup allows what was decided against; a refusal that it has and that was taken back is no such."""
    if _is_refusal(approval):
        return saved is None or not _is_refusal(saved)
    return saved is not None and _counts(saved)


def _kept(approval: Row) -> KeptDecision:
    is_refusal = _is_refusal(approval)
    return KeptDecision(
        tenant=approval["tenant"],
        decision="denied" if is_refusal else "revoked",
        id=approval["id"],
        skill=approval["skill"],
        digest=approval["digest"],
        reason=approval["reason" if is_refusal else "revoked_reason"],
    )


def _answered(driver: ConnectionPool, decisions: Iterable[Row]) -> dict[Key, Row]:
    """The requests that were refused: who asked must be known, because they may not take back what was said to them."""
    wanted = {(row["tenant"], row["request"]) for row in decisions if _is_refusal(row)}
    if not wanted:
        return {}
    found = {_key("approval_requests", row): row for row in every_row(driver, "approval_requests")}
    # One that waits has no answer yet, and there is at most one such of a content.
    return {key: found[key] for key in wanted if key in found and found[key]["status"] != "pending"}
