"""Idempotency keys: requests that were answered, so that each is done once however often it is sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.store.rows import Table, now

if TYPE_CHECKING:
    from metier.store.connection_pool import Value
    from metier.store.rows import TenantRows

_KEPT = timedelta(hours=24)
_OLD = "DELETE FROM idempotency WHERE tenant = ? AND person = ? AND at < ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """A request under the key that its sender gave it, and how it was answered."""

    person: str
    idempotency_key: str
    request: str = ""
    """The digest of the request."""
    status: int = 0
    """0 until it was answered."""
    answer: str = ""
    """The answer, sealed for its sender; "" for one that is not kept."""
    at: str

    @property
    def age(self) -> timedelta:
        """The time since it began."""
        return datetime.now(UTC) - datetime.fromisoformat(self.at)


_REQUESTS = Table(name="idempotency", record=KeyedRequest, order=("at",))


class IdempotencyKeys:
    """The requests of a tenant that came with a key, for a day."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def claim(self, person: str, key: str) -> KeyedRequest | None:
        """Begin a request under a key; returns the one that began under it before, or None where this is the first."""
        with self._rows.transaction():
            self._rows.change(_OLD, person, (datetime.now(UTC) - _KEPT).isoformat(timespec="milliseconds"))
            found = self._rows.first(_REQUESTS, person=person, idempotency_key=key)
            if found is None:
                self._rows.insert(_REQUESTS, KeyedRequest(person=person, idempotency_key=key, at=now()))
            return found

    def finish(self, person: str, key: str, *, request: str, status: int, answer: str) -> bool:
        """Keep the answer to the request that began under a key; False where none did."""
        changes: dict[str, Value] = {"request": request, "status": status, "answer": answer}
        return self._rows.update(_REQUESTS, changes, person=person, idempotency_key=key)

    def release(self, person: str, key: str) -> bool:
        """Let a key be used again, as its request has changed nothing; False where none is under way."""
        return self._rows.delete(_REQUESTS, person=person, idempotency_key=key, status=0)
