"""The decisions that the audit trail has: approvals, refusals, quarantines, people and tokens count by it.

A row of a table loosens nothing by itself: what it says counts as far as a record in the chain says the same. A row
that forbids counts without a record, and what a record forbids holds though its row is gone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from metier.store.blobs import make_folder, write_file
from metier.store.canonical import FIRST, tied
from metier.store.link import record_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.store.rows import Rows

# The canonical form of a record has no spaces, and no text inside of it has a quote that is not escaped.
_DECISION = re.compile(
    r'"type":"(?:approval\.(?:granted|automatic|denied|revoked)|skill\.(?:quarantined|released)'
    r'|person\.(?:added|removed)|token\.(?:made|revoked))"'
)
_BATCH = 1_000
_WORTH_SAVING = 500
"""Records whose verification is worth a file."""
_ALL = "SELECT seq, data_json, prev_hash, hash FROM audit_log WHERE tenant = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
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


def terms_of(*parts: object) -> str:
    """A digest of all that a row says, for the record that vouches for it.

    >>> terms_of("a-1", ["scripts"]) == terms_of("a-1", ["scripts", "hooks"])
    False
    """
    text = json.dumps(parts, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


class Ledgers:
    """The ledgers of a store, each verified once: from the first record on, and then from where it was left.

    In `folder`, which must be out of reach of those who can write to the database, they outlast the process.
    """

    def __init__(self, store: str) -> None:
        self._store = store
        self._kept: dict[str, Ledger] = {}
        self._saved: dict[str, int] = {}
        self.folder: str | None = None

    def of(self, rows: Rows) -> Ledger:
        """The ledger of a tenant as it is now."""
        kept = self._kept.get(rows.tenant) or self._read(rows.tenant)
        may_keep = not rows.driver.is_writing  # what is not committed yet may be taken back
        with rows.snapshot():
            sound, found = _advanced(kept, rows)
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

    def _read(self, tenant: str) -> Ledger:
        path = self._path(tenant)
        try:
            with open(path or os.devnull, "rb") as file:
                ledger = Ledger(**json.loads(file.read()))
        except (OSError, ValueError, TypeError):
            return Ledger()
        self._saved[tenant] = ledger.seq
        return ledger

    def _save(self, tenant: str, ledger: Ledger) -> None:
        path = self._path(tenant)
        if path is None or abs(ledger.seq - self._saved.get(tenant, 0)) < _WORTH_SAVING:
            return
        self._saved[tenant] = ledger.seq
        text = json.dumps({name: getattr(ledger, name) for name in Ledger.__dataclass_fields__}, default=dict)
        try:
            make_folder(os.path.dirname(path))
            write_file(path, text.encode())
        except OSError:
            pass  # it is read from the trail again


def _advanced(kept: Ledger, rows: Rows) -> tuple[Ledger, Ledger]:
    """The ledger up to the first fault, and that of all records; the same where there is no fault."""
    after: tuple[Any, ...] = ()
    if kept.seq:
        after = (kept.seq,)
        last = rows.statement(f"{_ALL} AND seq >= ? ORDER BY seq LIMIT 1", *after)
        if not last or (last[0][0], last[0][3]) != (kept.seq, kept.hash):
            kept, after = Ledger(), ()  # it is another trail now
    reading = _Reading(kept, rows.tenant_in_records)
    while True:
        where = " AND seq > ?" if after else ""
        found = rows.statement(f"{_ALL}{where} ORDER BY seq LIMIT ?", *after, _BATCH)
        for row in found:
            reading.take(*row)
        if len(found) < _BATCH:
            break
        after = (found[-1][0],)
    if reading.seq == kept.seq and not reading.fault:
        return kept, kept
    ledger = reading.ledger()
    return reading.sound or ledger, ledger


class _Reading:
    """One walk along the records of a tenant."""

    def __init__(self, ledger: Ledger, tenant: str) -> None:
        self._tenant = tenant
        self.seq, self._hash, self.fault = ledger.seq, ledger.hash, 0
        self.sound: Ledger | None = None
        self._granted, self._against = dict(ledger.granted), dict(ledger.against)
        self._blocked, self._people, self._tokens = dict(ledger.blocked), dict(ledger.people), dict(ledger.tokens)

    def ledger(self) -> Ledger:
        return Ledger(
            seq=self.seq,
            hash=self._hash,
            fault=self.fault,
            granted=self._granted,
            against=self._against,
            blocked=self._blocked,
            people=self._people,
            tokens=self._tokens,
        )

    def take(self, seq: Any, text: Any, previous: Any, made: Any) -> None:
        """Look at the next row."""
        is_tied = not self.fault and type(seq) is int and seq == self.seq + 1 and previous == self._hash
        is_tied = is_tied and type(text) is str and tied(previous, text) == made
        record = record_of(text) if type(text) is str and _DECISION.search(text) else None
        if record is not None and (record.get("seq"), record.get("tenant")) != (seq, self._tenant):
            is_tied = False
        if is_tied:
            self.seq, self._hash = seq, made
        elif not self.fault:
            self.sound = _copied(self.ledger())
            self.fault = self.seq + 1
        if record is not None:
            _TAKE[str(record.get("type")).partition(".")[0]](self, record)

    def _approval(self, record: Mapping[str, Any]) -> None:
        id, type = _text(record, "approval"), _text(record, "type")  # noqa: A001
        if type in ("approval.granted", "approval.automatic"):
            if not self.fault:
                self._granted[id] = _text(record, "terms")
        elif type == "approval.denied":
            self._granted.pop(id, None)
            self._against[id] = _saying(record, "denied")
        elif not _text(record, "new_digest"):  # with one, it fell with its content, which may come back
            was = self._against.get(id)
            is_refusal = was is not None and was["decision"] == "denied"
            if is_refusal and self.fault:
                return
            self._granted.pop(id, None)
            self._against[id] = _saying(record, "denied" if is_refusal else "approved", is_revoked=True)

    def _skill(self, record: Mapping[str, Any]) -> None:
        notes = record.get("notes")
        what = str(notes[0]) if isinstance(notes, list) and notes else ""
        if _text(record, "type") == "skill.quarantined":
            self._blocked[what] = _text(record, "reason")
        elif not self.fault:
            self._blocked.pop(what, None)

    def _person(self, record: Mapping[str, Any]) -> None:
        title = _text(record, "reason")
        name = title.partition(" ")[2]
        if _text(record, "type") == "person.removed":
            self._people.pop(name, None)
        elif not self.fault:
            self._people[name.rpartition(":")[0]] = title

    def _token(self, record: Mapping[str, Any]) -> None:
        id = _text(record, "reason").partition(" ")[0]  # noqa: A001
        if _text(record, "type") == "token.revoked":
            self._tokens.pop(id, None)
        elif not self.fault:
            self._tokens[id] = _text(record, "terms")


_TAKE: Mapping[str, Callable[[_Reading, Mapping[str, Any]], None]] = {
    "approval": _Reading._approval,
    "skill": _Reading._skill,
    "person": _Reading._person,
    "token": _Reading._token,
}


def _copied(ledger: Ledger) -> Ledger:
    return Ledger(
        seq=ledger.seq,
        hash=ledger.hash,
        granted=dict(ledger.granted),
        against=dict(ledger.against),
        blocked=dict(ledger.blocked),
        people=dict(ledger.people),
        tokens=dict(ledger.tokens),
    )


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def _saying(record: Mapping[str, Any], decision: str, *, is_revoked: bool = False) -> dict[str, str]:
    """The fields of an approval that a record against it has."""
    names = ("request", "digest", "layer", "environment", "reason")
    skill, source = _text(record, "skill"), _text(record, "source")
    at, by = _text(record, "timestamp"), _text(record, "user") or _text(record, "agent")
    found = {name: _text(record, name) for name in names}
    found |= {"skill": f"{skill}@{source}" if source else skill, "decision": decision, "decided_by": by}
    return found | ({"revoked_at": at, "revoked_by": by} if is_revoked else {"decided_at": at})
