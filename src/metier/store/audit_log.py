"""The audit log of one tenant: records in order of arrival, each chained to the one before by its hash."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from metier._cache import BoundedCache
from metier._lazy import dataclass, pattern
from metier.errors import StoreUnavailable
from metier.hints import for_people
from metier.store.audit_filters import AuditFilters, text_column
from metier.store.audit_filters import skill_ref as skill_ref
from metier.store.canonical_json import (
    MAX_EXACT,
    is_readable,
    parse_strict,
    serialize,
    serialize_anything,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from metier.store.rows import TenantRows

FIRST = "0" * 64
"""The previous hash of the first record of a chain."""
_FIELDS = {
    "ts": "timestamp",
    "event_type": "type",
    "env": "environment",
    "session": "session",
    "trace_id": "correlation_id",
    "digest": "digest",
    "layer": "layer",
    "point": "event",
    "outcome": "decision",
    "rule_id": "rule",
    "policy_digest": "policy",
}
"""The columns that are a field of the record."""
COLUMNS = (*_FIELDS, "actor_kind", "actor_id", "skill_ref")
"""The columns that a record is searched by."""
# The canonical form of a record has no spaces, and no text inside of it has a quote that is not escaped.
DECIDING = (
    *("approval.granted", "approval.automatic", "approval.denied", "approval.revoked", "skill.quarantined"),
    *("skill.released", "skill.tested", "person.added", "person.removed", "token.made", "token.revoked"),
    *("proposal.compared", "policy.changed", "webhook.added", "webhook.changed", "webhook.removed"),
)
"""The types of records that decisions depend on."""
_DECISION = pattern(f'"type":"(?:{"|".join(DECIDING)})"'.replace(".", r"\."))
_ACTORS = {"model": "agent", "user": "user", "host": "host", "client": "host"}
_RESERVED = ("prev_hash", "hash", "checkpoint")
_CHECKPOINT = ("seq", "hash", "signed_at", "key_id", "signature")
_LAST = "SELECT seq, hash FROM audit_log WHERE tenant = ? ORDER BY seq DESC LIMIT 1"
_INSERT = (
    f"INSERT INTO audit_log (tenant, seq, data_json, prev_hash, hash, {', '.join(COLUMNS)}) "
    f"VALUES ({', '.join('?' * (5 + len(COLUMNS)))})"
)
CHAINED = f"seq, data_json, prev_hash, hash, {', '.join(COLUMNS)}"
"""The columns of a row that is a record."""
_SELECT = f"SELECT {CHAINED} FROM audit_log WHERE tenant = ?"
_FAMILY = f"{_SELECT} AND event_type >= ? AND event_type < ? AND seq > ? ORDER BY seq LIMIT ?"
_LINKS = "SELECT seq, data_json, prev_hash, hash FROM audit_log WHERE tenant = ? AND seq > ? ORDER BY seq LIMIT ?"
_INSERT_CHECKPOINT = (
    f"INSERT INTO audit_checkpoints (tenant, {', '.join(_CHECKPOINT)}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_CHECKPOINTS = f"SELECT {', '.join(_CHECKPOINT)} FROM audit_checkpoints WHERE tenant = ? ORDER BY seq, key_id"
_HAS_CHECKPOINT = "SELECT 1 FROM audit_checkpoints WHERE tenant = ? AND seq = ? AND key_id = ?"
_BATCH = 500
_NONE_AFTER = 2**62
_MAX_LENGTH = 256 * 1024
_LEAST_PLAIN, _MOST_PLAIN = 1e-4, 1e15
"""Between them, Python writes a float that is not whole without an exponent, as canonical JSON does."""
_MAX_CACHED = 500
_CONSTANTS = {True: "true", False: "false", None: "null"}
_ENCODE = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPosition:
    """The number and the hash of a record in its chain."""

    seq: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedRecord:
    """One record as the log keeps it, with its number, its hash and the hash of the record before."""

    tenant: str
    seq: int
    record: dict[str, Any] | None
    """The content; None if it cannot be read, which never holds for an appended record."""
    text: str
    """The content in the canonical form that its hash was taken of."""
    previous: str
    hash: str
    columns: Mapping[str, str] | None = None
    """The columns to search by; None for a record that does not come from a database."""

    @property
    def is_whole(self) -> bool:
        """Whether number, tenant, columns and hash are those of the content."""
        if type(self.seq) is not int or self.seq < 1 or self.record is None:
            return False
        if (self.record.get("seq"), self.record.get("tenant")) != (self.seq, self.tenant):
            return False
        if self.columns is not None and columns_of(self.record) != self.columns:
            return False
        return chain_hash(self.previous, self.text) == self.hash


class _Next(NamedTuple):
    """A record on its way into the log, behind the last one."""

    last: ChainPosition
    position: ChainPosition
    row: tuple[Any, ...]


class AuditTable:
    """The records of one tenant. They can be added to and read; nothing can be changed or removed.

    >>> import tempfile
    >>> from metier.store import Store
    >>> with Store.open(f"sqlite:///{tempfile.mkdtemp()}/metier.db") as store:
    ...     log = store.of("acme").audit
    ...     position = log.append({"type": "skill.activated", "skill": "pdf", "decision": "allow"})
    ...     position.seq, [record["skill"] for record in log.search(type="skill")]
    (1, ['pdf'])
    """

    def __init__(
        self,
        rows: TenantRows,
        follow: Callable[[ChainPosition, ChainPosition], None] = lambda *_: None,
        heads: dict[str, tuple[ChainPosition, bool]] | None = None,
    ) -> None:
        """`follow` receives the positions before and after a record that decides nothing.

        `heads` are the last records by tenant that this process has written, and whether nobody else wrote before: then
        the next record follows without a look. If somebody has, the database refuses it, and the last record is read.
        """
        self._rows = rows
        self._follow = follow
        self._heads = {} if heads is None else heads
        self.pool = rows.pool
        """The connections that records are written by."""
        self.tenant = rows.tenant_in_records
        """The tenant, as its records have it."""

    def append(self, record: Mapping[str, Any], *, wait: float | None = None) -> ChainPosition:
        """Add a record, whatever is in it: a value that JSON cannot hold is replaced by the nearest that it can.

        The log itself sets `seq`, `tenant`, `prev_hash`, `hash` and `checkpoint`. `wait` is the longest wait for other
        writers in seconds; after that it raises `StoreUnavailable`.
        """
        pool, added = self.pool, None
        if not pool.backend.is_shared and not pool.is_in_transaction:
            with pool.writing_alone(wait):
                last, is_alone = self._heads.get(self.tenant, (None, False))
                if last is not None and is_alone:
                    added = self._next(record, last)
                    if pool.insert_alone(_INSERT, [self._rows.tenant, *added.row], wait):
                        self._heads[self.tenant] = (added.position, True)
                    else:
                        added = None
        if added is None:
            return self.append_all(lambda: (record,), wait=wait)[0]
        self._note(added)
        return added.position

    def append_all(
        self, take: Callable[[], Iterable[Mapping[str, Any]]], *, wait: float | None = None
    ) -> list[ChainPosition]:
        """Add several records in one transaction; `take` returns them once there is no more waiting for others."""
        added = list[_Next]()
        with self._rows.transaction(wait):
            last = self._read_last()
            for record in take():
                added.append(self._next(record, added[-1].position if added else last))
                self._rows.change(_INSERT, *added[-1].row)
        if added and not self.pool.is_in_transaction:
            known = self._heads.get(self.tenant)
            self._heads[self.tenant] = (added[-1].position, known is None or known[0] == last)
            for one in added:
                self._note(one)
        return [one.position for one in added]

    def _read_last(self) -> ChainPosition:
        last = self._rows.statement(_LAST)
        if last and type(last[0][0]) is not int:
            raise StoreUnavailable(
                "The last row of the audit log has no number: it was put there.",
                hint=for_people("`metier audit verify` says what is wrong with it."),
            )
        return ChainPosition(seq=last[0][0], hash=last[0][1]) if last else ChainPosition(seq=0, hash=FIRST)

    def _next(self, record: Mapping[str, Any], last: ChainPosition) -> _Next:
        """Return the record that follows the last one: its canonical form, its hash, and the columns of its row."""
        content: dict[str, Any] = {"seq": 0, "tenant": ""}
        content.update(record)
        for name in _RESERVED:
            content.pop(name, None)
        content["tenant"] = self.tenant
        content["seq"] = seq = last.seq + 1
        text, kept = _to_canonical(content)
        made = chain_hash(last.hash, text)
        row = (seq, text, last.hash, made, *columns_of(kept).values())
        return _Next(last, ChainPosition(seq=seq, hash=made), row)

    def _note(self, added: _Next) -> None:
        if not is_decision(added.row[1]):
            self._follow(added.last, added.position)

    def last(self) -> ChainPosition | None:
        """Return the position of the last record; None while there is none."""
        rows = self._rows.statement(_LAST)
        return ChainPosition(seq=rows[0][0], hash=rows[0][1]) if rows else None

    def walk(self, *, start: int | None = None, batch: int = _BATCH) -> Iterator[ChainedRecord]:
        """Yield all rows in order, or all from a number on, with those that others add meanwhile.

        Without `start` that is every row, also one whose number no record can have.
        """
        where, after = ("", ()) if start is None else (" AND seq >= ?", (start,))
        while True:
            rows = self._rows.statement(f"{_SELECT}{where} ORDER BY seq LIMIT ?", *after, batch)
            for row in rows:
                yield self._chained(row)
            if len(rows) < batch:
                return
            where, after = " AND seq > ?", (rows[-1][0],)

    def links(self, after: int = 0, batch: int = _BATCH) -> Iterator[tuple[int, str, str, str]]:
        """Yield number, text, previous hash and hash of the records behind a number, in order and as they are."""
        while True:
            rows = self._rows.statement(_LINKS, after, batch)
            yield from rows
            if len(rows) < batch:
                return
            after = rows[-1][0]

    def family(self, family: str) -> Iterator[dict[str, Any]]:
        """Yield the records of a family of types, `node` for `node.checkpoint` and others, the oldest first."""
        after = 0
        while True:
            rows = self._rows.statement(_FAMILY, f"{family}.", f"{family}/", after, _BATCH)
            yield from (one.record for one in map(self._chained, rows) if one.is_whole and one.record is not None)
            if len(rows) < _BATCH:
                return
            after = rows[-1][0]

    def tail(self, count: int) -> list[dict[str, Any]]:
        """Return the last records, the newest at the end."""
        return self.search(limit=count)[::-1]

    def search(
        self,
        *,
        skill: str | None = None,
        type: str | None = None,  # noqa: A002
        outcome: str | None = None,
        session: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        digest: str | None = None,
        since: str | None = None,
        until: str | None = None,
        text: str | None = None,
        limit: int = 100,
    ) -> list[dict[str, Any]]:
        """Return the records that fit all filters, the newest first; a row that its own hash contradicts never fits.

        A skill is named by `name` or `name@source`, and found where it was active too; a type by all of it or by its
        first word. `since` and `until` are times as records have them. A text may stand anywhere, in any case.
        """
        filters = AuditFilters(
            skill=skill,
            type=type,
            outcome=outcome,
            session=session,
            user=user,
            agent=agent,
            digest=digest,
            since=since,
            until=until,
            text=text,
        )
        found = (one.record for one in self.matching(filters, batch=limit) if one.record is not None)
        return list(itertools.islice(found, max(0, limit)))

    def matching(
        self, filters: AuditFilters, *, before: int = _NONE_AFTER, batch: int = _BATCH
    ) -> Iterator[ChainedRecord]:
        """Yield the records below a number that fit, the newest first, without those that their own hash contradicts.

        So many are read at once as a `batch` has.
        """
        where, values = filters.condition(self.pool.kind)
        size = _BATCH if filters.is_rough else max(1, min(_BATCH, batch))
        sql = f"{_SELECT}{where} AND seq < ? ORDER BY seq DESC LIMIT ?"
        while True:
            rows = self._rows.statement(sql, *values, before, size)
            for row in rows:
                chained = self._chained(row)
                if chained.is_whole and chained.record is not None and filters.fits(chained.record):
                    yield chained
            if len(rows) < size:
                return
            before = rows[-1][0]

    def _chained(self, row: tuple[Any, ...]) -> ChainedRecord:
        return chained_record(self.tenant, row)

    def keep_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        """Keep a signed checkpoint beside the records."""
        with self._rows.transaction():
            self._rows.change(_INSERT_CHECKPOINT, *(checkpoint[name] for name in _CHECKPOINT))

    def checkpoints(self) -> list[dict[str, Any]]:
        """Return the checkpoints beside the records, in order."""
        rows = self._rows.statement(_CHECKPOINTS)
        return [{"tenant": self.tenant, **dict(zip(_CHECKPOINT, row, strict=True))} for row in rows]

    def has_checkpoint(self, seq: int, key: str) -> bool:
        """Return whether a checkpoint at a record, signed by a key, is kept beside the records."""
        return bool(self._rows.statement(_HAS_CHECKPOINT, seq, key))


def chained_record(tenant: str, row: Sequence[Any]) -> ChainedRecord:
    """Return the record in a row of the columns of `CHAINED`; `tenant` is its own, as its content has it."""
    seq, text, previous, made, *columns = row
    return ChainedRecord(
        tenant=tenant,
        seq=seq,
        record=parse_record(text),
        text=text,
        previous=previous,
        hash=made,
        columns=dict(zip(COLUMNS, columns, strict=True)),
    )


def columns_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns that a record is searched by."""
    # Without a call for each: every record is looked at when it is written and when it is verified.
    found = {column: value if isinstance(value := record.get(name), str) else "" for column, name in _FIELDS.items()}
    by, user, agent = record.get("by"), text_column(record.get("user")), text_column(record.get("agent"))
    kind = _ACTORS.get(by, "") if isinstance(by, str) else ""
    if not kind:
        kind = "user" if user else "agent" if agent else ""
    found["actor_kind"] = kind
    found["actor_id"] = user if kind == "user" else agent or user if kind == "host" else agent
    found["skill_ref"] = skill_ref(record)
    return found


def chain_hash(previous: str, text: str) -> str:
    """Return the hash of a record that follows the one with the hash `previous`."""
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()


def follows(seq: int, previous: str, row: tuple[Any, Any, Any, Any]) -> bool:
    """Return whether a row (number, text, previous hash, hash) comes next after a record of a number and a hash."""
    number, text, before, made = row
    is_next = type(number) is int and number == seq + 1 and before == previous
    return is_next and type(text) is str and chain_hash(previous, text) == made


def is_decision(text: str) -> bool:
    """Return whether decisions depend on a record."""
    return _DECISION.search(text) is not None


def canonical(record: Mapping[str, Any]) -> str:
    r"""Return the canonical JSON of a record, or of the nearest that JSON can hold; no content makes it fail.

    >>> canonical({"b": float("nan"), "a": "\ud800", "c": 1.0})
    '{"a":"\\\\ud800","b":"nan","c":1}'
    """
    return _to_canonical(record)[0]


def _to_canonical(record: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the canonical JSON of a record, and what a reader of it gets; of a tuple that is a list."""
    text = _serialize_simple(record)
    if text is not None and len(text) <= _MAX_LENGTH:
        return text, record
    text = text or serialize(record)
    if text is None or len(text) > _MAX_LENGTH:
        text = serialize_anything(record)
    return text, json.loads(text)


def canonical_or_none(record: Mapping[str, Any]) -> str | None:
    """Return the canonical JSON of a record; None for one that has none, or that nobody could read."""
    return _serialize_simple(record) or serialize(record)


def _serialize_simple(record: Mapping[str, Any]) -> str | None:
    """Return the canonical JSON of a simple record at a tenth of the time; None for any other.

    Python's own JSON is canonical but for names that are not ASCII, which it sorts otherwise, and for some numbers.
    """
    parts = []
    try:
        names = sorted(record)
        if not "".join(names).isascii():
            return None
        for name in names:
            value = record[name]
            kind = type(value)
            if kind is str or kind is tuple:
                form = _FORMS[value]
            elif kind is list:
                form = _FORMS[tuple(value)]
            elif kind is bool or value is None:
                form = _CONSTANTS[value]
            else:
                number = _serialize_number(value)
                if number is None:
                    return None
                form = number
            parts.append(f"{_FORMS[name]}:{form}")
    except (TypeError, ValueError, RecursionError):
        return None
    return f"{{{','.join(parts)}}}"


def _serialize_number(value: Any) -> str | None:
    """Return a number as canonical JSON has it; None for one that Python writes otherwise, and for anything else."""
    kind = type(value)
    if kind is int or (kind is float and value.is_integer()):
        return str(int(value)) if -MAX_EXACT <= value <= MAX_EXACT else None
    return repr(value) if kind is float and _LEAST_PLAIN <= abs(value) <= _MOST_PLAIN else None


class _CanonicalForms(BoundedCache[Any, str]):
    """The canonical JSON of texts and of tuples of texts; short ones are kept, because records repeat much."""

    def __missing__(self, value: Any) -> str:
        """Raises `ValueError` for a lone surrogate, and for a tuple of anything but texts."""
        if type(value) is tuple and any(type(item) is not str for item in value):
            raise ValueError("not a tuple of texts")
        form = _ENCODE(value)
        if not form.isascii():
            form.encode()  # raises for a lone surrogate
        if len(form) <= _MAX_CACHED:
            self[value] = form
        return form


_FORMS = _CanonicalForms(2_000)


def parse_record(text: str) -> dict[str, Any] | None:
    """Return the record in a text; None where the text is not in the canonical form that the log writes.

    >>> parse_record('{"seq":1}'), parse_record('{"seq":1,"seq":2}'), parse_record('{"seq": 1}')
    ({'seq': 1}, None, None)
    """
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or not is_readable(found):
            return None
        if _ENCODE(found) == text:
            return found
    except (TypeError, ValueError, RecursionError):
        return None
    found = parse_strict(text)  # whole numbers that only a float can hold are written like integers
    return found if found is not None and canonical_or_none(found) == text else None
