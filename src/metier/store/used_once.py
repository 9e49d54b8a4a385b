"""Values that count once, so that nobody can send them a second time."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.store.rows import Table, now

if TYPE_CHECKING:
    from metier.store.rows import TenantRows


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedValue:
    """A value that was used, of which only the hash is kept."""

    digest: str
    expires_at: str


_USED = Table(name="used_once", record=UsedValue, order=("digest",))


class UsedOnce:
    """The values of a tenant that were used, for all processes of a server."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def take(self, value: str, *, expires_at: str) -> bool:
        """Return whether a value is used for the first time; it is remembered until it would not count anyway."""
        used = UsedValue(digest=hashlib.sha256(value.encode()).hexdigest(), expires_at=expires_at)
        with self._rows.transaction():
            self._rows.change("DELETE FROM used_once WHERE tenant = ? AND expires_at < ?", now())
            return self._rows.insert(_USED, used, unless_there=True)
