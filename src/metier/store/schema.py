"""The tables of a store, described once for both databases."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import TEXT
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.schema import CreateIndex, CreateTable

from metier.store.audit_log import FIRST
from metier.store.connection_pool import END, creation_file

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect
    from sqlalchemy.schema import SchemaItem

    from metier.store.location import Kind

METADATA = MetaData()
# Compared byte by byte everywhere: the order of a time or a name must not depend on the language of a server.
_TEXT = Text().with_variant(TEXT(collation="C"), "postgresql")
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")


def _dialect(kind: Kind) -> Dialect:
    return SQLiteDialect() if kind == "sqlite" else PGDialect()  # type: ignore[no-untyped-call]


def _text(*names: str) -> list[Column[str]]:
    return [Column(name, _TEXT, nullable=False, server_default="") for name in names]


def _number(*names: str) -> list[Column[int]]:
    return [Column(name, _NUMBER, nullable=False, server_default="0") for name in names]


def _table(
    name: str,
    key: tuple[str, ...],
    *columns: list[Column[str]] | list[Column[int]],
    more: tuple[SchemaItem, ...] = (),
) -> Table:
    """Define a table whose rows belong to a tenant."""
    flat = [column for group in columns for column in group]
    return Table(
        name,
        METADATA,
        Column("tenant", _TEXT, nullable=False),
        *flat,
        PrimaryKeyConstraint("tenant", *key),
        *more,
        sqlite_with_rowid=False,
    )


def _counted(table: str) -> tuple[CheckConstraint, ...]:
    """Return the checks that records are numbered from 1 on. SQLite would accept a text or a fraction too."""
    return (
        CheckConstraint("seq >= 1", name=f"{table}_counted").ddl_if(dialect="postgresql"),
        CheckConstraint("typeof(seq) = 'integer' AND seq >= 1", name=f"{table}_counted").ddl_if(dialect="sqlite"),
    )


def _of_revision() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["tenant", "digest"], ["revisions.tenant", "revisions.digest"])


_table("generations", (), _number("number"))
_table(
    "revisions",
    ("digest",),
    _text("digest", "skill", "frontmatter", "capabilities", "declared", "parent", "first_seen"),
    _number("file_count", "bytes", "kept"),
)
_table(
    "revision_files",
    ("digest", "position"),
    _text("digest", "path", "sha256", "mode", "kind"),
    _number("position", "size"),
    more=(_of_revision(), Index("revision_files_sha256", "sha256")),
)
_table(
    "versions",
    ("location", "number"),
    _text("location", "skill", "digest", "by", "reason", "proposal", "at"),
    _number("number"),
    more=(Index("versions_skill", "tenant", "skill"),),
)
_table("installs", ("location",), _text("location", "skill", "source", "layer", "digest", "state", "by", "at"))
_requests = _table(
    "approval_requests",
    ("id",),
    _text("id", "digest", "skill", "location", "layer", "environment", "capabilities", "new", "scripts"),
    _text("requested_by", "reason", "status", "created_at"),
    _number("number"),
)
_PENDING = _requests.c.status == "pending"
Index(
    "approval_requests_pending",
    _requests.c.tenant,
    _requests.c.digest,
    _requests.c.environment,
    unique=True,
    sqlite_where=_PENDING,
    postgresql_where=_PENDING,
)
_table(
    "approvals",
    ("id",),
    _text("id", "request", "digest", "skill", "location", "layer", "environment", "grants", "tools", "decision"),
    _text("decided_by"),
    _text("reason", "policy", "rule", "decided_at", "expires_at", "revoked_at", "revoked_by", "revoked_reason"),
    _text("fell_to"),
    _number("number"),
    more=(
        Index("approvals_digest", "tenant", "digest"),
        Index("approvals_skill", "tenant", "skill", "location"),
    ),
)
_table("blocks", ("kind", "value"), _text("kind", "value", "reason", "by", "at"))
_table("people", ("name",), _text("name", "kind", "roles", "added_at"))
_table(
    "tokens",
    ("id",),
    _text("id", "person", "label", "secret_hash", "parent", "created_at", "expires_at", "revoked_at"),
    _number("number"),
    more=(
        ForeignKeyConstraint(["tenant", "person"], ["people.tenant", "people.name"]),
        Index("tokens_secret_hash", "secret_hash", unique=True),
    ),
)
_table(
    "scans",
    ("digest", "engine", "number"),
    _text("digest", "engine", "engine_version", "ruleset", "status", "max_severity", "findings", "at"),
    _number("number", "ms"),
)
_table(
    "proposals",
    ("id",),
    _text("id", "kind", "skill", "location", "base_digest", "proposed_digest", "diff", "justification", "evidence"),
    _text("author_kind", "author", "on_behalf_of", "capabilities_new", "status", "reviewer", "comment", "created_at"),
    _text("decided_at", "applied_digest", "recommendations"),
    _number("number"),
)
_table("policies", ("digest", "layer", "path_hash"), _text("digest", "layer", "path_hash", "path", "text", "loaded_at"))
_audit = _table(
    "audit_log",
    ("seq",),
    _number("seq"),
    _text("ts", "event_type", "actor_kind", "actor_id", "env", "session", "trace_id", "skill_ref", "digest", "layer"),
    _text("point", "outcome", "rule_id", "policy_digest", "data_json", "prev_hash", "hash"),
    more=_counted("audit_log"),
)
# Searched in the log, however long: by hash in PostgreSQL, whose other indexes refuse long texts.
for _name in ("digest", "session"):
    Index(f"audit_log_{_name}", _audit.c[_name], postgresql_using="hash")
_table(
    "audit_checkpoints",
    ("seq", "key_id"),
    _number("seq"),
    _text("hash", "signed_at", "key_id", "signature"),
    more=_counted("audit_checkpoints"),
)
Table(
    "blobs",
    METADATA,
    Column("sha256", _TEXT, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
Table("store_version", METADATA, Column("version", Integer, primary_key=True))

_ONLY_HERE: dict[str, set[Kind]] = {"blobs": {"postgresql"}, "store_version": {"postgresql"}}
"""SQLite has a number for the version and a folder for blobs."""

_REFUSAL = "the audit log can only be added to"
_REFUSE = f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
_LAST = "FROM audit_log WHERE tenant = NEW.tenant ORDER BY seq DESC LIMIT 1"
_TRIGGERS: dict[Kind, dict[str, str]] = {
    "sqlite": {
        "audit_log_no_update": f"BEFORE UPDATE ON audit_log {_REFUSE}",
        "audit_log_no_delete": f"BEFORE DELETE ON audit_log {_REFUSE}",
        # REPLACE would remove the old row without a word.
        "audit_log_in_order": "BEFORE INSERT ON audit_log "
        f"WHEN NEW.seq IS NOT 1 + coalesce((SELECT seq {_LAST}), 0) "
        f"OR NEW.prev_hash IS NOT coalesce((SELECT hash {_LAST}), '{FIRST}') {_REFUSE}",
    },
    "postgresql": {
        "audit_log_no_change": "BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_refuse()",
        "audit_log_no_truncate": "BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_refuse()",
        "audit_log_in_order": "BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_in_order()",
    },
}
_FUNCTIONS = {
    "audit_log_refuse": f" BEGIN RAISE EXCEPTION '{_REFUSAL}'; END ",
    "audit_log_in_order": " DECLARE last_seq bigint; last_hash text; "
    f"BEGIN SELECT seq, hash INTO last_seq, last_hash {_LAST}; "
    "IF NEW.seq IS DISTINCT FROM 1 + coalesce(last_seq, 0) "
    f"OR NEW.prev_hash IS DISTINCT FROM coalesce(last_hash, '{FIRST}') "
    f"THEN RAISE EXCEPTION '{_REFUSAL}'; END IF; RETURN NEW; END ",
}
"""The functions of the triggers of PostgreSQL."""
_TRIGGER_TYPES = {
    "audit_log_no_change": (1 | 2 | 8 | 16, "audit_log_refuse"),
    "audit_log_no_truncate": (2 | 32, "audit_log_refuse"),
    "audit_log_in_order": (1 | 2 | 4, "audit_log_in_order"),
}
"""The bits of a trigger in the catalogue of PostgreSQL: for each row, before, INSERT, DELETE, UPDATE, TRUNCATE."""


def tables_of(kind: Kind) -> list[Table]:
    """Return the tables of a kind of database, those first that others refer to."""
    return [table for table in METADATA.sorted_tables if kind in _ONLY_HERE.get(table.name, {kind})]


def creation_text(kind: Kind) -> str:
    """Return the statements that make all tables, as the file has them: a new store needs no SQLAlchemy.

    `python -m metier.store.schema` writes the files again.
    """
    dialect = _dialect(kind)
    made: list[str] = []
    for table in tables_of(kind):
        made.append(str(CreateTable(table).compile(dialect=dialect)))
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        made += [str(CreateIndex(index).compile(dialect=dialect)) for index in indexes]
    lines = "".join(statement.strip() + END for statement in (*made, *protection(kind))).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def described() -> list[tuple[str, str, str]]:
    """Return the parts of the schema as the catalogue of PostgreSQL describes them: kind, name and definition."""
    found = []
    for table in tables_of("postgresql"):
        found.append(("table", table.name, "p f 0 0"))
        for column in table.c:
            kind = column.type.compile(_dialect("postgresql")).partition(" ")[0].lower()
            found.append(("column", f"{table.name}.{column.name}", f"{kind} NEVER"))
        found += [("index", str(index.name), "") for index in table.indexes]
        key = ", ".join(column.name for column in table.primary_key)
        found.append(("constraint", f"{table.name}.{table.name}_pkey", f"PRIMARY KEY ({key})"))
    for name in ("audit_log", "audit_checkpoints"):
        found.append(("constraint", f"{name}.{name}_counted", "CHECK ((seq >= 1))"))
    for name, (moments, function) in _TRIGGER_TYPES.items():
        found.append(("trigger", name, f"audit_log O {moments} t {function} {_FUNCTIONS[function]}"))
    return found


def protection(kind: Kind) -> list[str]:
    """Return the statements that close the audit log to everything but the next record."""
    made = [f"CREATE TRIGGER {name} {text}" for name, text in _TRIGGERS[kind].items()]
    if kind == "sqlite":
        return made
    functions = _FUNCTIONS.items()
    return [
        *(f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$" for name, body in functions),
        *made,
    ]


def unprotection(kind: Kind) -> list[str]:
    """Return the statements that open it again for a restore, once nobody else can write."""
    if kind == "sqlite":
        return [f"DROP TRIGGER IF EXISTS {name}" for name in _TRIGGERS[kind]]
    return [
        *(f"DROP TRIGGER IF EXISTS {name} ON audit_log" for name in _TRIGGERS[kind]),
        *(f"DROP FUNCTION IF EXISTS {name}()" for name in _FUNCTIONS),
    ]


@functools.cache
def columns_of(table: str) -> tuple[str, ...]:
    """Return the columns of a table, in order."""
    return tuple(METADATA.tables[table].c.keys())


@functools.cache
def kinds_of(table: str) -> dict[str, type]:
    """Return the type of each column."""
    return {column.name: column.type.python_type for column in METADATA.tables[table].c}


@functools.cache
def key_of(table: str) -> tuple[str, ...]:
    """Return the columns of the primary key."""
    return tuple(column.name for column in METADATA.tables[table].primary_key)


if __name__ == "__main__":
    for each in _TRIGGERS:
        creation_file(each).write_text(creation_text(each), encoding="utf-8", newline="\n")
