"""The tables of a store, described once as data: statements of both databases, backups and checks derive from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.store.audit_log import FIRST
from metier.store.rows import column_types

if TYPE_CHECKING:
    from metier.store.location import Kind

_PYTHON = {"key": str, "text": str, "number": int, "bytes": bytes, "serial": int}
_IN_CATALOGUE = {"key": "text", "text": "text", "number": "bigint", "bytes": "bytea", "serial": "integer"}
"""The names of the types of columns in the catalogue of PostgreSQL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An index of a table."""

    name: str
    columns: tuple[str, ...]
    is_unique: bool = False
    where: str = ""
    by_hash: bool = False
    """Whether PostgreSQL uses a hash: its other indexes refuse long texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """A table: its columns in order, its key and what else the database holds it to."""

    name: str
    columns: str
    """The names of its columns in order, each with its type where that is not `text`; a `key` has no default."""
    key: tuple[str, ...]
    refers: str = ""
    """The foreign key, if there is one."""
    is_counted: bool = False
    """Whether records are numbered from 1 on."""
    indexes: tuple[Index, ...] = ()
    kinds: tuple[Kind, ...] = ("sqlite", "postgresql")


TABLES = (
    TableSchema(
        name="approval_requests",
        columns="tenant:key id digest skill location layer environment capabilities new scripts requested_by reason "
        "status created_at number:number",
        key=("tenant", "id"),
        indexes=(
            Index(
                name="approval_requests_pending",
                columns=("tenant", "digest", "environment"),
                is_unique=True,
                where="status = 'pending'",
            ),
        ),
    ),
    TableSchema(
        name="approvals",
        columns="tenant:key id request digest skill location layer environment grants tools decision decided_by "
        "reason policy rule decided_at expires_at revoked_at revoked_by revoked_reason fell_to "
        "number:number",
        key=("tenant", "id"),
        indexes=(
            Index(name="approvals_digest", columns=("tenant", "digest")),
            Index(name="approvals_skill", columns=("tenant", "skill", "location")),
        ),
    ),
    TableSchema(
        name="audit_checkpoints",
        columns="tenant:key seq:number hash signed_at key_id signature",
        key=("tenant", "seq", "key_id"),
        is_counted=True,
    ),
    TableSchema(
        name="audit_log",
        columns="tenant:key seq:number ts event_type actor_kind actor_id env session trace_id skill_ref digest "
        "layer point outcome rule_id policy_digest data_json prev_hash hash",
        key=("tenant", "seq"),
        is_counted=True,
        indexes=(
            Index(name="audit_log_digest", columns=("digest",), by_hash=True),
            Index(name="audit_log_session", columns=("session",), by_hash=True),
        ),
    ),
    # SQLite has a folder for blobs, and a number for the version.
    TableSchema(name="blobs", columns="sha256:key data:bytes", key=("sha256",), kinds=("postgresql",)),
    TableSchema(name="blocks", columns="tenant:key kind value reason by at", key=("tenant", "kind", "value")),
    TableSchema(
        name="deliveries",
        columns="tenant:key id webhook event payload status attempts:number next_at gives_up_at response at",
        key=("tenant", "id"),
        indexes=(
            Index(name="deliveries_due", columns=("status", "next_at")),
            Index(name="deliveries_webhook", columns=("tenant", "webhook", "at")),
        ),
    ),
    TableSchema(
        name="deployments", columns="tenant:key name namespace version digest by reason at", key=("tenant", "name")
    ),
    TableSchema(
        name="feedback",
        columns="tenant:key id skill digest helped:number comment by agent session at number:number",
        key=("tenant", "id"),
        indexes=(Index(name="feedback_skill", columns=("tenant", "skill")),),
    ),
    TableSchema(name="generations", columns="tenant:key number:number", key=("tenant",)),
    TableSchema(
        name="idempotency",
        columns="tenant:key person idempotency_key request status:number answer at",
        key=("tenant", "person", "idempotency_key"),
    ),
    TableSchema(
        name="installs", columns="tenant:key location skill source layer digest state by at", key=("tenant", "location")
    ),
    TableSchema(name="namespaces", columns="tenant:key name owners criteria", key=("tenant", "name")),
    TableSchema(
        name="node_records",
        columns="tenant:key node chain epoch:number seq:number ts event_type actor_kind actor_id env session trace_id "
        "skill_ref digest layer point outcome rule_id policy_digest data_json prev_hash hash",
        key=("tenant", "node", "chain", "epoch", "seq"),
        is_counted=True,
        indexes=(
            Index(name="node_records_ts", columns=("tenant", "ts")),
            Index(name="node_records_digest", columns=("digest",), by_hash=True),
            Index(name="node_records_session", columns=("session",), by_hash=True),
        ),
    ),
    TableSchema(
        name="nodes",
        columns="tenant:key id name person platform registered_at last_seen_at status fault fault_at:number "
        "epoch:number inventory inventory_at number:number",
        key=("tenant", "id"),
    ),
    TableSchema(name="people", columns="tenant:key name kind roles added_at", key=("tenant", "name")),
    TableSchema(
        name="policies",
        columns="tenant:key digest layer path_hash path text loaded_at",
        key=("tenant", "digest", "layer", "path_hash"),
    ),
    TableSchema(
        name="policy_versions",
        columns="tenant:key number:number text digest by reason at",
        key=("tenant", "number"),
    ),
    TableSchema(
        name="proposals",
        columns="tenant:key id kind skill location base_digest proposed_digest diff justification evidence "
        "author_kind author on_behalf_of capabilities_new status reviewer comment created_at decided_at "
        "applied_digest recommendations number:number",
        key=("tenant", "id"),
    ),
    TableSchema(
        name="releases",
        columns="tenant:key namespace name version digest archive_digest archive_size:number description facts status "
        "by at decided_by decided_at reason criteria number:number",
        key=("tenant", "namespace", "name", "version"),
        indexes=(
            Index(name="releases_name", columns=("tenant", "name")),
            Index(name="releases_number", columns=("tenant", "number")),
            Index(name="releases_status", columns=("tenant", "status")),
        ),
    ),
    TableSchema(
        name="revisions",
        columns="tenant:key digest skill frontmatter capabilities declared parent first_seen file_count:number "
        "bytes:number kept:number",
        key=("tenant", "digest"),
    ),
    TableSchema(
        name="scans",
        columns="tenant:key digest engine engine_version ruleset status max_severity findings at number:number "
        "ms:number",
        key=("tenant", "digest", "engine", "number"),
    ),
    TableSchema(name="store_version", columns="version:serial", key=("version",), kinds=("postgresql",)),
    TableSchema(
        name="test_results",
        columns="tenant:key digest skill tier verdict score:number runner suite cases:number passed:number "
        "failed:number report by at number:number",
        key=("tenant", "digest", "tier", "number"),
    ),
    TableSchema(name="used_once", columns="tenant:key digest expires_at", key=("tenant", "digest")),
    TableSchema(name="usage_cursor", columns="tenant:key seq:number", key=("tenant",)),
    TableSchema(
        name="usage_days",
        columns="tenant:key day skill agent model loads:number calls:number refusals:number failures:number "
        "runs:number searches:number empty_searches:number helped:number not_helped:number tokens_in:number "
        "tokens_out:number cost:number unpriced:number duration:number",
        key=("tenant", "day", "skill", "agent", "model"),
    ),
    TableSchema(
        name="usage_pairs",
        columns="tenant:key month skill other loads:number",
        key=("tenant", "month", "skill", "other"),
    ),
    TableSchema(name="usage_searches", columns="tenant:key day query times:number", key=("tenant", "day", "query")),
    TableSchema(
        name="versions",
        columns="tenant:key location skill digest by reason proposal at number:number",
        key=("tenant", "location", "number"),
        indexes=(Index(name="versions_skill", columns=("tenant", "skill")),),
    ),
    TableSchema(
        name="webhooks",
        columns="tenant:key id url form events secret credential people status cursor:number by at number:number",
        key=("tenant", "id"),
    ),
    TableSchema(
        name="revision_files",
        columns="tenant:key digest path sha256 mode kind position:number size:number",
        key=("tenant", "digest", "position"),
        refers="(tenant, digest) REFERENCES revisions (tenant, digest)",
        indexes=(Index(name="revision_files_sha256", columns=("sha256",)),),
    ),
    TableSchema(
        name="tokens",
        columns="tenant:key id person label secret_hash parent created_at expires_at revoked_at number:number",
        key=("tenant", "id"),
        refers="(tenant, person) REFERENCES people (tenant, name)",
        indexes=(Index(name="tokens_secret_hash", columns=("secret_hash",), is_unique=True),),
    ),
)
"""All tables, those first that others refer to."""

_REFUSAL = "the audit log can only be added to"
_REFUSE = f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
_LAST = "FROM audit_log WHERE tenant = NEW.tenant ORDER BY seq DESC LIMIT 1"
_FUNCTIONS = {
    "audit_log_refuse": f" BEGIN RAISE EXCEPTION '{_REFUSAL}'; END ",
    "audit_log_in_order": " DECLARE last_seq bigint; last_hash text; "
    f"BEGIN SELECT seq, hash INTO last_seq, last_hash {_LAST}; "
    "IF NEW.seq IS DISTINCT FROM 1 + coalesce(last_seq, 0) "
    f"OR NEW.prev_hash IS DISTINCT FROM coalesce(last_hash, '{FIRST}') "
    f"THEN RAISE EXCEPTION '{_REFUSAL}'; END IF; RETURN NEW; END ",
}
"""The functions of the triggers of PostgreSQL."""
_FUNCTION = "RETURNS trigger LANGUAGE plpgsql AS"
_EACH_ROW, _STATEMENT = "FOR EACH ROW EXECUTE FUNCTION", "FOR EACH STATEMENT EXECUTE FUNCTION"
PROTECTION: dict[Kind, tuple[str, ...]] = {
    "sqlite": (
        f"CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log {_REFUSE}",
        f"CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log {_REFUSE}",
        # REPLACE would remove the old row without a word.
        "CREATE TRIGGER audit_log_in_order BEFORE INSERT ON audit_log "
        f"WHEN NEW.seq IS NOT 1 + coalesce((SELECT seq {_LAST}), 0) "
        f"OR NEW.prev_hash IS NOT coalesce((SELECT hash {_LAST}), '{FIRST}') {_REFUSE}",
    ),
    "postgresql": (
        f"CREATE FUNCTION audit_log_refuse() {_FUNCTION} $${_FUNCTIONS['audit_log_refuse']}$$",
        f"CREATE FUNCTION audit_log_in_order() {_FUNCTION} $${_FUNCTIONS['audit_log_in_order']}$$",
        f"CREATE TRIGGER audit_log_no_change BEFORE UPDATE OR DELETE ON audit_log {_EACH_ROW} audit_log_refuse()",
        f"CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON audit_log {_STATEMENT} audit_log_refuse()",
        f"CREATE TRIGGER audit_log_in_order BEFORE INSERT ON audit_log {_EACH_ROW} audit_log_in_order()",
    ),
}
"""The statements that close the audit log to everything but the next record."""
UNPROTECTION: dict[Kind, tuple[str, ...]] = {
    "sqlite": (
        "DROP TRIGGER IF EXISTS audit_log_no_update",
        "DROP TRIGGER IF EXISTS audit_log_no_delete",
        "DROP TRIGGER IF EXISTS audit_log_in_order",
    ),
    "postgresql": (
        "DROP TRIGGER IF EXISTS audit_log_no_change ON audit_log",
        "DROP TRIGGER IF EXISTS audit_log_no_truncate ON audit_log",
        "DROP TRIGGER IF EXISTS audit_log_in_order ON audit_log",
        "DROP FUNCTION IF EXISTS audit_log_refuse()",
        "DROP FUNCTION IF EXISTS audit_log_in_order()",
    ),
}
"""The statements that open it again for a restore, once nobody else can write."""
_TRIGGER_TYPES = {
    "audit_log_no_change": (1 | 2 | 8 | 16, "audit_log_refuse"),
    "audit_log_no_truncate": (2 | 32, "audit_log_refuse"),
    "audit_log_in_order": (1 | 2 | 4, "audit_log_in_order"),
}
"""The bits of a trigger in the catalogue of PostgreSQL: for each row, before, INSERT, DELETE, UPDATE, TRUNCATE."""


def tables_of(kind: Kind) -> list[TableSchema]:
    """Return the tables of a kind of database, those first that others refer to."""
    return [table for table in TABLES if kind in table.kinds]


def described() -> list[tuple[str, str, str]]:
    """Return the parts of the schema as the catalogue of PostgreSQL describes them: kind, name and definition."""
    found = []
    for table in tables_of("postgresql"):
        found.append(("table", table.name, "p f 0 0"))
        for column, column_type in column_types(table).items():
            found.append(("column", f"{table.name}.{column}", f"{_IN_CATALOGUE[column_type]} NEVER"))
        found += [("index", index.name, "") for index in table.indexes]
        found.append(("constraint", f"{table.name}.{table.name}_pkey", f"PRIMARY KEY ({', '.join(table.key)})"))
        if table.is_counted:
            found.append(("constraint", f"{table.name}.{table.name}_counted", "CHECK ((seq >= 1))"))
    for name, (moments, function) in _TRIGGER_TYPES.items():
        found.append(("trigger", name, f"audit_log O {moments} t {function} {_FUNCTIONS[function]}"))
    return found


def columns_of(table: str) -> tuple[str, ...]:
    """Return the columns of a table, in order."""
    return tuple(column_types(_by_name(table)))


def kinds_of(table: str) -> dict[str, type]:
    """Return the type of each column."""
    return {name: _PYTHON[column] for name, column in column_types(_by_name(table)).items()}


def key_of(table: str) -> tuple[str, ...]:
    """Return the columns of the primary key."""
    return _by_name(table).key


def _by_name(name: str) -> TableSchema:
    return next(table for table in TABLES if table.name == name)
