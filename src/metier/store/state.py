"""The state that decisions depend on: rows of the store, as far as the audit log confirms them.

A row of a table loosens nothing by itself: it counts as far as a record in the chain says the same. A row that forbids
counts without a record, and a prohibition in a record holds though its row is gone.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from metier._json_object import text_at
from metier._lazy import dataclass, field, fields, replace
from metier._paths import write_file
from metier.store.approvals import AFTERWARDS, APPROVALS, Approval, approval_terms
from metier.store.audit_log import DECIDING, FIRST, follows, is_decision, parse_record
from metier.store.blocks import BLOCKS, split_block
from metier.store.location import make_folder
from metier.store.policy_versions import number_of_policy, policy_in_force
from metier.store.revisions import INSTALLS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from metier.store.blocks import Block
    from metier.store.connection_pool import Mark
    from metier.store.policy_versions import PolicyVersion
    from metier.store.revisions import Install
    from metier.store.rows import StateVersion, TenantRows

_BATCH = 1_000
_WORTH_SAVING = 500
"""Verified records that are worth a file."""
_TABLES = ("granted", "against", "blocked", "people", "tokens", "tested", "compared", "policies", "webhooks")
_RECORDS = "SELECT seq, data_json, prev_hash, hash FROM audit_log WHERE tenant = ?"
_COLUMNS = tuple(map(attrgetter("name"), fields(Approval)))
_ID, _DIGEST, _SKILL, _LOCATION, _DECISION, _DECIDED_AT, _REVOKED = map(
    _COLUMNS.index, ("id", "digest", "skill", "location", "decision", "decided_at", "revoked_at")
)
_AFTERWARDS = tuple(map(_COLUMNS.index, AFTERWARDS))
_DECIDED = (
    f"SELECT seq, data_json FROM audit_log WHERE tenant = ? AND event_type IN ({', '.join('?' * len(DECIDING))}) "
    "ORDER BY seq"
)
_APPROVALS = f"SELECT {', '.join(_COLUMNS)} FROM approvals WHERE tenant = ? ORDER BY {', '.join(APPROVALS.order)}"
_empty: Callable[[], Mapping[Any, Any]] = partial(MappingProxyType, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecisions:
    """The decisions in the audit records of one tenant, up to one record."""

    seq: int = 0
    """The last verified record."""
    hash: str = FIRST
    fault: int = 0
    """The first record that does not follow the one before it; 0 for none. Nothing loosens from there on."""
    granted: Mapping[str, str] = field(default_factory=dict)
    """The terms of approvals by id."""
    against: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Refusals and revoked approvals by id: the fields that the records have."""
    blocked: Mapping[str, str] = field(default_factory=dict)
    """Blocks as `kind value`, with their reasons."""
    people: Mapping[str, str] = field(default_factory=dict)
    """The kind and the roles of people by name: `user ada: admin`."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """The terms of tokens by id."""
    tested: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The test results of contents by digest: `form` to `passed`, `score` to `71`."""
    compared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The tests that are worse after a change, by the digests before and after it; empty where none is."""
    policies: Mapping[str, str] = field(default_factory=dict)
    """The terms of policies by `version 7`."""
    webhooks: Mapping[str, str] = field(default_factory=dict)
    """The terms of webhooks by id."""

    def decides_as(self, earlier: RecordedDecisions) -> bool:
        """Return whether all records after an earlier state decide nothing about skills."""
        names = ("granted", "against", "blocked", "tested", "compared", "policies")
        return all(getattr(self, name) is getattr(earlier, name) for name in names) and not self.fault

    def confirm(self, approval: Approval) -> Approval | None:
        """Return the approval of a row as far as the records confirm it; None for one without a record."""
        against = self.against.get(approval.id)
        if against is not None and ("revoked_at" not in against) is bool(approval.revoked_at):
            # It was refused or revoked, and the row says otherwise.
            return _recorded_approval(approval.id, against)
        if approval.decision == "approved" and not approval.revoked_at:
            if self.granted.get(approval.id) == approval_terms(approval):
                return approval
            return None if against is None else _recorded_approval(approval.id, against)
        return approval

    def without_row(self, ids: Collection[str]) -> list[Approval]:
        """Return the refusals and revoked approvals of records whose ids have no row."""
        return [_recorded_approval(id, against) for id, against in self.against.items() if id not in ids]  # noqa: A001


def _recorded_approval(id: str, against: Mapping[str, str]) -> Approval:  # noqa: A002
    return Approval(id=id, **against)  # type: ignore[arg-type]


class DecisionReader:
    """Reads the recorded decisions of a store: verified once from the first record on, then from the last one read.

    In `folder`, which must be out of reach of those who can write to the database, they outlast the process.
    """

    def __init__(self, store: str) -> None:
        self._store = store
        self._read: dict[str, RecordedDecisions] = {}
        self._saved: dict[str, int] = {}
        self.folder: str | None = None

    def read(self, rows: TenantRows) -> RecordedDecisions:
        """Return the decisions of a tenant as they are now."""
        known = self._read.get(rows.tenant) or self._load(rows.tenant)
        may_keep = not rows.pool.is_writing  # an uncommitted record may be undone
        sound, found = _read_on(known, rows)
        if may_keep and sound is not known:
            self._read[rows.tenant] = sound
            self._save(rows.tenant, sound)
        return found

    def forget(self) -> None:
        """Start anew, after a restore."""
        self._read.clear()

    def _path(self, tenant: str) -> str | None:
        if self.folder is None:
            return None
        name = hashlib.sha256(f"{self._store}\0{tenant}".encode(errors="surrogatepass")).hexdigest()[:32]
        return os.path.join(self.folder, f"{name}.decisions")

    def _load(self, tenant: str) -> RecordedDecisions:
        path = self._path(tenant)
        try:
            with open(path or os.devnull, "rb") as file:
                decisions = RecordedDecisions(**json.loads(file.read()))
        except (OSError, ValueError, TypeError):
            return RecordedDecisions()
        self._saved[tenant] = decisions.seq
        return decisions

    def _save(self, tenant: str, decisions: RecordedDecisions) -> None:
        path = self._path(tenant)
        if path is None or abs(decisions.seq - self._saved.get(tenant, 0)) < _WORTH_SAVING:
            return
        self._saved[tenant] = decisions.seq
        text = json.dumps({one.name: getattr(decisions, one.name) for one in fields(RecordedDecisions)}, default=dict)
        try:
            make_folder(os.path.dirname(path))
            write_file(path, text.encode(), sync=True)
        except OSError:
            pass  # they are read from the log again


def _read_on(known: RecordedDecisions, rows: TenantRows) -> tuple[RecordedDecisions, RecordedDecisions]:
    """Return the decisions up to the first fault, and those of all records; the same where there is no fault."""
    reading = _Reading(known, rows.tenant_in_records)
    if known.seq:
        found = rows.statement(f"{_RECORDS} AND seq >= ? ORDER BY seq LIMIT ?", known.seq, _BATCH)
        if not found or (found[0][0], found[0][3]) != (known.seq, known.hash):
            return _read_on(RecordedDecisions(), rows)  # it is another log now
    else:
        found = rows.statement(f"{_RECORDS} ORDER BY seq LIMIT ?", _BATCH)
    for row in found[bool(known.seq) :]:
        reading.take(*row)
    while len(found) == _BATCH:
        found = rows.statement(f"{_RECORDS} AND seq > ? ORDER BY seq LIMIT ?", found[-1][0], _BATCH)
        for row in found:
            reading.take(*row)
    if reading.seq == known.seq and not reading.fault:
        return known, known
    decisions = reading.decisions()
    return reading.sound or decisions, decisions


class _Reading:
    """One pass along the records of a tenant."""

    def __init__(self, known: RecordedDecisions, tenant: str) -> None:
        self._tenant = tenant
        self.seq, self._hash, self.fault = known.seq, known.hash, 0
        self.sound: RecordedDecisions | None = None
        self._tables: dict[str, dict[str, Any]] = {name: getattr(known, name) for name in _TABLES}
        self._copied: set[str] = set()

    def decisions(self) -> RecordedDecisions:
        """Return the decisions up to here, which later records do not change."""
        self._copied.clear()
        return RecordedDecisions(seq=self.seq, hash=self._hash, fault=self.fault, **self._tables)

    def _table(self, name: str) -> dict[str, Any]:
        """Return the decisions of one kind for a change: most passes find none, and need no copies."""
        if name not in self._copied:
            self._tables[name] = dict(self._tables[name])
            self._copied.add(name)
        return self._tables[name]

    def take(self, seq: Any, text: Any, previous: Any, made: Any) -> None:
        """Read the next row."""
        is_next = not self.fault and follows(self.seq, self._hash, (seq, text, previous, made))
        record = parse_record(text) if type(text) is str and is_decision(text) else None
        if record is not None and (record.get("seq"), record.get("tenant")) != (seq, self._tenant):
            is_next = False
        if is_next:
            self.seq, self._hash = seq, made
        elif not self.fault:
            self.sound = self.decisions()
            self.fault = self.seq + 1
        if record is not None:
            self.decide(record)

    def decide(self, record: Mapping[str, Any]) -> None:
        """Take over the decision of a record."""
        reason, terms, approval = (text_at(record, name) for name in ("reason", "terms", "approval"))
        title, note = reason.partition(" "), next(iter(_notes(record)), "")
        match record.get("type"):
            case "approval.granted" | "approval.automatic" if not self.fault:
                self._table("granted")[approval] = terms
            case "approval.denied":
                self._table("granted").pop(approval, None)
                self._table("against")[approval] = _approval_fields(record, "denied")
            case "approval.revoked" if not text_at(record, "new_digest"):  # with one, it may come back with its content
                self._revoke(approval, record)
            case "skill.quarantined":
                self._table("blocked")[note] = reason
            case "skill.released" if not self.fault:
                self._table("blocked").pop(note, None)
            case "person.added" if not self.fault:
                self._table("people")[title[2].rpartition(":")[0]] = reason
            case "person.removed":
                self._table("people").pop(title[2], None)
            case "token.made" if not self.fault:
                self._table("tokens")[title[0]] = terms
            case "token.revoked":
                self._table("tokens").pop(title[0], None)
            case "skill.tested" if not self.fault and _is_by_person(record):
                tested, digest = self._table("tested"), text_at(record, "digest")
                tested[digest] = {**tested.get(digest, {}), **_test_facts(record)}
            case "proposal.compared" if not self.fault and _is_by_person(record):
                self._table("compared")[f"{text_at(record, 'digest')} {text_at(record, 'new_digest')}"] = _notes(record)
            case "policy.changed" if not self.fault and number_of_policy(note):
                self._table("policies")[note] = terms
            case "webhook.added" | "webhook.changed":  # also behind a fault: somebody has to be told of it
                self._table("webhooks")[note] = terms
            case "webhook.removed":
                self._table("webhooks").pop(note, None)

    def _revoke(self, approval: str, record: Mapping[str, Any]) -> None:
        earlier = self._tables["against"].get(approval)
        is_refusal = earlier is not None and earlier["decision"] == "denied"
        if is_refusal and self.fault:
            return
        self._table("granted").pop(approval, None)
        decision = "denied" if is_refusal else "approved"
        self._table("against")[approval] = _approval_fields(record, decision, is_revoked=True)


def _notes(record: Mapping[str, Any]) -> list[str]:
    notes = record.get("notes")
    return [str(note) for note in notes] if isinstance(notes, list) else []


def _is_by_person(record: Mapping[str, Any]) -> bool:
    """Return whether a person vouches for a result, and no agent."""
    return bool(text_at(record, "user")) and not text_at(record, "agent")


def _test_facts(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the verdict of each tier that was run, and the score where that is known, with the skill and the time."""
    pairs = (note.partition(" ") for note in _notes(record))
    return {
        **{name: value for name, _, value in pairs},
        "skill": text_at(record, "skill"),
        "at": text_at(record, "timestamp"),
    }


def _approval_fields(record: Mapping[str, Any], decision: str, *, is_revoked: bool = False) -> dict[str, str]:
    """Return the fields of an approval that a record against it has."""
    names = ("request", "digest", "layer", "environment", "reason")
    skill, source = text_at(record, "skill"), text_at(record, "source")
    at, by = text_at(record, "timestamp"), text_at(record, "user") or text_at(record, "agent")
    found = {name: text_at(record, name) for name in names}
    found |= {"skill": f"{skill}@{source}" if source else skill, "decision": decision, "decided_by": by}
    return found | ({"revoked_at": at, "revoked_by": by} if is_revoked else {"decided_at": at})


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernanceState:
    """Blocks, approvals and installs at one moment."""

    is_readable: bool = True
    """False where the store cannot be used, and nothing is known."""
    at: str = ""
    """The moment that it is the state of; empty for now."""
    blocked: frozenset[tuple[str, str]] = frozenset()
    """`("digest", "sha256:..."), ("name", "x"), ("source", "y")`."""
    blocked_by: Mapping[tuple[str, str], str] = field(default_factory=_empty)
    """The people who blocked them, as far as that is known."""
    approvals: Mapping[str, tuple[Approval, ...]] = field(default_factory=_empty)
    """By digest, the oldest first; without revoked ones."""
    revoked: frozenset[str] = frozenset()
    """The contents of which somebody took an approval back."""
    digests: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=_empty)
    """The decided contents by `name@source` and folder of the skill, the oldest first."""
    has_refusals: bool = False
    """Whether somebody refused some content."""
    installs: Mapping[str, Install] = field(default_factory=_empty)
    """By the folder of the skill."""
    tested: Mapping[str, Mapping[str, str]] = field(default_factory=_empty)
    """The results of tests by digest, as far as people vouch for them."""
    compared: Mapping[str, Sequence[str]] = field(default_factory=_empty)
    """The tests that are worse after a change, by `digest digest`."""
    policy: PolicyVersion | None = None
    """The policy that somebody wrote for the tenant on a server; None where nobody did."""
    managed: str = ""
    """The folder whose skills are those of `installs` alone, in the state that a server sent to a node; else empty."""
    fault: str = ""
    """The code of the reason why a node may not rely on it any more; empty where it may."""


class _Approvals(Mapping[str, tuple[Approval, ...]]):
    """Approvals by digest, each made when it is first asked for, because few of many are."""

    def __init__(self, rows: list[tuple[Any, ...]], decisions: RecordedDecisions) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._made: dict[str, tuple[Approval, ...]] = {}
        self._decisions = decisions
        for row in rows:
            self._rows.setdefault(row[_DIGEST], []).append(row)
        self._without_row: dict[str, list[Approval]] = {}
        for one in decisions.without_row({row[_ID] for row in rows}):
            if not one.revoked_at:
                self._without_row.setdefault(one.digest, []).append(one)
                self._rows.setdefault(one.digest, [])

    def __getitem__(self, digest: str) -> tuple[Approval, ...]:
        made = self._made.get(digest)
        if made is None:
            found = (self._decisions.confirm(APPROVALS.from_row(row)) for row in self._rows[digest])
            counting = (one for one in (*found, *self._without_row.get(digest, ())) if one is not None)
            made = self._made[digest] = tuple(one for one in counting if not one.revoked_at)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<approvals of {len(self)} contents>"


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedState:
    """A state, and the version of the store that it is known to be current for."""

    state: GovernanceState
    version: StateVersion
    decisions: RecordedDecisions
    mark: Mark | None = None
    """The mark under which it is current, which takes less to compare than the version."""

    def moved(self, version: StateVersion, decisions: RecordedDecisions) -> CachedState | None:
        """Return the same state at a later version, if nobody decided anything in between; None if somebody did."""
        if version[0] != self.version[0] or not decisions.decides_as(self.decisions):
            return None
        return CachedState(state=self.state, version=version, decisions=decisions)


def read_state(rows: TenantRows, reader: DecisionReader) -> CachedState:
    """Return the current state: the rows, as far as the audit log confirms them."""
    with rows.snapshot():
        version = rows.state_version()
        decisions = reader.read(rows)
        blocks = rows.select(BLOCKS)
        approvals = rows.statement(_APPROVALS)
        installs = rows.select(INSTALLS)
        policy = policy_in_force(rows, decisions)
    state = replace(_state_of(decisions, blocks, approvals, installs), policy=policy)
    return CachedState(state=state, version=version, decisions=decisions)


def _state_of(
    decisions: RecordedDecisions, blocks: list[Block], approvals: list[tuple[Any, ...]], installs: list[Install]
) -> GovernanceState:
    refused = any(one["decision"] == "denied" and "revoked_at" not in one for one in decisions.against.values())
    has_refusals = refused or any(row[_DECISION] != "approved" and not row[_REVOKED] for row in approvals)
    revoked = {one["digest"] for one in decisions.against.values() if "revoked_at" in one}
    digests: dict[tuple[str, str], dict[str, None]] = {}
    for row in approvals:
        if row[_REVOKED]:
            revoked.add(row[_DIGEST])
        else:
            digests.setdefault((row[_SKILL], row[_LOCATION]), {})[row[_DIGEST]] = None
    return GovernanceState(
        blocked=frozenset(
            (*((one.kind, one.value) for one in blocks), *(split_block(what) for what in decisions.blocked))
        ),
        blocked_by=MappingProxyType({(one.kind, one.value): one.by for one in blocks}),
        approvals=_Approvals([row for row in approvals if not _is_settled(row, decisions)], decisions),
        revoked=frozenset(revoked),
        digests=MappingProxyType({skill: tuple(found) for skill, found in digests.items()}),
        has_refusals=has_refusals,
        installs=MappingProxyType({install.location: install for install in installs}),
        tested=decisions.tested,
        compared=decisions.compared,
    )


class PastStates:
    """The states that a store was in: rows by their times, and the records that confirm them by their order."""

    def __init__(self, rows: TenantRows) -> None:
        """Read what there is now, of an audit log that was verified."""
        self._tenant = rows.tenant_in_records
        with rows.snapshot():
            found = rows.statement(_DECIDED, *DECIDING)
            self._approvals = rows.statement(_APPROVALS)
            self._blocks, self._installs = rows.select(BLOCKS), rows.select(INSTALLS)
        self._records = [(seq, parse_record(text) or {}) for seq, text in found]
        self._numbers = [seq for seq, _ in found]
        self._moments = [one.get("timestamp", "") for _, one in self._records]
        times = [time for row in self._approvals for time in (row[_DECIDED_AT], row[_REVOKED])]
        self._times = sorted([*times, *(one.at for one in self._blocks), *(one.at for one in self._installs)])
        self._reading, self._read = _Reading(RecordedDecisions(), self._tenant), 0
        self._seen: tuple[object, GovernanceState] | None = None

    def before(self, at: str, seq: int | None = None, *, without: Collection[int] = ()) -> GovernanceState:
        """Return the state at a time, and where one is given before a record; `without` records that it led to."""
        count = bisect_right(self._moments, at) if seq is None else bisect_left(self._numbers, seq)
        changes = bisect_right(self._times, at)
        if self._seen is None or self._seen[0] != (count, changes, without):
            self._seen = ((count, changes, without), self._state(self._decisions(count, without), at))
        return replace(self._seen[1], at=at)

    def deciding(self, after: int, before: int) -> list[tuple[int, dict[str, Any]]]:
        """Return the records between two that decisions depend on, with their numbers."""
        return self._records[bisect_right(self._numbers, after) : bisect_left(self._numbers, before)]

    def _decisions(self, count: int, without: Collection[int]) -> RecordedDecisions:
        if without or count < self._read:
            self._reading, self._read = _Reading(RecordedDecisions(), self._tenant), 0
        for seq, record in self._records[self._read : count]:
            if seq not in without:
                self._reading.decide(record)
        self._read = len(self._records) + 1 if without else count  # what lacks some is no beginning of what follows
        return self._reading.decisions()

    def _state(self, decisions: RecordedDecisions, at: str) -> GovernanceState:
        rows = [_not_yet_revoked(row, at) for row in self._approvals if row[_DECIDED_AT] <= at]
        blocks = [one for one in self._blocks if one.at <= at]
        return _state_of(decisions, blocks, rows, [one for one in self._installs if one.at <= at])


def _not_yet_revoked(row: tuple[Any, ...], at: str) -> tuple[Any, ...]:
    """The row of an approval as it was at a time; what is set afterwards only takes something from it."""
    return row if row[_REVOKED] <= at else tuple("" if i in _AFTERWARDS else value for i, value in enumerate(row))


def _is_settled(row: tuple[Any, ...], decisions: RecordedDecisions) -> bool:
    """Return whether an approval was revoked, and no record says that it was a refusal which stands."""
    against = decisions.against.get(row[_ID])
    return bool(row[_REVOKED]) and (against is None or "revoked_at" in against)
