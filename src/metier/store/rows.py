"""Tables, records as their rows, and the rows of one tenant: the only place that fills in and asks for the tenant."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from metier._lazy import dataclass, field, fields, pattern
from metier.errors import IntegrityFailed, InvalidArgument
from metier.hints import for_people
from metier.store.canonical_json import escape_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from metier.store.connection_pool import ConnectionPool, Mark, Value
    from metier.store.location import Kind
    from metier.store.schema import TableSchema

Record = TypeVar("Record")

_GENERATION = "SELECT number FROM generations WHERE tenant = ?"
_VERSION = (
    "SELECT (SELECT number FROM generations WHERE tenant = audit_log.tenant), seq, hash "
    "FROM audit_log WHERE tenant = ? ORDER BY seq DESC LIMIT 1"
)
BUMP = {
    "sqlite": "INSERT INTO generations (tenant, number) VALUES (?, ?) "
    "ON CONFLICT (tenant) DO UPDATE SET number = max(generations.number + 1, excluded.number)",
    "postgresql": "INSERT INTO generations (tenant, number) VALUES (?, ?) "
    "ON CONFLICT (tenant) DO UPDATE SET number = greatest(generations.number + 1, excluded.number)",
}
MAX_TENANT = 200
StateVersion: TypeAlias = tuple[Any, ...]
"""The number of the last change, and the number and the hash of the newest audit record."""
_ID_CHARACTERS = "0123456789abcdefghjkmnpqrstvwxyz"
RESTORE = for_people("Bring back a backup with `metier store restore FILE --force`.")
"""The hint for damage beyond repair."""
MAX_KEY = 2_000
"""The longest text in bytes that may be a part of a key: a page of an index must hold a few of them."""
_COLUMN_TYPES: dict[Kind, dict[str, str]] = {
    "sqlite": {"key": "TEXT", "text": "TEXT DEFAULT ''", "number": "INTEGER DEFAULT '0'"},
    # Compared byte by byte everywhere: the order of a time or a name must not depend on the language of a server.
    "postgresql": {
        "key": 'TEXT COLLATE "C"',
        "text": "TEXT COLLATE \"C\" DEFAULT ''",
        "number": "BIGINT DEFAULT '0'",
        "bytes": "BYTEA",
        "serial": "SERIAL",
    },
}
# SQLite would accept a text or a fraction too.
_COUNTED: dict[Kind, str] = {"sqlite": "typeof(seq) = 'integer' AND seq >= 1", "postgresql": "seq >= 1"}
_QUOTED: dict[Kind, dict[str, str]] = {"sqlite": {"by": '"by"'}, "postgresql": {"new": '"new"'}}
"""Names in quotes, as in every store there is: SQLite keeps the text of a statement, which `checks` compares."""
_MARK = "\ufdd0"  # a code point that is no character in any text
_UNSTORABLE = pattern(f"[\0\ud800-\udfff{_MARK}]")
# Nothing else is escaped, or one text could be stored in two ways, of which a search finds but one.
_ESCAPED = pattern(f"{_MARK}(0000|d[89a-f][0-9a-f]{{2}}|{ord(_MARK):04x})")


@dataclass(frozen=True, kw_only=True)
class Table(Generic[Record]):
    """A table whose rows are records of one kind."""

    name: str
    record: type[Record]
    order: tuple[str, ...]
    """The order of records."""
    only: tuple[str, ...] = ()
    """The fields of the record that have a column, where not all have one."""
    json: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """The types of the fields that are lists and mappings."""

    @functools.cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of a record."""
        return self.only or tuple(one.name for one in fields(self.record))  # type: ignore[arg-type]

    def to_row(self, record: Record) -> dict[str, Value]:
        """Return the columns of a record; a value that is no text and no number becomes JSON."""
        values = {name: getattr(record, name) for name in self.columns}
        return {name: value if isinstance(value, str | int) else to_json(value) for name, value in values.items()}

    def from_row(self, row: Sequence[Any]) -> Record:
        """Return a record from its columns."""
        values = dict(zip(self.columns, row, strict=True))
        try:
            for name, make in self.json.items():
                values[name] = make(json.loads(values[name] or "null") or ())
        except (ValueError, TypeError, RecursionError) as error:
            what = re.sub(r"(?<!^)(?=[A-Z])", " ", self.record.__name__).lower()
            raise IntegrityFailed(f"A stored {what} cannot be read: {error}.", hint=RESTORE) from None
        return self.record(**values)


class TenantRows:
    """The rows of one tenant in the tables."""

    def __init__(self, pool: ConnectionPool, tenant: str) -> None:
        if not isinstance(tenant, str) or len(tenant) > MAX_TENANT:
            raise InvalidArgument(f"A tenant is a text of at most {MAX_TENANT} characters.", hint="Name another one.")
        self.pool = pool
        self.tenant = tenant
        self.tenant_in_records = tenant if tenant.isascii() else escape_surrogates(tenant)
        """The tenant as audit records have it."""

    def transaction(self, wait: float | None = None) -> AbstractContextManager[None]:
        """Begin a transaction after earlier ones of the same tenant; `wait` is the longest wait in seconds."""
        return self.pool.transaction(encode_text(self.tenant), wait)

    def snapshot(self) -> AbstractContextManager[None]:
        """Begin to read from one moment."""
        return self.pool.snapshot()

    def statement(self, sql: str, *parameters: Value) -> list[tuple[Any, ...]]:
        """Return the rows of a statement whose first parameter is the tenant, `... WHERE tenant = ? AND ...`."""
        return self.pool.execute(sql, self._with_tenant(sql, parameters))

    def change(self, sql: str, *parameters: Value, before: Sequence[Value] = ()) -> int:
        """Return how many rows such a statement changed; its values `before` the tenant are those of `SET`."""
        return self.pool.change(sql, self._with_tenant(sql, parameters, before))

    def change_all(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Execute a statement whose first value is the tenant for each of many rows of values."""
        self.pool.change_all(sql, ([self.tenant, *row] for row in rows))

    def _with_tenant(self, sql: str, parameters: Sequence[Value], before: Sequence[Value] = ()) -> list[Value]:
        if "tenant" not in sql.split("?")[len(before)]:
            raise InvalidArgument("The first value of a statement is the tenant.", hint="Write `tenant = ?` first.")
        return [*before, self.tenant, *parameters]

    def select(self, table: Table[Record], **where: Value) -> list[Record]:
        """Return the records with these values."""
        condition, values = self._condition(where)
        columns, order = ", ".join(table.columns), ", ".join(table.order)
        sql = f"SELECT {columns} FROM {table.name} WHERE {condition} ORDER BY {order}"
        return [table.from_row(row) for row in self.pool.execute(sql, values)]

    def first(self, table: Table[Record], **where: Value) -> Record | None:
        """Return the first record with these values."""
        return next(iter(self.select(table, **where)), None)

    def insert(self, table: Table[Record], record: Record, *, unless_there: bool = False, **more: Value) -> bool:
        """Add a record, with values of other columns; with `unless_there`, False for one whose key is there."""
        values = {**table.to_row(record), **more, "tenant": self.tenant}
        sql = insert_statement(table.name, values)
        return self._change(f"{sql} ON CONFLICT DO NOTHING" if unless_there else sql, list(values.values()))

    def insert_all(self, table: Table[Any], rows: Sequence[Mapping[str, Value]]) -> None:
        """Add many rows with the same columns, inside of a transaction."""
        if rows:
            sql = insert_statement(table.name, (*rows[0], "tenant"))
            self.pool.change_all(sql, ([*row.values(), self.tenant] for row in rows))

    def append(self, table: Table[Record], record: Record, *, unless_there: bool = False) -> bool:
        """Add a record with the next number of a table whose listings keep the order of arrival."""
        with self.transaction():
            return self.insert(table, record, unless_there=unless_there, number=self.next_number(table))

    def next_number(self, table: Table[Any], **where: Value) -> int:
        """Return the number after those of the records with these values, inside of a transaction."""
        condition, values = self._condition(where)
        last: int | None = self.pool.execute(f"SELECT max(number) FROM {table.name} WHERE {condition}", values)[0][0]
        return (last or 0) + 1

    def replace(self, table: Table[Record], record: Record, key: tuple[str, ...], **more: Value) -> None:
        """Add a record in place of one with the same values in the columns of the key."""
        values = {**table.to_row(record), **more, "tenant": self.tenant}
        changed = ", ".join(f"{name} = excluded.{name}" for name in values if name not in (*key, "tenant"))
        conflict = f" ON CONFLICT (tenant, {', '.join(key)}) DO UPDATE SET {changed}"
        self._change(insert_statement(table.name, values) + conflict, list(values.values()))

    def update(self, table: Table[Any], changes: Mapping[str, Value], **where: Value) -> bool:
        """Change the records with these values; False when there is none."""
        condition, values = self._condition(where)
        changed = ", ".join(f"{name} = ?" for name in changes)
        return self._change(f"UPDATE {table.name} SET {changed} WHERE {condition}", [*changes.values(), *values])

    def delete(self, table: Table[Any], **where: Value) -> bool:
        """Remove the records with these values; False when there is none."""
        condition, values = self._condition(where)
        return self._change(f"DELETE FROM {table.name} WHERE {condition}", values)

    def _condition(self, where: Mapping[str, Value]) -> tuple[str, list[Value]]:
        where = {**where, "tenant": self.tenant}
        return " AND ".join(f"{name} = ?" for name in where), list(where.values())

    def _change(self, sql: str, values: Sequence[Value]) -> bool:
        with contextlib.nullcontext() if self.pool.is_in_transaction else self.transaction():
            return self.pool.change(sql, values) > 0

    def marked_version(self) -> tuple[StateVersion, Mark | None]:
        """Return `state_version`, and a mark of the moment before."""
        rows, mark = self.pool.execute_marked(_VERSION, (self.tenant,))
        return rows[0] if rows else self.state_version(), mark

    def state_version(self) -> StateVersion:
        """Return a version that differs whenever something changed that decisions depend on.

        The number that `bump` changes can be set back by SQL. Prohibitions are in the audit log as well, and that only
        grows: so the newest record counts too.
        """
        rows = self.pool.execute(_VERSION, (self.tenant,), decode=False)  # numbers and a hash
        if rows:
            return rows[0]
        generation = self.pool.execute(_GENERATION, (self.tenant,))
        return (generation[0][0] if generation else None, 0, "")

    def bump(self) -> None:
        """Note a change that decisions depend on, in the transaction that makes it."""
        # The clock is in it so that no number comes twice, also after a store was made anew or restored.
        self.pool.change(BUMP[self.pool.kind], (self.tenant, time.time_ns() // 1_000_000))


def creation(kind: Kind) -> list[str]:
    """Return the statements that make all tables of a new store."""
    from metier.store.schema import PROTECTION, TABLES

    made: list[str] = []
    for table in TABLES:
        if kind in table.kinds:
            made += _table_statements(table, kind)
    return [*made, *PROTECTION[kind]]


def column_types(table: TableSchema) -> dict[str, str]:
    """Return the columns of a table in order, each with its type."""
    columns = (column.partition(":") for column in table.columns.split())
    return {name: column or "text" for name, _, column in columns}


def _table_statements(table: TableSchema, kind: Kind) -> list[str]:
    types = _COLUMN_TYPES[kind]
    parts = [
        f"{_QUOTED[kind].get(name, name)} {types[column]} NOT NULL" for name, column in column_types(table).items()
    ]
    parts.append(f"PRIMARY KEY ({', '.join(table.key)})")
    if table.is_counted:
        parts.append(f"CONSTRAINT {table.name}_counted CHECK ({_COUNTED[kind]})")
    if table.refers:
        parts.append(f"FOREIGN KEY{table.refers}")
    body, end = ",\n\t".join(parts), "\n WITHOUT ROWID" if kind == "sqlite" else ""
    made = [f"CREATE TABLE {table.name} (\n\t{body}\n){end}"]
    for index in table.indexes:
        unique = "UNIQUE " if index.is_unique else ""
        using = "USING hash " if index.by_hash and kind == "postgresql" else ""
        where = f" WHERE {index.where}" if index.where else ""
        made.append(f"CREATE {unique}INDEX {index.name} ON {table.name} {using}({', '.join(index.columns)}){where}")
    return made


def insert_statement(table: str, columns: Iterable[str]) -> str:
    """Return the statement that adds a row with values for these columns."""
    names = tuple(columns)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


def tenant_of_token(pool: ConnectionPool, secret_hash: str) -> str | None:
    """Return the tenant of a token: the one question that is asked before the tenant is known."""
    rows = pool.execute("SELECT tenant FROM tokens WHERE secret_hash = ?", (secret_hash,))
    return rows[0][0] if rows else None


def terms_of(*parts: object) -> str:
    """Return the digest of all values of a row, for the record that vouches for it.

    >>> terms_of("a-1", ["scripts"]) == terms_of("a-1", ["scripts", "hooks"])
    False
    """
    text = json.dumps(parts, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def now() -> str:
    """Return the current time as all records have it: UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def new_id(letter: str) -> str:
    """Return an id that tells nothing but its kind: `a-7f3k2m9q`."""
    return f"{letter}-{''.join(_ID_CHARACTERS[byte & 31] for byte in os.urandom(8))}"


def require_key(what: str, text: object) -> str:
    """Return a text that may be a part of a key; raises `InvalidArgument` for one that is empty or too long."""
    if not isinstance(text, str) or not text or len(encode_text(text).encode()) > MAX_KEY:
        raise InvalidArgument(f"The {what} must be a text of 1 to {MAX_KEY} bytes.", hint=f"Name another {what}.")
    return text


def given(**values: Value | None) -> dict[str, Value]:
    """Return the values that are not None, for a listing of which each is optional."""
    return {name: value for name, value in values.items() if value is not None}


def require_choice(what: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise `InvalidArgument` for a value that is none of the choices."""
    if value not in choices:
        raise InvalidArgument(f"{value!r:.100} is no {what}.", hint=f"Use one of: {', '.join(choices)}.")


def to_json(value: object) -> str:
    """Return a value as JSON in plain ASCII, the same for the same value."""
    try:
        return json.dumps(value, separators=(",", ":"), default=_to_json_type)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"A value cannot be kept as JSON: {error}.", hint="Use texts, numbers and lists."
        ) from None


def _to_json_type(value: object) -> object:
    if isinstance(value, frozenset | set):
        return sorted(value)
    if hasattr(value, "items"):
        return dict(value.items())
    raise TypeError(f"{type(value).__name__} is none of its types")


def encode_text(text: str) -> str:
    """Return a text that every database can hold: a code point that is no character becomes a mark with its number.

    >>> decode_text(encode_text("a\\0b")) == "a\\0b"
    True
    """
    if text.isascii() and "\0" not in text:
        return text
    return _UNSTORABLE.sub(lambda found: f"{_MARK}{ord(found[0]):04x}", text)


def decode_text(text: str) -> str:
    """Return the text that was encoded."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if _MARK in text else text


def decode_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the same rows, with every text in them as it was before it was encoded."""
    for number, row in enumerate(rows):
        for value in row:
            if type(value) is str and not value.isascii() and _MARK in value:
                rows[number] = tuple(decode_text(value) if type(value) is str else value for value in row)
                break
    return rows
