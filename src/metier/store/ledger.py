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

from metier.store.blobs import make_folder, write_file
from metier.store.canonical import FIRST, tied
from metier.store.link import is_decision, record_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.store.rows import Rows

_BATCH = 1_000
_WORTH_SAVING = 500
"""Records whose verification is worth a file."""
_DECISIONS = ("granted", "against", "blocked", "people", "tokens")
_CONCERN = {"approval": ("granted", "against"), "skill": ("blocked",), "person": ("people",), "token": ("tokens",)}
"""What the records of a family decide about."""
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

    def decides_as(self, earlier: Ledger) -> bool:
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
    reading = _Reading(kept, rows.tenant_in_records)
    if kept.seq:
        found = rows.statement(f"{_ALL} AND seq >= ? ORDER BY seq LIMIT ?", kept.seq, _BATCH)
        if not found or (found[0][0], found[0][3]) != (kept.seq, kept.hash):
            return _advanced(Ledger(), rows)  # it is another trail now
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

    def __init__(self, ledger: Ledger, tenant: str) -> None:
        self._tenant = tenant
        self.seq, self._hash, self.fault = ledger.seq, ledger.hash, 0
        self.sound: Ledger | None = None
        self._decided: dict[str, dict[str, Any]] = {name: getattr(ledger, name) for name in _DECISIONS}
        self._copied: set[str] = set()

    def ledger(self) -> Ledger:
        """The ledger up to here; it stays what it is."""
        self._copied.clear()
        return Ledger(seq=self.seq, hash=self._hash, fault=self.fault, **self._decided)

    def _decide(self, record: Mapping[str, Any]) -> None:
        family = str(record.get("type")).partition(".")[0]
        for name in _CONCERN[family]:
            if name not in self._copied:  # most walks come across no decision, and need no copies
                self._decided[name] = dict(self._decided[name])
                self._copied.add(name)
        _TAKE[family](self, record)

    def take(self, seq: Any, text: Any, previous: Any, made: Any) -> None:
        """Look at the next row."""
        is_tied = not self.fault and type(seq) is int and seq == self.seq + 1 and previous == self._hash
        is_tied = is_tied and type(text) is str and tied(previous, text) == made
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

    def _approval(self, record: Mapping[str, Any]) -> None:
        id, type = _text(record, "approval"), _text(record, "type")  # noqa: A001
        if type in ("approval.granted", "approval.automatic"):
            if not self.fault:
                self._decided["granted"][id] = _text(record, "terms")
        elif type == "approval.denied":
            self._decided["granted"].pop(id, None)
            self._decided["against"][id] = _saying(record, "denied")
        elif not _text(record, "new_digest"):  # with one, it fell with its content, which may come back
            was = self._decided["against"].get(id)
            is_refusal = was is not None and was["decision"] == "denied"
            if is_refusal and self.fault:
                return
            self._decided["granted"].pop(id, None)
            self._decided["against"][id] = _saying(record, "denied" if is_refusal else "approved", is_revoked=True)

    def _skill(self, record: Mapping[str, Any]) -> None:
        notes = record.get("notes")
        what = str(notes[0]) if isinstance(notes, list) and notes else ""
        if _text(record, "type") == "skill.quarantined":
            self._decided["blocked"][what] = _text(record, "reason")
        elif not self.fault:
            self._decided["blocked"].pop(what, None)

    def _person(self, record: Mapping[str, Any]) -> None:
        title = _text(record, "reason")
        name = title.partition(" ")[2]
        if _text(record, "type") == "person.removed":
            self._decided["people"].pop(name, None)
        elif not self.fault:
            self._decided["people"][name.rpartition(":")[0]] = title

    def _token(self, record: Mapping[str, Any]) -> None:
        id = _text(record, "reason").partition(" ")[0]  # noqa: A001
        if _text(record, "type") == "token.revoked":
            self._decided["tokens"].pop(id, None)
        elif not self.fault:
            self._decided["tokens"][id] = _text(record, "terms")


_TAKE: Mapping[str, Callable[[_Reading, Mapping[str, Any]], None]] = {
    "approval": _Reading._approval,
    "skill": _Reading._skill,
    "person": _Reading._person,
    "token": _Reading._token,
}


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
