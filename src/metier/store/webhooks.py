"""Webhooks of a tenant, and the deliveries to them: each is made once, and sent by one process at a time.

Boundary: a webhook counts as the audit log has it. A row that was put there or changed by anything else is no webhook:
it would be sent records, or let people decide whom nobody named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import dataclass, field, replace
from metier.store.audit_log import AuditTable
from metier.store.rows import Table, new_id, now, require_key, terms_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from metier.store.rows import TenantRows
    from metier.store.state import RecordedDecisions

WebhookStatus: TypeAlias = Literal["active", "paused", "gone"]
DeliveryStatus: TypeAlias = Literal["pending", "delivered", "failed"]
_NEXT = (
    "SELECT {} FROM deliveries WHERE tenant = ? AND webhook = ? AND status = 'pending' AND next_at <= ? "
    "ORDER BY at, id LIMIT 1"
)
_POSTPONE = (
    "UPDATE deliveries SET next_at = ? "
    "WHERE tenant = ? AND webhook = ? AND id <> ? AND status = 'pending' AND next_at < ?"
)
_PRUNE = "DELETE FROM deliveries WHERE tenant = ? AND status <> 'pending' AND at < ?"
_PAGE = "SELECT {} FROM deliveries WHERE tenant = ? AND webhook = ?{} ORDER BY at DESC, id DESC LIMIT ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An address of a receiver that is told of events."""

    id: str = ""
    """Set by the store."""
    url: str
    form: str
    events: tuple[str, ...]
    secret: str = field(repr=False)
    """The key of the signatures of deliveries."""
    credential: str = field(default="", repr=False)
    """The token for the receiver, or the key by which the receiver signs its own requests."""
    people: Mapping[str, str] = field(default_factory=dict)
    """The names of people by their ids at the receiver, for decisions that are taken there."""
    status: WebhookStatus = "active"
    cursor: int = 0
    """The number of the last audit record whose deliveries are made."""
    by: str = ""
    at: str = ""

    @property
    def terms(self) -> str:
        """The digest of all that the record of a webhook vouches for."""
        people = sorted(self.people.items())
        return terms_of(self.id, self.url, self.form, self.events, self.secret, self.credential, people)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message to a webhook, and how far it is."""

    id: str = ""
    """Set by the store."""
    webhook: str
    event: str
    payload: str
    """The message as JSON, before it has the form of the webhook."""
    status: DeliveryStatus = "pending"
    attempts: int = 0
    next_at: str = ""
    """The time of the next attempt; while one is under way, the time when it counts as lost."""
    gives_up_at: str = ""
    """The time after which nothing is tried any more; "" for never."""
    response: str = ""
    """The last answer."""
    at: str = ""


_WEBHOOKS = Table(name="webhooks", record=Webhook, order=("at", "number", "id"), json={"events": tuple, "people": dict})
_DELIVERIES = Table(name="deliveries", record=Delivery, order=("at", "id"))


class Webhooks:
    """The webhooks of a tenant."""

    def __init__(self, rows: TenantRows, decisions: Callable[[], RecordedDecisions]) -> None:
        self._rows = rows
        self._decisions = decisions
        self._log = AuditTable(rows)

    def add(self, webhook: Webhook, record: Mapping[str, Any]) -> Webhook:
        """Add a webhook, whose record has the notes that follow its id."""
        require_key("address", webhook.url)
        added = replace(webhook, id=webhook.id or new_id("w"), at=webhook.at or now())
        with self._rows.transaction():
            self._rows.append(_WEBHOOKS, added)
            self._write_record(added, record)
        return added

    def get(self, id: str) -> Webhook | None:  # noqa: A002
        """Return a webhook by its id."""
        return next(iter(self._confirmed(id=id)), None)

    def all(self) -> list[Webhook]:
        """Return all webhooks, the oldest first."""
        return self._confirmed()

    def _confirmed(self, **where: str) -> list[Webhook]:
        with self._rows.snapshot():
            terms = self._decisions().webhooks
            stored = self._rows.select(_WEBHOOKS, **where)
        return [one for one in stored if terms.get(one.id) == one.terms]

    def change(self, webhook: Webhook, record: Mapping[str, Any]) -> bool:
        """Replace what people may change of a webhook; False where it is gone."""
        names = ("url", "form", "events", "secret", "credential", "people", "status")
        row = _WEBHOOKS.to_row(webhook)
        with self._rows.transaction():
            is_there = self._rows.update(_WEBHOOKS, {name: row[name] for name in names}, id=webhook.id)
            if is_there:
                self._write_record(webhook, record)
        return is_there

    def remove(self, webhook: Webhook, record: Mapping[str, Any]) -> bool:
        """Remove a webhook and all deliveries to it; False when there was none."""
        with self._rows.transaction():
            self._rows.delete(_DELIVERIES, webhook=webhook.id)
            was_there = self._rows.delete(_WEBHOOKS, id=webhook.id)
            if was_there:
                self._write_record(webhook, record)
        return was_there

    def _write_record(self, webhook: Webhook, record: Mapping[str, Any]) -> None:
        notes = [webhook.id, *record.get("notes", ())]
        self._log.append({**record, "notes": notes, "terms": webhook.terms})

    def advance(self, webhook: Webhook, until: int, deliveries: Sequence[Delivery] = ()) -> bool:
        """Move the cursor to a record, and add the deliveries up to there; False where another process did so."""
        with self._rows.transaction():
            if not self._rows.update(_WEBHOOKS, {"cursor": until}, id=webhook.id, cursor=webhook.cursor):
                return False
            for one in deliveries:
                self.add_delivery(one)
        return True

    def add_delivery(self, delivery: Delivery) -> Delivery:
        """Add a delivery, which is due at once."""
        moment = now()
        added = replace(delivery, id=delivery.id or new_id("d"), at=moment, next_at=delivery.next_at or moment)
        self._rows.insert(_DELIVERIES, added)
        return added

    def delivery(self, id: str) -> Delivery | None:  # noqa: A002
        """Return a delivery by its id."""
        return self._rows.first(_DELIVERIES, id=id)

    def deliveries(self, webhook: str, *, before: tuple[str, str] | None = None, limit: int) -> list[Delivery]:
        """Return deliveries to a webhook, the newest first, those before the time and id of one."""
        columns = ", ".join(_DELIVERIES.columns)
        sql = _PAGE.format(columns, "" if before is None else " AND (at, id) < (?, ?)")
        return [_DELIVERIES.from_row(row) for row in self._rows.statement(sql, webhook, *(before or ()), limit)]

    def has_pending(self, webhook: str) -> bool:
        """Whether a delivery to a webhook waits or is under way."""
        sql = "SELECT 1 FROM deliveries WHERE tenant = ? AND webhook = ? AND status = 'pending' LIMIT 1"
        return bool(self._rows.statement(sql, webhook))

    def next_due(self, webhook: str, at: str) -> Delivery | None:
        """Return the oldest delivery to a webhook that is due at a time."""
        found = self._rows.statement(_NEXT.format(", ".join(_DELIVERIES.columns)), webhook, at)
        return _DELIVERIES.from_row(found[0]) if found else None

    def claim(self, delivery: Delivery, lost_at: str) -> Delivery | None:
        """Begin an attempt, alone; None where another process did, or it is done. At `lost_at` others may try again."""
        claimed = replace(delivery, attempts=delivery.attempts + 1, next_at=lost_at)
        is_free = self._rows.update(
            _DELIVERIES,
            {"attempts": claimed.attempts, "next_at": lost_at},
            id=delivery.id,
            status="pending",
            attempts=delivery.attempts,
            next_at=delivery.next_at,
        )
        return claimed if is_free else None

    def finish(self, claimed: Delivery, *, status: DeliveryStatus, response: str, next_at: str = "") -> bool:
        """End an attempt; False where it counts as lost, and another one has begun."""
        changes = {"status": status, "response": response, "next_at": next_at}
        return self._rows.update(_DELIVERIES, changes, id=claimed.id, attempts=claimed.attempts, status="pending")

    def postpone(self, delivery: Delivery, until: str) -> None:
        """Let all other deliveries to the same webhook wait, too: its receiver fails."""
        with self._rows.transaction():
            self._rows.change(_POSTPONE, delivery.webhook, delivery.id, until, before=(until,))

    def replay(self, delivery: Delivery, gives_up_at: str) -> Delivery:
        """Begin with a delivery anew, now, whatever became of it; inside of a transaction."""
        again = replace(delivery, status="pending", attempts=0, next_at=now(), gives_up_at=gives_up_at)
        names = ("status", "attempts", "next_at", "gives_up_at")
        self._rows.update(_DELIVERIES, {name: getattr(again, name) for name in names}, id=delivery.id)
        return again

    def prune(self, before: str) -> None:
        """Forget deliveries that ended, and are older than a time."""
        with self._rows.transaction():
            self._rows.change(_PRUNE, before)
