"""Attacks on the store by SQL: what docs/explanation/governance.md promises, tried from outside on both databases.

- Verification reads every row: whoever edits, adds, hides, moves or removes records, or what protects them, is told of.
- What loosens counts only with its record; what forbids holds without one; `metier store check` names such rows.
- What somebody decided is seen by every open session at its next decision, whatever the tables say of it.

Whoever attacks may write all of the database, and nothing else: not the file of checkpoints, not the key that signs.
After every attempt no skill can be loaded that could not be before, and no token decides that could not.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.attacks.governed import BARRED, USER, Governed, can_load, command, governed, let_go, loaded, settle
from tests.store.postgres import new_database

from metier import Library
from metier.errors import MetierError
from metier.store import Store

pytestmark = pytest.mark.covers("SEC-6", "SEC-18")

COLUMNS = [
    *("tenant", "seq", "ts", "event_type", "actor_kind", "actor_id", "env", "session", "trace_id", "skill_ref"),
    *("digest", "layer", "point", "outcome", "rule_id", "policy_digest", "data_json", "prev_hash", "hash"),
]
LAST = "(SELECT max(seq) FROM audit_log)"
NUMBERS = itertools.count()
FAILURES = (sqlite3.Error, psycopg.Error)


class Database(Governed):
    """A store as somebody sees it who has its database."""

    @property
    def is_postgres(self) -> bool:
        return self.url.startswith("postgresql")

    @contextlib.contextmanager
    def connected(self) -> Iterator[Any]:
        if self.is_postgres:
            with psycopg.connect(self.url, autocommit=True) as connection:
                yield connection
        else:
            with contextlib.closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as file:
                file.isolation_level = None
                file.execute("PRAGMA ignore_check_constraints = ON")
                yield file

    def execute(self, *statements: str) -> None:
        with self.connected() as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connected() as connection:
            return [tuple(row) for row in connection.execute(query).fetchall()]

    def unlocked(self, *statements: str) -> None:
        """Without triggers and constraints, which are as they were afterwards."""
        if self.is_postgres:
            off, on = (f"ALTER TABLE audit_log {verb} TRIGGER USER" for verb in ("DISABLE", "ENABLE"))
            check = "ALTER TABLE audit_log ADD CONSTRAINT audit_log_counted CHECK (seq >= 1) NOT VALID"
            drop = "ALTER TABLE audit_log DROP CONSTRAINT audit_log_counted"
            self.execute(off, drop, *statements, check, on)
        else:
            triggers = self.rows("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            drops = (f"DROP TRIGGER {name}" for name, _ in triggers)
            self.execute(*drops, *statements, *(text for _, text in triggers))

    def records(self) -> list[dict[str, Any]]:
        query = f"SELECT {', '.join(COLUMNS)} FROM audit_log WHERE tenant = '' ORDER BY seq"
        return [dict(zip(COLUMNS, row, strict=True)) for row in self.rows(query)]

    def rewrite(self, records: Sequence[dict[str, Any]]) -> None:
        """The whole chain anew, with hashes that fit."""
        statements, before = ["DELETE FROM audit_log"], "0" * 64
        for number, record in enumerate(records, 1):
            text = json.dumps(json.loads(record["data_json"]) | {"seq": number}, sort_keys=True, separators=(",", ":"))
            record = record | {"seq": number, "data_json": text, "prev_hash": before, "hash": tied(before, text)}
            before = record["hash"]
            statements.append(inserted(record))
        self.unlocked(*statements)


Attack = Callable[[Database], object]


def tied(before: str, text: str) -> str:
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def quoted(value: object) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def inserted(record: dict[str, Any], table: str = "audit_log") -> str:
    return f"INSERT INTO {table} ({', '.join(record)}) VALUES ({', '.join(map(quoted, record.values()))})"


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Database]:
    """Makes a store with decisions of every kind, a signed checkpoint, and some records behind it: one of each kind."""

    @functools.cache
    def make(kind: str) -> Database:
        root = tmp_path_factory.mktemp("seed")
        url = f"sqlite:///{root}/data/metier.db" if kind == "sqlite" else new_database()
        return Database(**vars(governed(root, url)))

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def seed(request: pytest.FixtureRequest, seeds: Callable[[str], Database]) -> Database:
    return seeds(request.param)


@pytest.fixture
def database(seed: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Database]]:
    """Makes a copy of the store, under an address of its own."""
    made: list[str] = []

    def copy() -> Database:
        if seed.is_postgres:
            url = new_database(seed.url.partition("?")[0].rpartition("/")[2])
        else:
            url = f"sqlite:///{tmp_path}/{next(NUMBERS)}/metier.db"
            Path(url.removeprefix("sqlite:///")).parent.mkdir(mode=0o700)
            with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file, seed.connected() as real:
                real.backup(file)
        settle(monkeypatch, seed.root, url)
        with Store.open(url) as store:
            folder = store.folder
        shutil.copytree(seed.folder / "audit", folder / "audit")
        if not seed.is_postgres:
            shutil.copytree(seed.folder / "blobs", folder / "blobs")
        made.append(url)
        return replace(seed, url=url, folder=folder)

    yield copy
    for url in made:
        let_go(url)


def require_nothing_loose(one: Database) -> None:
    """Nothing can be used, and nobody decides, that could not before."""
    assert loaded(*BARRED) == []
    try:
        with Store.open(one.url) as store:
            assert store.has_people, "it is its owner's again"
            assert [store.by_token(token) for token in (one.removed, "mtr_mine")] == [None, None]
            vic = store.by_token(one.viewer)
            assert vic is None or (vic[1].name, vic[1].roles) == ("vic", frozenset({"viewer"}))
    except MetierError:
        pass  # nobody can do anything with it any more


def sql(*statements: str) -> Attack:
    return lambda one: one.execute(*statements)


def unlocked(*statements: str) -> Attack:
    return lambda one: one.unlocked(*statements)


def both(*attacks: Attack) -> Attack:
    return lambda one: [attack(one) for attack in attacks]


def rewritten(change: Callable[[list[dict[str, Any]]], object]) -> Attack:
    def attack(one: Database) -> None:
        records = one.records()
        change(records)
        one.rewrite(records)

    return attack


def recorded(text: str, *, open_first: bool = False, **values: object) -> Attack:
    """A record behind the last one, whose hash fits, or with other values than those that would fit."""

    def attack(one: Database) -> None:
        last = one.records()[-1]
        written = text.replace("SEQ", str(last["seq"] + 1))
        record = dict.fromkeys(COLUMNS, "") | {"seq": last["seq"] + 1, "data_json": written, "prev_hash": last["hash"]}
        with contextlib.suppress(ValueError, AttributeError, RecursionError):
            record["event_type"] = json.loads(written).get("type", "")
            record["outcome"] = json.loads(written).get("decision", "")
        record |= {"hash": tied(last["hash"], written)} | values
        (one.unlocked if open_first else one.execute)(inserted(record))

    return attack


def approved(skill: str, **values: str) -> Attack:
    """A row like that of a good approval, for another skill."""

    def attack(one: Database) -> None:
        query = f"SELECT digest FROM approval_requests WHERE skill = '{skill}@skills'"
        fixed = {"id": "a-mine0001", "digest": one.rows(query)[0][0], "skill": f"{skill}@skills"} | values
        fixed["location"] = str(one.root / "skills" / skill)
        fields = [
            *("tenant", "id", "request", "digest", "skill", "location", "layer", "environment", "grants", "tools"),
            *("decision", "decided_by", "reason", "policy", "rule", "decided_at", "expires_at", "revoked_at"),
            *("revoked_by", "revoked_reason", "fell_to"),
        ]
        chosen = ", ".join(quoted(fixed[name]) if name in fixed else name for name in fields)
        one.execute(
            f"INSERT INTO approvals ({', '.join(fields)}, number) SELECT {chosen}, 99 FROM approvals"
            " WHERE skill = 'totals@skills'"
        )

    return attack


def approve_by(text: str, **values: Any) -> Attack:
    """A row that approves of what nobody approved of, with a record of it that does not quite fit."""
    return both(approved("evil"), recorded(text, **values))


def in_schema(*statements: str) -> Attack:
    """Somebody writes into the schema itself, which only a file of SQLite lets them do."""
    return sql("PRAGMA writable_schema = ON", *statements)


ADMIN = '["admin"]'
MINE = hashlib.sha256(b"mtr_mine").hexdigest()
TOKEN = (
    "INSERT INTO tokens (tenant, id, person, secret_hash, created_at, number) VALUES ('', 't-mine', '{}', '{}', '', 9)"
)
PERSON = "INSERT INTO people (tenant, name, kind, roles, added_at) VALUES ('', '{}', 'user', '[\"admin\"]', '')"
GRANTED = (
    '{"approval":"a-mine0001","decision":"allow","event":"approval","seq":SEQ,"tenant":"","terms":"sha256:0",'
    '"type":"approval.granted"}'
)
TOTALS, EVIL, DENIED, REVOKED = (f"skill = '{name}@skills'" for name in ("totals", "evil", "denied", "revoked"))
REQUESTED = "(SELECT digest FROM approval_requests WHERE skill = 'evil@skills')"

# Rows that loosen, or no longer forbid: they come to nothing, and `metier store check` names them.
ROWS: dict[str, Attack] = {
    "an approval that nobody gave": approved("evil"),
    "one for all tenants": approved("evil", tenant="zz"),
    "one of another content": sql(f"UPDATE approvals SET skill = 'evil@skills', digest = {REQUESTED} WHERE {TOTALS}"),
    "one in all layers": sql(f"UPDATE approvals SET layer = 'x' WHERE {TOTALS}"),
    "one with more tools": sql(f"""UPDATE approvals SET tools = '["Bash(*)"]' WHERE {TOTALS}"""),
    "one that grants all": sql(f"""UPDATE approvals SET grants = '["*","scripts"]' WHERE {TOTALS}"""),
    "one by somebody else": sql(f"UPDATE approvals SET decided_by = 'vic' WHERE {TOTALS}"),
    "one for longer": sql(f"UPDATE approvals SET expires_at = '2999-01-01T00:00:00.000+00:00' WHERE {TOTALS}"),
    "one that was revoked": sql(f"UPDATE approvals SET revoked_at = '', revoked_by = '' WHERE {REVOKED}"),
    "the same by another id": sql(f"UPDATE approvals SET revoked_at = '', id = 'a-x' WHERE {REVOKED}"),
    "the same by the id of a good one": both(
        sql(f"UPDATE approvals SET id = 'a-old' WHERE {TOTALS}"),
        lambda one: one.execute(
            f"UPDATE approvals SET revoked_at = '', id = {quoted(granted_id(one, 'totals'))} WHERE {REVOKED}"
        ),
    ),
    "a refusal made an approval": sql(
        f"""UPDATE approvals SET decision = 'approved', grants = '["scripts"]' WHERE {DENIED}"""
    ),
    "a refusal removed": both(sql(f"DELETE FROM approvals WHERE {DENIED}"), approved("denied")),
    "a refusal taken back": sql(f"UPDATE approvals SET revoked_at = decided_at WHERE {DENIED}"),
    "a refusal of another tenant": sql(f"UPDATE approvals SET tenant = 'zz' WHERE {DENIED}"),
    "all that was decided": sql("DELETE FROM approvals"),
    "a quarantine removed": sql("DELETE FROM blocks"),
    "a quarantine of another name": sql("UPDATE blocks SET value = 'other'"),
    "a quarantine of another tenant": sql("UPDATE blocks SET tenant = 'zz', kind = 'digest'"),
    "a person": sql(PERSON.format("mallory"), TOKEN.format("mallory", MINE)),
    "a higher role": sql(f"UPDATE people SET roles = '{ADMIN}' WHERE name = 'vic'"),
    "somebody who was removed": sql(PERSON.format("gone"), TOKEN.format("gone", MINE)),
    "a token of an admin": sql(TOKEN.format(USER, MINE)),
    "a token of somebody else": sql(f"UPDATE tokens SET person = '{USER}' WHERE person = 'vic'"),
    "another secret": sql(f"UPDATE tokens SET secret_hash = '{MINE}' WHERE person = '{USER}'"),
    "a token for longer": sql("UPDATE tokens SET expires_at = '2999-01-01T00:00:00.000+00:00' WHERE person = 'vic'"),
    "nobody is known": sql("DELETE FROM tokens", "DELETE FROM people"),
}


def granted_id(one: Database, skill: str) -> str:
    """The id that the record of an approval has."""
    found = (json.loads(record["data_json"]) for record in one.records())
    return next(str(f["approval"]) for f in found if f.get("type") == "approval.granted" and f.get("skill") == skill)


# What is done to the records and to what protects them: `metier audit verify` ends with something else than 0.
TRAIL: dict[str, Attack] = {
    **{
        f"another {name}": unlocked(f"UPDATE audit_log SET {name} = 'x' WHERE seq = {LAST}")
        for name in ("event_type", "actor_id", "data_json", "prev_hash", "hash")
    },
    "a text and its hash": rewritten(
        lambda rows: rows[4].update(data_json=rows[4]["data_json"].replace("user", "usor"))
    ),
    "letters that a search does not find": unlocked(
        "UPDATE audit_log SET data_json = replace(data_json, 'blocked', '\ufdd00062locked')"
    ),
    "the kind of a revocation": unlocked(
        "UPDATE audit_log SET event_type = 'tool.called' WHERE event_type = 'approval.revoked'"
    ),
    "a record is gone": unlocked("DELETE FROM audit_log WHERE seq = 5"),
    "the revocation is gone": unlocked("DELETE FROM audit_log WHERE event_type = 'approval.revoked'"),
    "the quarantine is gone": unlocked("DELETE FROM audit_log WHERE event_type = 'skill.quarantined'"),
    "a record is gone, all anew": rewritten(lambda rows: rows.pop(4)),
    "two changed places": unlocked(
        "UPDATE audit_log SET seq = 999 WHERE seq = 5",
        "UPDATE audit_log SET seq = 5 WHERE seq = 6",
        "UPDATE audit_log SET seq = 6 WHERE seq = 999",
    ),
    "one twice, all anew": rewritten(lambda rows: rows.insert(4, dict(rows[4]))),
    "all numbers moved by one": unlocked(
        "UPDATE audit_log SET seq = seq + 100000", "UPDATE audit_log SET seq = seq - 99999"
    ),
    "a number far behind": unlocked(f"UPDATE audit_log SET seq = 1000000000 WHERE seq = {LAST}"),
    "the number 0": unlocked(f"UPDATE audit_log SET seq = 0 WHERE seq = {LAST}"),
    "a number below 0": unlocked(f"UPDATE audit_log SET seq = -5 WHERE seq = {LAST}"),
    "one more with the number 0": recorded(GRANTED.replace("SEQ", "0"), open_first=True, seq=0),
    "one more with a number below 0": recorded(GRANTED.replace("SEQ", "-5"), open_first=True, seq=-5),
    "the end and its checkpoints": unlocked("DELETE FROM audit_log WHERE seq > 5", "DELETE FROM audit_checkpoints"),
    "all records and checkpoints": unlocked("DELETE FROM audit_log", "DELETE FROM audit_checkpoints"),
    "all checkpoints": sql("DELETE FROM audit_checkpoints"),
    "checkpoints of another time": sql("UPDATE audit_checkpoints SET signed_at = '2020-01-01T00:00:00.000+00:00'"),
    "checkpoints of other records": sql(f"UPDATE audit_checkpoints SET hash = '{'1' * 64}'"),
    "checkpoints without a signature": sql("UPDATE audit_checkpoints SET signature = ''"),
    "checkpoints by another key": sql("UPDATE audit_checkpoints SET key_id = 'ffffffffffffffff'"),
    "a checkpoint more, by a key that was made up": lambda one: one.execute(made_up_checkpoint(one)),
    "one more of what is not there yet": lambda one: one.execute(made_up_checkpoint(one, seq=1_000)),
    "the last of another tenant": unlocked(f"UPDATE audit_log SET tenant = 'zz' WHERE seq = {LAST}"),
    "a tenant in hidden letters": unlocked(f"UPDATE audit_log SET tenant = '\ufdd00041' WHERE seq = {LAST}"),
    "no JSON": recorded("no"),
    "a deep list": recorded("[" * 50_000 + "]" * 50_000),
    "a name twice": recorded('{"seq":SEQ,"tenant":"","tenant":"","type":"tool.called"}'),
    "a name twice, deep inside": recorded('{"a":{"b":1,"b":2},"seq":SEQ,"tenant":""}'),
    "blanks between names": recorded('{"seq": SEQ, "tenant": "", "type": "tool.called"}'),
    "letters that are written out": recorded('{"seq":SEQ,"tenant":"","type":"tool\\u002ecalled"}'),
    "another number inside": recorded('{"seq":7,"tenant":""}'),
    "another tenant inside": recorded('{"seq":SEQ,"tenant":"zz"}'),
    "another type outside": recorded('{"seq":SEQ,"tenant":"","type":"tool.called"}', event_type="x"),
    "an approval and a record with another hash": approve_by(GRANTED, hash="0" * 64),
    "an approval and one tied to nothing": approve_by(GRANTED, open_first=True, prev_hash="f" * 64),
    "an approval and one far behind": approve_by(GRANTED.replace("SEQ", "1000"), open_first=True, seq=1_000),
    "a view with less": both(
        lambda one: None if one.is_postgres else one.execute(*(f"DROP TRIGGER {name}" for name in triggers(one))),
        sql("ALTER TABLE audit_log RENAME TO l2", "CREATE VIEW audit_log AS SELECT * FROM l2 WHERE seq < 20"),
    ),
    "another table of the same name": sql(
        "CREATE TABLE l2 AS SELECT * FROM audit_log",
        "DROP TABLE audit_log",
        "ALTER TABLE l2 RENAME TO audit_log",
    ),
    "another column": sql("ALTER TABLE audit_log ADD COLUMN note TEXT DEFAULT ''"),
    "quarantines are an empty view": sql(
        "ALTER TABLE blocks RENAME TO b2", "CREATE VIEW blocks AS SELECT * FROM b2 WHERE 1 = 0"
    ),
    "everybody is an admin by a view": sql(
        "ALTER TABLE people RENAME TO p2",
        f"CREATE VIEW people AS SELECT tenant, name, kind, '{ADMIN}' AS roles, added_at FROM p2",
    ),
}


def made_up_checkpoint(one: Database, **values: Any) -> str:
    last = one.records()[-1]
    row = {"tenant": "", "seq": last["seq"], "hash": last["hash"], "signed_at": "2026-01-01T00:00:00.000+00:00"}
    return inserted(row | {"key_id": "f" * 16, "signature": "AAAA"} | values, "audit_checkpoints")


def triggers(one: Database) -> list[str]:
    return [name for (name,) in one.rows("SELECT name FROM sqlite_master WHERE type = 'trigger'")]


ONLY_SQLITE: dict[str, Attack] = {
    "a type that is bytes": unlocked(f"UPDATE audit_log SET event_type = CAST(event_type AS BLOB) WHERE seq = {LAST}"),
    "a text that is bytes": unlocked("UPDATE audit_log SET data_json = CAST(data_json AS BLOB) WHERE seq = 2"),
    "a tenant that is bytes": unlocked(f"UPDATE audit_log SET tenant = CAST('' AS BLOB) WHERE seq = {LAST}"),
    "a number that is a fraction": unlocked(f"UPDATE audit_log SET seq = 1.5 WHERE seq = {LAST}"),
    "a number that is a text": unlocked(f"UPDATE audit_log SET seq = 'x' WHERE seq = {LAST}"),
    "a number that is bytes": unlocked(f"UPDATE audit_log SET seq = x'00' WHERE seq = {LAST}"),
    "no triggers": lambda one: one.execute(*(f"DROP TRIGGER {name}" for name in triggers(one))),
    "a trigger of the same name": sql(
        "DROP TRIGGER audit_log_no_update",
        "CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log WHEN 0 BEGIN SELECT 1; END",
    ),
    "a trigger that swallows": sql("CREATE TRIGGER a BEFORE INSERT ON audit_log BEGIN SELECT RAISE(IGNORE); END"),
    "a trigger that widens": sql("CREATE TRIGGER a AFTER INSERT ON approvals BEGIN UPDATE approvals SET id = ''; END"),
    "a trigger that releases": sql("CREATE TRIGGER a AFTER INSERT ON blocks BEGIN DELETE FROM blocks; END"),
    "no triggers, by the schema": in_schema("DELETE FROM sqlite_master WHERE type = 'trigger'"),
    "no constraint, by the schema": in_schema(
        "UPDATE sqlite_master SET sql = replace(sql, 'AND seq >= 1', 'AND 1') WHERE name = 'audit_log'"
    ),
}
EAT = "CREATE FUNCTION eat() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
ONLY_POSTGRESQL: dict[str, Attack] = {
    "a trigger that swallows": sql(
        EAT, "CREATE TRIGGER a BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION eat()"
    ),
    "a trigger that releases": sql(EAT, "CREATE TRIGGER a BEFORE INSERT ON blocks FOR EACH ROW EXECUTE FUNCTION eat()"),
    "a trigger that is off": sql("ALTER TABLE audit_log DISABLE TRIGGER audit_log_no_change"),
    "a trigger for replicas": sql("ALTER TABLE audit_log ENABLE REPLICA TRIGGER audit_log_no_change"),
    "a trigger for some rows": sql(
        "DROP TRIGGER audit_log_no_change ON audit_log",
        "CREATE TRIGGER audit_log_no_change BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW WHEN (OLD.seq < 0) "
        "EXECUTE FUNCTION audit_log_refuse()",
    ),
    "a function that refuses nothing": sql(
        EAT.replace("CREATE", "CREATE OR REPLACE").replace("eat", "audit_log_refuse")
    ),
    "rows that are hidden": sql(
        "CREATE POLICY p ON audit_log USING (seq < 20) WITH CHECK (true)",
        *(f"ALTER TABLE audit_log {word} ROW LEVEL SECURITY" for word in ("ENABLE", "FORCE")),
    ),
    "a rule that swallows": sql("CREATE RULE r AS ON INSERT TO audit_log DO INSTEAD NOTHING"),
    "a child with a record": sql(
        "CREATE TABLE kid () INHERITS (audit_log)", f"INSERT INTO kid SELECT * FROM audit_log WHERE seq = {LAST}"
    ),
    "a schema that comes first": sql(
        "CREATE SCHEMA metier", "CREATE TABLE metier.audit_log AS SELECT * FROM public.audit_log WHERE seq < 20"
    ),
    "a schema without quarantines comes first": sql(
        "CREATE SCHEMA metier", "CREATE TABLE metier.blocks (LIKE public.blocks INCLUDING ALL)"
    ),
    "no key": unlocked(
        "ALTER TABLE audit_log DROP CONSTRAINT audit_log_pkey",
        f"INSERT INTO audit_log SELECT * FROM audit_log WHERE seq = {LAST}",
    ),
    "no check of numbers": sql("ALTER TABLE audit_log DROP CONSTRAINT audit_log_counted"),
    "numbers of another kind": unlocked("ALTER TABLE audit_log ALTER COLUMN seq TYPE numeric"),
    "a table that a crash empties": unlocked("ALTER TABLE audit_log SET UNLOGGED"),
}

# What the database itself refuses, as it was made.
REFUSED: dict[str, Attack] = {
    "an edit": sql("UPDATE audit_log SET outcome = 'deny' WHERE seq = 2"),
    "an edit of what is searched by": sql("UPDATE audit_log SET event_type = 'x'"),
    "a removal": sql("DELETE FROM audit_log WHERE seq = 2"),
    "the removal of all": sql("DELETE FROM audit_log"),
    "the number 0": recorded(GRANTED, seq=0),
    "a number below 0": recorded(GRANTED, seq=-5),
    "a number that is taken": recorded(GRANTED, seq=3),
    "a number behind a gap": recorded(GRANTED, seq=1_000),
    "a huge number": recorded(GRANTED, seq=2**62),
    "a record that is tied to nothing": recorded(GRANTED, prev_hash="f" * 64),
    "a trail of another tenant that begins in the middle": recorded(GRANTED, tenant="zz", seq=7),
}

# How somebody would keep from an open session what another process decided; {number} is what it was before.
FROZEN: dict[str, list[str]] = {
    "the number set back": ["UPDATE generations SET number = {number}"],
    "the number set back, and no rows": ["UPDATE generations SET number = {number}", "DELETE FROM blocks"],
    "the number set back, and a good row": [
        "UPDATE generations SET number = {number}",
        "UPDATE approvals SET revoked_at = '', revoked_by = '', revoked_reason = ''",
    ],
    "no number": ["DELETE FROM generations"],
    "a smaller number": ["UPDATE generations SET number = 1"],
    "a number that nothing is beyond": ["UPDATE generations SET number = 9223372036854775807"],
    "only no rows": ["DELETE FROM blocks"],
    "the number set back, and a record behind the decision": ["UPDATE generations SET number = {number}", "record"],
    "the number set back, and one with the hash of before": ["UPDATE generations SET number = {number}", "same hash"],
}


def on_both(attempts: Iterable[str]) -> list[Any]:
    """Some of each kind on SQLite, and a few others on PostgreSQL; the slow tests make all of them on both."""
    return [*some("sqlite", attempts, 6, 0), *some("postgresql", attempts, 14, 1)]


def some(kind: str, attempts: Iterable[str], every: int, first: int) -> list[Any]:
    """All attempts on a database, of which the others are slow."""
    return [
        pytest.param(kind, name, marks=[] if at % every == first else [pytest.mark.slow])
        for at, name in enumerate(attempts)
    ]


@pytest.mark.parametrize(("seed", "attempt"), on_both(ROWS), indirect=["seed"])
def test_a_row_that_was_written_by_hand_comes_to_nothing_and_is_named(
    attempt: str, database: Callable[[], Database]
) -> None:
    one = database()
    ROWS[attempt](one)
    assert command("store", "check")[0] == 3
    require_nothing_loose(one)


@pytest.mark.parametrize(("seed", "attempt"), on_both(TRAIL), indirect=["seed"])
def test_what_is_done_to_the_trail_is_named(attempt: str, database: Callable[[], Database]) -> None:
    one = database()
    TRAIL[attempt](one)
    assert command("audit", "verify")[0] in (1, 2)
    require_nothing_loose(one)


@pytest.mark.parametrize(
    ("seed", "attempt"),
    [*some("sqlite", ONLY_SQLITE, 4, 2), *some("postgresql", ONLY_POSTGRESQL, 5, 0)],
    indirect=["seed"],
)
def test_what_is_done_with_means_of_one_database_is_named(
    attempt: str, seed: Database, database: Callable[[], Database]
) -> None:
    one = database()
    (ONLY_POSTGRESQL if seed.is_postgres else ONLY_SQLITE)[attempt](one)
    assert command("audit", "verify")[0] in (1, 2)
    require_nothing_loose(one)


@pytest.mark.parametrize("attempt", REFUSED)
def test_the_database_refuses_what_is_not_the_next_record(attempt: str, seed: Database) -> None:
    with pytest.raises(FAILURES):
        REFUSED[attempt](seed)


@pytest.mark.parametrize(("seed", "attempt"), on_both(FROZEN), indirect=["seed"])
def test_what_somebody_decides_reaches_a_session_that_is_open(attempt: str, database: Callable[[], Database]) -> None:
    one = database()
    number, approval = one.rows("SELECT number FROM generations")[0][0], granted_id(one, "second")
    with Library.from_folder("skills").session() as session:
        assert all(can_load(session, name) for name in ("totals", "second"))
        session.unload(all=True)
        assert command("quarantine", "add", "totals", "--reason", "x", token=one.admin)[0] == 0
        assert command("approve", "revoke", approval, "--reason", "x", token=one.admin)[0] == 0
        for statement in FROZEN[attempt]:
            before = {"hash": one.records()[-3]["hash"]} if statement == "same hash" else {}
            if statement in ("record", "same hash"):
                recorded('{"decision":"allow","seq":SEQ,"tenant":"","type":"tool.called"}', **before)(one)
            else:
                one.execute(statement.format(number=number))
        assert not any(can_load(session, name) for name in ("totals", "second"))


def test_a_trigger_that_keeps_the_number_as_it_is_hides_nothing_either(database: Callable[[], Database]) -> None:
    one = database()
    if one.is_postgres:
        one.execute(EAT, "CREATE TRIGGER a BEFORE UPDATE ON generations FOR EACH ROW EXECUTE FUNCTION eat()")
    else:
        one.execute("CREATE TRIGGER a BEFORE UPDATE ON generations BEGIN SELECT RAISE(IGNORE); END")
    with Library.from_folder("skills").session() as session:
        assert can_load(session, "second")
        assert command("quarantine", "add", "totals", "--reason", "x", token=one.admin)[0] == 0
        assert not can_load(session, "totals")


def test_a_checkpoint_that_was_made_up_keeps_nobody_from_signing(database: Callable[[], Database]) -> None:
    one = database()
    one.execute(made_up_checkpoint(one))
    code, text = command("audit", "verify")
    assert (code, "unknown-key" in text) == (1, True)
    assert command("audit", "checkpoint", token=one.admin)[0] == 0
    one.execute(f"DELETE FROM audit_checkpoints WHERE key_id = '{'f' * 16}'")
    code, text = command("audit", "verify")
    assert (code, "0 records since the last" in text) == (0, True)


def test_a_record_that_fits_is_believed_and_is_there_for_all_to_see(database: Callable[[], Database]) -> None:
    """The limit that the documentation names: it is signed with the next checkpoint, and cannot be told apart."""
    one = database()
    released = '{"decision":"allow","notes":["name blocked"],"seq":SEQ,"tenant":"","type":"skill.released"}'
    both(sql("DELETE FROM blocks"), recorded(released))(one)
    assert command("audit", "verify")[0] == 0
    assert "skill.released" in command("audit", "tail", token=one.admin)[1]
