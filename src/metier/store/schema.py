"""The tables of a store, for both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
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

from metier.store.migrations import END, creation_file

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect
    from sqlalchemy.schema import SchemaItem

    from metier.store.url import Kind

METADATA = MetaData()
# Compared byte by byte everywhere: the order of a time or a name must not depend on the language of a server.
_TEXT = Text().with_variant(TEXT(collation="C"), "postgresql")
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")


def dialect_of(kind: Kind) -> Dialect:
    """How statements for a kind of database are written: with `?` where a value goes."""
    if kind == "sqlite":
        return SQLiteDialect(paramstyle="qmark")
    return PGDialect(paramstyle="qmark")  # type: ignore[no-untyped-call]


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
    """A table whose rows belong to a tenant."""
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
    _text("id", "person", "label", "secret_hash", "created_at", "expires_at", "revoked_at"),
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
)
_table("policies", ("digest", "layer", "path_hash"), _text("digest", "layer", "path_hash", "path", "text", "loaded_at"))
_audit = _table(
    "audit_log",
    ("seq",),
    _number("seq"),
    _text("ts", "event_type", "actor_kind", "actor_id", "env", "session", "trace_id", "skill_ref", "digest", "layer"),
    _text("point", "outcome", "rule_id", "policy_digest", "data_json", "prev_hash", "hash"),
)
# What is looked for in a trail, however long: by hash in PostgreSQL, whose other indexes refuse long texts.
for _name in ("digest", "session"):
    Index(f"audit_log_{_name}", _audit.c[_name], postgresql_using="hash")
_table(
    "audit_checkpoints",
    ("seq", "key_id"),
    _number("seq"),
    _text("hash", "signed_at", "key_id", "signature"),
)
Table(
    "blobs",
    METADATA,
    Column("sha256", _TEXT, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
Table("store_version", METADATA, Column("version", Integer, primary_key=True))

_ONLY_HERE: dict[str, set[Kind]] = {"blobs": {"postgresql"}, "store_version": {"postgresql"}}
"""SQLite has a number for the version, and a folder for blobs."""

_REFUSAL = "the audit log can only be added to"
_REFUSE = f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
_TRIGGERS: dict[Kind, dict[str, str]] = {
    "sqlite": {
        "audit_log_no_update": f"BEFORE UPDATE ON audit_log {_REFUSE}",
        "audit_log_no_delete": f"BEFORE DELETE ON audit_log {_REFUSE}",
        # REPLACE would remove the old row without a word.
        "audit_log_no_replace": "BEFORE INSERT ON audit_log "
        f"WHEN EXISTS (SELECT 1 FROM audit_log WHERE tenant = NEW.tenant AND seq = NEW.seq) {_REFUSE}",
    },
    "postgresql": {
        "audit_log_no_change": "BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_refuse()",
        "audit_log_no_truncate": "BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_refuse()",
    },
}


def tables_of(kind: Kind) -> list[Table]:
    """The tables of a kind of database, those first that others refer to."""
    return [table for table in METADATA.sorted_tables if kind in _ONLY_HERE.get(table.name, {kind})]


def written(kind: Kind) -> str:
    """The statements that make all tables, as they stand in a file: a new store is made of that, without SQLAlchemy.

    `python -m metier.store.schema` writes the files again.
    """
    dialect = dialect_of(kind)
    made: list[str] = []
    for table in tables_of(kind):
        made.append(str(CreateTable(table).compile(dialect=dialect)))
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        made += [str(CreateIndex(index).compile(dialect=dialect)) for index in indexes]
    lines = "".join(statement.strip() + END for statement in (*made, *protection(kind))).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def triggers_of(kind: Kind) -> list[str]:
    """The names of the triggers that keep the audit log."""
    return list(_TRIGGERS[kind])


def protection(kind: Kind) -> list[str]:
    """The statements that close the audit log to everything but new records."""
    made = [f"CREATE TRIGGER {name} {text}" for name, text in _TRIGGERS[kind].items()]
    if kind == "sqlite":
        return made
    body = f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
    return [f"CREATE FUNCTION audit_log_refuse() RETURNS trigger LANGUAGE plpgsql AS {body}", *made]


def unprotection(kind: Kind) -> list[str]:
    """The statements that open it again, for a backup that is brought back, once nobody else can write."""
    if kind == "sqlite":
        return [f"DROP TRIGGER {name}" for name in _TRIGGERS[kind]]
    return [*(f"DROP TRIGGER {name} ON audit_log" for name in _TRIGGERS[kind]), "DROP FUNCTION audit_log_refuse()"]


if __name__ == "__main__":
    for each in _TRIGGERS:
        creation_file(each).write_text(written(each), encoding="utf-8", newline="\n")
