"""The policy of a tenant on a server: its versions, of which the last counts."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.store.rows import Table, now

if TYPE_CHECKING:
    from metier.store.rows import TenantRows

_LAST = "SELECT {} FROM policy_versions WHERE tenant = ? ORDER BY number DESC LIMIT 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVersion:
    """A text that was, or is, the policy of a tenant."""

    number: int
    text: str
    digest: str
    by: str
    reason: str = ""
    at: str


_VERSIONS = Table(name="policy_versions", record=PolicyVersion, order=("number",))


class PolicyVersions:
    """The versions of a tenant's policy."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def add(self, text: str, *, by: str, reason: str = "") -> PolicyVersion:
        """Add the next version, which counts from now on; inside of a transaction."""
        last = self.last()
        digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
        number = last.number + 1 if last is not None else 1
        added = PolicyVersion(number=number, text=text, digest=digest, by=by, reason=reason, at=now())
        self._rows.insert(_VERSIONS, added)
        self._rows.bump()
        return added

    def last(self) -> PolicyVersion | None:
        """Return the version that counts; None where nobody wrote one."""
        found = self._rows.statement(_LAST.format(", ".join(_VERSIONS.columns)))
        return _VERSIONS.from_row(found[0]) if found else None

    def all(self) -> list[PolicyVersion]:
        """Return all versions, the oldest first."""
        return self._rows.select(_VERSIONS)
