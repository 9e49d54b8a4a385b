"""The audit trail of one tenant: records in the order they came, each tied to the one before by its hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metier.errors import StoreUnavailable
from metier.hints import for_people
from metier.store.canonical_json import FIRST, OWN, canonical_text, chain_hash, escape_surrogates, written
from metier.store.link import (
    COLUMNS,
    ChainedRecord,
    ChainPosition,
    columns_of,
    is_decision,
    record_of,
    skill_ref,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from metier.store.connection_pool import Value
    from metier.store.rows import TenantRows

_NOT_SAID = OWN - {"seq", "tenant"}
_CHECKPOINT = ("seq", "hash", "signed_at", "key_id", "signature")

_LAST = "SELECT seq, hash FROM audit_log WHERE tenant = ? ORDER BY seq DESC LIMIT 1"
_INSERT = (
    f"INSERT INTO audit_log (tenant, seq, data_json, prev_hash, hash, {', '.join(COLUMNS)}) "
    f"VALUES ({', '.join('?' * (5 + len(COLUMNS)))})"
)
_SELECT = f"SELECT seq, data_json, prev_hash, hash, {', '.join(COLUMNS)} FROM audit_log WHERE tenant = ?"
_INSERT_CHECKPOINT = (
    f"INSERT INTO audit_checkpoints (tenant, {', '.join(_CHECKPOINT)}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_CHECKPOINTS = f"SELECT {', '.join(_CHECKPOINT)} FROM audit_checkpoints WHERE tenant = ? ORDER BY seq, key_id"
_HAS_CHECKPOINT = "SELECT 1 FROM audit_checkpoints WHERE tenant = ? AND seq = ? AND key_id = ?"
_BATCH = 500
_NONE_AFTER = 2**62
_CONTAINS = {"sqlite": "instr(data_json, ?) > 0", "postgresql": "strpos(data_json, ?) > 0"}


class AuditTable:
    """The records of one tenant. They can be added to and read; nothing can be changed or removed.

    >>> import tempfile
    >>> from metier.store import Store
    >>> with Store.open(f"sqlite:///{tempfile.mkdtemp()}/metier.db") as store:
    ...     trail = store.of("acme").audit
    ...     stamp = trail.append({"type": "skill.activated", "skill": "pdf", "decision": "allow"})
    ...     stamp.seq, [record["skill"] for record in trail.search(type="skill")]
    (1, ['pdf'])
    """

    def __init__(
        self, rows: TenantRows, follow: Callable[[ChainPosition, ChainPosition], None] = lambda *_: None
    ) -> None:
        """The records among the rows of a tenant; `follow` is told of the last one and of one that came after it."""
        self._rows = rows
        self._follow = follow
        self.tenant = rows.tenant_in_records
        """Whose it is, as its records say it."""

    def append(self, record: Mapping[str, Any], *, wait: float | None = None) -> ChainPosition:
        """Keep a record, whatever is in it: what JSON cannot hold is written so that it can.

        Of `seq`, `tenant`, `prev_hash`, `hash` and `checkpoint`, what the trail knows counts, not what a record says.
        `wait` is for how many seconds others may be in the way; then it raises `StoreUnavailable`.
        """
        said: dict[str, Any] = {"seq": 0, "tenant": ""}
        said.update(record)
        for name in _NOT_SAID:
            said.pop(name, None)
        said["tenant"] = self.tenant
        with self._rows.transaction(wait):
            last = self._rows.statement(_LAST)
            if last and type(last[0][0]) is not int:
                raise StoreUnavailable(
                    "The last row of the audit trail has no number: it was put there.",
                    hint=for_people("`metier audit verify` says what is wrong with it."),
                )
            seq, previous = (last[0][0] + 1, last[0][1]) if last else (1, FIRST)
            said["seq"] = seq
            text, kept = written(said)
            made = chain_hash(previous, text)
            columns = columns_of(kept)
            self._rows.change(_INSERT, seq, text, previous, made, *columns.values())
        stamp = ChainPosition(seq=seq, hash=made)
        if not is_decision(text) and not self._rows.driver.is_in_transaction:
            self._follow(ChainPosition(seq=seq - 1, hash=previous), stamp)
        return stamp

    def last(self) -> ChainPosition | None:
        """The last record's place and hash; None while there is none."""
        rows = self._rows.statement(_LAST)
        return ChainPosition(seq=rows[0][0], hash=rows[0][1]) if rows else None

    def walk(self, *, start: int | None = None, batch: int = _BATCH) -> Iterator[ChainedRecord]:
        """All rows in order, or all from a number on; those that others add meanwhile too.

        Without `start` that is every row, also one whose number no record can have.
        """
        where, after = ("", ()) if start is None else (" AND seq >= ?", (start,))
        while True:
            rows = self._rows.statement(f"{_SELECT}{where} ORDER BY seq LIMIT ?", *after, batch)
            for row in rows:
                yield self._link(row)
            if len(rows) < batch:
                return
            where, after = " AND seq > ?", (rows[-1][0],)

    def tail(self, count: int) -> list[dict[str, Any]]:
        """The last records, the newest at the end."""
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
        """The records that all of it is true of, the newest first; a row that its own hash contradicts is none.

        A skill is named by `name` or `name@source`, and found where it was active too; a type by all of it or by its
        first word. `since` and `until` are times as records have them. A text may stand anywhere, in any case.
        """
        where: list[str] = []
        values: list[Value] = []

        def must(condition: str, *given: Value) -> None:
            where.append(condition)
            values.extend(given)

        for column, value in {"outcome": outcome, "session": session, "digest": digest}.items():
            if value is not None:
                must(f"{column} = ?", escape_surrogates(value))
        if type is not None:
            family = escape_surrogates(type)
            if "." in family:
                must("event_type = ?", family)
            else:
                must("event_type >= ? AND event_type < ?", f"{family}.", f"{family}/")
        if since is not None:
            must("ts >= ?", escape_surrogates(since))
        if until is not None:
            must("ts < ?", escape_surrogates(until))
        exact = {
            name: escape_surrogates(value)
            for name, value in {"user": user, "agent": agent}.items()
            if value is not None
        }
        for name, value in exact.items():
            must(_CONTAINS[self._rows.driver.kind], f'"{name}":{canonical_text(value)}')
        if skill is not None:
            must(_CONTAINS[self._rows.driver.kind], canonical_text(escape_surrogates(skill).partition("@")[0])[1:-1])
        if text is not None and text.isascii():
            # Of other letters, databases do not know which is the small one of which.
            said = canonical_text(text.lower())[1:-1]
            must(_CONTAINS[self._rows.driver.kind].replace("data_json", "lower(data_json)"), said)
        wanted = _Wanted(
            exact,
            None if skill is None else escape_surrogates(skill),
            None if text is None else escape_surrogates(text),
        )
        return self._newest(" AND ".join(["", *where]), values, wanted, limit)

    def _newest(self, where: str, values: list[Value], wanted: _Wanted, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        before = _NONE_AFTER
        while len(found) < limit:
            size = _BATCH if wanted.is_more else min(_BATCH, limit - len(found))
            sql = f"{_SELECT}{where} AND seq < ? ORDER BY seq DESC LIMIT ?"
            rows = self._rows.statement(sql, *values, before, size)
            for row in rows:
                link = self._link(row)
                if link.is_whole and link.record is not None and wanted.fits(link.record):
                    found.append(link.record)
                    if len(found) == limit:
                        return found
            if len(rows) < size:
                break
            before = rows[-1][0]
        return found

    def _link(self, row: tuple[Any, ...]) -> ChainedRecord:
        seq, text, previous, made, *columns = row
        return ChainedRecord(
            tenant=self.tenant,
            seq=seq,
            record=record_of(text),
            text=text,
            previous=previous,
            hash=made,
            columns=dict(zip(COLUMNS, columns, strict=True)),
        )

    def keep_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        """Keep a signed checkpoint beside the records."""
        with self._rows.transaction():
            self._rows.change(_INSERT_CHECKPOINT, *(checkpoint[name] for name in _CHECKPOINT))

    def checkpoints(self) -> list[dict[str, Any]]:
        """The checkpoints that are kept beside the records, in order."""
        rows = self._rows.statement(_CHECKPOINTS)
        return [{"tenant": self.tenant, **dict(zip(_CHECKPOINT, row, strict=True))} for row in rows]

    def has_checkpoint(self, seq: int, key: str) -> bool:
        """Whether a checkpoint at a record, signed by a key, is kept beside the records."""
        return bool(self._rows.statement(_HAS_CHECKPOINT, seq, key))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a database is not asked, or asked only roughly."""

    exact: Mapping[str, str]
    skill: str | None
    text: str | None

    @property
    def is_more(self) -> bool:
        return bool(self.exact) or self.skill is not None or self.text is not None

    def fits(self, record: dict[str, Any]) -> bool:
        if any(record.get(name) != value for name, value in self.exact.items()):
            return False
        if self.skill is not None and not _is_about(record, self.skill):
            return False
        return self.text is None or _holds(record, self.text.casefold())


def _is_about(record: Mapping[str, Any], skill: str) -> bool:
    active = record.get("active")
    names = [skill_ref(record), *(active if isinstance(active, list) else [])]
    if "@" in skill:
        return skill in names
    return any(isinstance(name, str) and name.partition("@")[0] == skill for name in names)


def _holds(value: Any, text: str) -> bool:
    if isinstance(value, dict):
        return any(_holds(inner, text) for inner in value.values())
    if isinstance(value, list):
        return any(_holds(inner, text) for inner in value)
    return text in str(value).casefold()
