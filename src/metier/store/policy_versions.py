"""The policy of a tenant on a server: its versions, of which the last counts.

A version counts as far as the audit log vouches for it. Where the last one on record is not there as it was written,
nobody knows the policy, and an earlier one, which may be looser, does not count in its place.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.store.audit_log import AuditTable
from metier.store.rows import Table, now, terms_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.store.rows import TenantRows
    from metier.store.state import DecisionReader, RecordedDecisions

_TITLE = "version "
_MAX_DIGITS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVersion:
    """A text that was, or is, the policy of a tenant."""

    number: int
    text: str = ""
    digest: str = ""
    by: str = ""
    reason: str = ""
    at: str = ""
    is_intact: bool = True
    """False where the audit log tells of a text that is not there as it was written; then there is none."""

    @property
    def title(self) -> str:
        """The version as records have it: `version 7`."""
        return f"{_TITLE}{self.number}"

    @property
    def terms(self) -> str:
        """The digest of all that the record of a version vouches for."""
        return terms_of(self.number, self.text, self.by, self.reason, self.at)


_VERSIONS = Table(
    name="policy_versions",
    record=PolicyVersion,
    order=("number",),
    only=("number", "text", "digest", "by", "reason", "at"),
)


def number_of_policy(title: str) -> int:
    """Return the number of a version in a record; 0 for what is no version.

    >>> number_of_policy("version 7"), number_of_policy("name miner")
    (7, 0)
    """
    number = title.removeprefix(_TITLE)
    is_number = title.startswith(_TITLE) and number.isascii() and number.isdecimal() and len(number) <= _MAX_DIGITS
    return int(number) if is_number else 0


def policy_in_force(rows: TenantRows, decisions: RecordedDecisions) -> PolicyVersion | None:
    """Return the version that counts; None where nobody wrote one."""
    recorded = max(map(number_of_policy, decisions.policies), default=0)
    if decisions.fault:
        # A record behind the fault may have been the one of a stricter policy.
        number = max(recorded, rows.next_number(_VERSIONS) - 1)
        return PolicyVersion(number=number, is_intact=False) if number else None
    if not recorded:
        return None
    stored = _confirm(rows.first(_VERSIONS, number=recorded), decisions)
    return stored or PolicyVersion(number=recorded, is_intact=False)


def _confirm(version: PolicyVersion | None, decisions: RecordedDecisions) -> PolicyVersion | None:
    if version is None or decisions.policies.get(version.title) != version.terms:
        return None
    return version


class PolicyVersions:
    """The versions of a tenant's policy."""

    def __init__(self, rows: TenantRows, reader: DecisionReader) -> None:
        self._rows = rows
        self._reader = reader
        self._log = AuditTable(rows)

    def add(self, text: str, *, by: str, reason: str = "", record: Mapping[str, Any] | None = None) -> PolicyVersion:
        """Add the next version, which counts from now on; `record` has further fields of the audit record."""
        with self._rows.transaction():
            recorded = max(map(number_of_policy, self._decisions().policies), default=0)
            added = PolicyVersion(
                number=max(self._rows.next_number(_VERSIONS), recorded + 1),
                text=text,
                digest=f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
                by=by,
                reason=reason,
                at=now(),
            )
            self._rows.insert(_VERSIONS, added)
            self._rows.bump()
            content: dict[str, Any] = {
                "timestamp": now(),
                "event": "policy",
                "type": "policy.changed",
                "decision": "allow",
                "user": by,
            }
            content |= {**(record or {}), "reason": reason, "notes": [added.title], "new_digest": added.digest}
            self._log.append({**content, "terms": added.terms})
        return added

    def last(self) -> PolicyVersion | None:
        """Return the version that counts, perhaps without its text; None where nobody wrote one."""
        with self._rows.snapshot():
            return policy_in_force(self._rows, self._decisions())

    def get(self, number: int) -> PolicyVersion | None:
        """Return the version of this number."""
        with self._rows.snapshot():
            return _confirm(self._rows.first(_VERSIONS, number=number), self._decisions())

    def all(self) -> list[PolicyVersion]:
        """Return all versions that the audit log vouches for, the oldest first."""
        with self._rows.snapshot():
            decisions, stored = self._decisions(), self._rows.select(_VERSIONS)
        return [one for one in stored if _confirm(one, decisions) is not None]

    def _decisions(self) -> RecordedDecisions:
        return self._reader.read(self._rows)
