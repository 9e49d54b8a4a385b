"""The decisions that the audit trail has: approvals, refusals, quarantines, people and tokens count by it.

A row of a table loosens nothing by itself: what it says counts as far as a record in the chain says the same. A row
that forbids counts without a record, and what a record forbids holds though its row is gone.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from metier._paths import write_file
from metier.store.blobs import make_folder
from metier.store.canonical_json import FIRST, follows
from metier.store.link import is_decision, record_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.store.rows import TenantRows

_BATCH = 1_000
_WORTH_SAVING = 500
"""Records whose verification is worth a file."""
_DECISIONS = ("granted", "against", "blocked", "people", "tokens")
_ALL = "SELECT seq, data_json, prev_hash, hash FROM audit_log WHERE tenant = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecisions:
    """The decisions in the records of one tenant, up to one record."""

    seq: int = 0
    """The last record that was looked at, and that all before it are tied to."""
    hash: str = FIRST
    fault: int = 0
    """The first record that does not fit the one before it; 0 where all do. Nothing loosens from there on."""
    granted: Mapping[str, str] = field(default_factory=dict)
    """The terms of approvals by their id."""
    against: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Refusals and approvals that were revoked, by their id: what the records say of them."""
    blocked: Mapping[str, str] = field(default_factory=dict)
    """What is in quarantine, as `kind value`, and why."""
    people: Mapping[str, str] = field(default_factory=dict)
    """What people are, and what they may do, by their name: `user ada: admin`."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """The terms of tokens by their id."""

    def decides_as(self, earlier: RecordedDecisions) -> bool:
        """Whether it is an earlier one with records behind it that decide nothing about skills."""
        is_same = self.granted is earlier.granted and self.against is earlier.against
        return is_same and self.blocked is earlier.blocked and not self.fault


def terms_of(*parts: object) -> str:
    """A digest of all that a row says, for the record that vouches for it.

    >>> terms_of("a-1", ["scripts"]) == terms_of("a-1", ["scripts", "hooks"])
    False
    """
    text = json.dumps(parts, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


class DecisionReader:
    """The ledgers of a store, each verified once: from the first record on, and then from where it was left.

    In `folder`, which must be out of reach of those who can write to the database, they outlast the process.
    """

    def __init__(self, store: str) -> None:
        self._store = store
        self._kept: dict[str, RecordedDecisions] = {}
        self._saved: dict[str, int] = {}
        self.folder: str | None = None

    def of(self, rows: TenantRows) -> RecordedDecisions:
        """The ledger of a tenant as it is now."""
        kept = self._kept.get(rows.tenant) or self._read(rows.tenant)
        may_keep = not rows.driver.is_writing  # what is not committed yet may be taken back
        sound, found = _read_on(kept, rows)
        if may_keep and sound is not kept:
            self._kept[rows.tenant] = sound
            self._save(rows.tenant, sound)
        return found

    def forget(self) -> None:
        """Begin anew, after a backup was brought back."""
        self._kept.clear()

    def _path(self, tenant: str) -> str | None:
        if self.folder is None:
            return None
        name = hashlib.sha256(f"{self._store}\0{tenant}".encode(errors="surrogatepass")).hexdigest()[:32]
        return os.path.join(self.folder, f"{name}.ledger")

    def _read(self, tenant: str) -> RecordedDecisions:
        path = self._path(tenant)
        try:
            with open(path or os.devnull, "rb") as file:
                ledger = RecordedDecisions(**json.loads(file.read()))
        except (OSError, ValueError, TypeError):
            return RecordedDecisions()
        self._saved[tenant] = ledger.seq
        return ledger

    def _save(self, tenant: str, ledger: RecordedDecisions) -> None:
        path = self._path(tenant)
        if path is None or abs(ledger.seq - self._saved.get(tenant, 0)) < _WORTH_SAVING:
            return
        self._saved[tenant] = ledger.seq
        text = json.dumps(
            {name: getattr(ledger, name) for name in RecordedDecisions.__dataclass_fields__}, default=dict
        )
        try:
            make_folder(os.path.dirname(path))
            write_file(path, text.encode(), sync=True)
        except OSError:
            pass  # it is read from the trail again


def _read_on(kept: RecordedDecisions, rows: TenantRows) -> tuple[RecordedDecisions, RecordedDecisions]:
    """The ledger up to the first fault, and that of all records; the same where there is no fault."""
    reading = _Reading(kept, rows.tenant_in_records)
    if kept.seq:
        found = rows.statement(f"{_ALL} AND seq >= ? ORDER BY seq LIMIT ?", kept.seq, _BATCH)
        if not found or (found[0][0], found[0][3]) != (kept.seq, kept.hash):
            return _read_on(RecordedDecisions(), rows)  # it is another trail now
    else:
        found = rows.statement(f"{_ALL} ORDER BY seq LIMIT ?", _BATCH)
    for row in found[bool(kept.seq) :]:
        reading.take(*row)
    while len(found) == _BATCH:
        found = rows.statement(f"{_ALL} AND seq > ? ORDER BY seq LIMIT ?", found[-1][0], _BATCH)
        for row in found:
            reading.take(*row)
    if reading.seq == kept.seq and not reading.fault:
        return kept, kept
    ledger = reading.ledger()
    return reading.sound or ledger, ledger


class _Reading:
    """One walk along the records of a tenant."""

    def __init__(self, ledger: RecordedDecisions, tenant: str) -> None:
        self._tenant = tenant
        self.seq, self._hash, self.fault = ledger.seq, ledger.hash, 0
        self.sound: RecordedDecisions | None = None
        self._decided: dict[str, dict[str, Any]] = {name: getattr(ledger, name) for name in _DECISIONS}
        self._copied: set[str] = set()

    def ledger(self) -> RecordedDecisions:
        """The ledger up to here; it stays what it is."""
        self._copied.clear()
        return RecordedDecisions(seq=self.seq, hash=self._hash, fault=self.fault, **self._decided)

    def _table(self, name: str) -> dict[str, Any]:
        """The decisions of one kind, to change them: most walks come across none, and need no copies."""
        if name not in self._copied:
            self._decided[name] = dict(self._decided[name])
            self._copied.add(name)
        return self._decided[name]

    def take(self, seq: Any, text: Any, previous: Any, made: Any) -> None:
        """Look at the next row."""
        is_tied = not self.fault and follows(self.seq, self._hash, (seq, text, previous, made))
        record = record_of(text) if type(text) is str and is_decision(text) else None
        if record is not None and (record.get("seq"), record.get("tenant")) != (seq, self._tenant):
            is_tied = False
        if is_tied:
            self.seq, self._hash = seq, made
        elif not self.fault:
            self.sound = self.ledger()
            self.fault = self.seq + 1
        if record is not None:
            self._decide(record)

    def _decide(self, record: Mapping[str, Any]) -> None:
        reason, terms, approval = (_text(record, name) for name in ("reason", "terms", "approval"))
        notes, title = record.get("notes"), reason.partition(" ")
        blocked = str(notes[0]) if isinstance(notes, list) and notes else ""
        match record.get("type"):
            case "approval.granted" | "approval.automatic" if not self.fault:
                self._table("granted")[approval] = terms
            case "approval.denied":
                self._table("granted").pop(approval, None)
                self._table("against")[approval] = _approval_fields(record, "denied")
            case "approval.revoked" if not _text(record, "new_digest"):  # with one, it may come back with its content
                self._revoke(approval, record)
            case "skill.quarantined":
                self._table("blocked")[blocked] = reason
            case "skill.released" if not self.fault:
                self._table("blocked").pop(blocked, None)
            case "person.added" if not self.fault:
                self._table("people")[title[2].rpartition(":")[0]] = reason
            case "person.removed":
                self._table("people").pop(title[2], None)
            case "token.made" if not self.fault:
                self._table("tokens")[title[0]] = terms
            case "token.revoked":
                self._table("tokens").pop(title[0], None)

    def _revoke(self, approval: str, record: Mapping[str, Any]) -> None:
        was = self._decided["against"].get(approval)
        is_refusal = was is not None and was["decision"] == "denied"
        if is_refusal and self.fault:
            return
        self._table("granted").pop(approval, None)
        decision = "denied" if is_refusal else "approved"
        self._table("against")[approval] = _approval_fields(record, decision, is_revoked=True)


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def _approval_fields(record: Mapping[str, Any], decision: str, *, is_revoked: bool = False) -> dict[str, str]:
    """The fields of an approval that a record against it has."""
    names = ("request", "digest", "layer", "environment", "reason")
    skill, source = _text(record, "skill"), _text(record, "source")
    at, by = _text(record, "timestamp"), _text(record, "user") or _text(record, "agent")
    found = {name: _text(record, name) for name in names}
    found |= {"skill": f"{skill}@{source}" if source else skill, "decision": decision, "decided_by": by}
    return found | ({"revoked_at": at, "revoked_by": by} if is_revoked else {"decided_at": at})
