"""Attacks on the audit trail and on what counts by it, by somebody who has the database in their hands.

Each attempt is raw SQL on a store with approvals, a refusal, a revocation, quarantines, people and tokens. Whatever it
does, nothing is allowed that was not allowed before, and `metier audit verify` or `metier store check` names it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.store.postgres import new_postgres_url

from metier.errors import MetierError
from metier.guard import Actor, Subject
from metier.guard.approvals.approving import deny, grant, request, revoke
from metier.guard.approvals.people import add_person, make_token, revoke_token
from metier.guard.approvals.quarantine import quarantine, release
from metier.guard.audit.checkpoints import make_checkpoint
from metier.guard.audit.signing import known_keys
from metier.guard.audit.verifying import verify_opened
from metier.guard.policy.files import Policies
from metier.store import Person, Scope, Store
from metier.store.canonical import canonical, tied
from metier.store.checking import check
from metier.store.url import Address, address_of

GOOD, EVIL, TAKEN, REFUSED = (f"sha256:{digit * 64}" for digit in "1234")
ADA = Person(name="ada", roles=frozenset({"admin"}))


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What an attacker reads in the database, and what they would put there."""

    address: Address
    values: dict[str, str]
    secrets: tuple[str, ...]
    revoked_secret: str


def prepared(store: Store, key: Path) -> Facts:
    """Fill a store by its own means."""
    scope, effective = store.of(), Policies(texts=[]).current()
    add_person(scope, ADA, "ada", ["admin"])
    add_person(scope, ADA, "eve", ["viewer"])
    ids = {}
    for digest, name in ((GOOD, "good"), (TAKEN, "taken"), (REFUSED, "refused")):
        subject = Subject(name=name, source="acme", layer="plugin", digest=digest)
        asked = request(scope, subject, capabilities=["scripts"], new=[], scripts={}, actor=Actor(user="sam"))
        ids[name] = asked.id
    good = grant(scope, effective, ADA, ids["good"], expires=3600)
    taken = grant(scope, effective, ADA, ids["taken"])
    revoke(scope, effective, ADA, taken.id, reason="No longer.")
    refused = deny(scope, effective, ADA, ids["refused"], reason="No.")
    quarantine(scope, ADA, "name", "miner", reason="It mines.")
    quarantine(scope, ADA, "name", "fine", reason="By mistake.")
    release(scope, ADA, "name", "fine", reason="It was a mistake.")
    token, secret = make_token(scope, ADA, "eve")
    old, old_secret = make_token(scope, ADA, "ada")
    revoke_token(scope, ADA, old.id)
    make_checkpoint(store, "", key)
    scope.audit.append({"type": "tool.called", "decision": "allow", "timestamp": "2026-01-01T09:00:00.000+00:00"})
    make_checkpoint(store, "", key)
    scope.audit.append({"type": "tool.called", "decision": "allow", "timestamp": "2026-01-01T10:00:00.000+00:00"})
    last = scope.audit.last()
    assert last is not None
    links = {link.seq: link for link in scope.audit.walk()}
    granted = next(link for link in links.values() if (link.record or {}).get("type") == "approval.granted")
    values = {
        "n": str(last.seq),
        "next": str(last.seq + 1),
        "hash": last.hash,
        "good": good.id,
        "taken": taken.id,
        "refused": refused.id,
        "token": token.id,
        "old": old.id,
        "GOOD": GOOD,
        "EVIL": EVIL,
        "TAKEN": TAKEN,
        "REFUSED": REFUSED,
        "granted": str(granted.seq),
        "evil": EVIL_ROW,
        "columns": "tenant, seq, ts, event_type, outcome, point, data_json, prev_hash, hash",
    }
    for name, seq in {"zero": 0, "minus": -5, "far": 1_000_000, "huge": 2**62, "next": last.seq + 1}.items():
        values[f"row_{name}"] = forged(seq, seq, last.hash)
    values["row_bad_hash"] = forged(last.seq + 1, last.seq + 1, last.hash, made="0" * 64)
    values["row_bad_previous"] = forged(last.seq + 1, last.seq + 1, "f" * 64)
    values["row_other_number"] = forged(last.seq + 1, 3, last.hash)
    values["row_other_tenant"] = forged(last.seq + 1, last.seq + 1, last.hash, tenant="other")
    values["row_of_other"] = forged(7, 7, "0" * 64, key="other", tenant="other")
    values["row_of_nobody"] = forged(1, 1, "0" * 64, key="\ufdd0zz", tenant="\ufdd0zz")
    values["row_hidden"] = forged(1, 1, "0" * 64, key="\ufdd00041", tenant="A")
    return Facts(address=address_of(store.url), values=values, secrets=(secret,), revoked_secret=old_secret)


EVIL_ROW = (
    "(tenant, id, digest, skill, layer, grants, tools, decision, decided_by, decided_at) VALUES "
    f"('', 'a-evil', '{EVIL}', 'evil@acme', '', '[\"scripts\"]', '[]', 'approved', 'ada', '2026-01-01')"
)


def forged(seq: int, says: int, previous: str, *, made: str = "", key: str = "", tenant: str = "") -> str:
    """The values of a record that approves of the attacker's content."""
    moment = "2026-01-01T10:00:00.000+00:00"
    record = {"seq": says, "tenant": tenant, "timestamp": moment, "type": "approval.granted", "event": "approval"}
    record |= {"decision": "allow", "approval": "a-evil", "digest": EVIL, "terms": "sha256:" + "0" * 64}
    text = canonical(record)
    made = made or tied(previous, text)
    values = (key, seq, moment, "approval.granted", "allow", "approval", text, previous, made)
    return ", ".join(str(value) if isinstance(value, int) else f"'{value}'" for value in values)


OPEN = {
    "sqlite": [f"DROP TRIGGER audit_log_{name}" for name in ("no_update", "no_delete", "in_order")],
    "postgresql": [
        *(f"DROP TRIGGER audit_log_{name} ON audit_log" for name in ("no_change", "no_truncate", "in_order")),
        "ALTER TABLE audit_log DROP CONSTRAINT audit_log_counted",
    ],
}
CLOSE = {
    "sqlite": [
        "CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log BEGIN SELECT 1; END",
        "CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log BEGIN SELECT 1; END",
        "CREATE TRIGGER audit_log_in_order BEFORE INSERT ON audit_log BEGIN SELECT 1; END",
    ],
    "postgresql": [
        "CREATE OR REPLACE FUNCTION audit_log_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
    ],
}
RECORD = "INSERT INTO audit_log ({columns}) VALUES "

# What is tried -> the statements. `open` first takes away triggers and constraints, and leaves them away.
TRAIL: dict[str, list[str]] = {
    "a record with the number 0": [f"{RECORD}({{row_zero}})"],
    "a record with a number below 0": [f"{RECORD}({{row_minus}})"],
    "a record with the number 0, unprotected": ["open", f"{RECORD}({{row_zero}})"],
    "a record with a number below 0, unprotected": ["open", f"{RECORD}({{row_minus}})"],
    "a record far behind the last": [f"{RECORD}({{row_far}})"],
    "a record far behind the last, unprotected": ["open", f"{RECORD}({{row_far}})"],
    "a record with a huge number, unprotected": ["open", f"{RECORD}({{row_huge}})"],
    "a record whose hash is not its own": [f"{RECORD}({{row_bad_hash}})"],
    "a record that is tied to nothing": [f"{RECORD}({{row_bad_previous}})"],
    "a record that is tied to nothing, unprotected": ["open", f"{RECORD}({{row_bad_previous}})"],
    "a record that says another number": [f"{RECORD}({{row_other_number}})"],
    "a record that says another tenant": [f"{RECORD}({{row_other_tenant}})"],
    "a record of another tenant that begins in the middle": [f"{RECORD}({{row_of_other}})"],
    "a record of another tenant that begins in the middle, unprotected": ["open", f"{RECORD}({{row_of_other}})"],
    "a record of what is no tenant": [f"{RECORD}({{row_of_nobody}})"],
    "a record of a tenant in hidden letters": [f"{RECORD}({{row_hidden}})"],
    "a record in place of another": [
        "open",
        "DELETE FROM audit_log WHERE seq = 3",
        "UPDATE audit_log SET seq = 3 WHERE seq = 4",
    ],
    "a record changed in place": ["open", "UPDATE audit_log SET data_json = replace(data_json, 'scripts', 'hooks')"],
    "a record changed with triggers that do nothing": [
        "open",
        "UPDATE audit_log SET data_json = replace(data_json, 'scripts', 'hooks')",
        "close",
    ],
    "a column changed": [
        "open",
        "UPDATE audit_log SET event_type = 'tool.called' WHERE event_type = 'approval.revoked'",
    ],
    "the time changed": ["open", "UPDATE audit_log SET ts = '2020-01-01' WHERE seq = 2"],
    "letters of a record hidden from a search": [
        "open",
        "UPDATE audit_log SET data_json = replace(data_json, 'miner', '\ufdd0006diner')",
    ],
    "the record of a revocation removed": ["open", "DELETE FROM audit_log WHERE event_type = 'approval.revoked'"],
    "the record of a refusal removed": ["open", "DELETE FROM audit_log WHERE event_type = 'approval.denied'"],
    "the record of a quarantine removed": ["open", "DELETE FROM audit_log WHERE event_type = 'skill.quarantined'"],
    "everything after the approval removed": ["open", "DELETE FROM audit_log WHERE seq > {granted}"],
    "all records removed": ["open", "DELETE FROM audit_log"],
    "all records and checkpoints removed": ["open", "DELETE FROM audit_log", "DELETE FROM audit_checkpoints"],
    "the first record removed": ["open", "DELETE FROM audit_log WHERE seq = 1"],
    "numbers moved by one": [
        "open",
        "UPDATE audit_log SET seq = seq + 100000",
        "UPDATE audit_log SET seq = seq - 99999",
    ],
    "two records swapped": [
        "open",
        "UPDATE audit_log SET seq = 999999 WHERE seq = 2",
        "UPDATE audit_log SET seq = 2 WHERE seq = 3",
        "UPDATE audit_log SET seq = 3 WHERE seq = 999999",
    ],
    "records given to another tenant": ["open", "UPDATE audit_log SET tenant = 'other'"],
    "the last record given to another tenant": ["open", "UPDATE audit_log SET tenant = 'other' WHERE seq = {n}"],
    "checkpoints removed": ["DELETE FROM audit_checkpoints"],
    "a checkpoint for other content": ["UPDATE audit_checkpoints SET hash = '{hash}'"],
    "a checkpoint by another key": ["UPDATE audit_checkpoints SET key_id = 'ffffffffffffffff'"],
    "a checkpoint for more than there is": ["UPDATE audit_checkpoints SET seq = 1000"],
    "a checkpoint without a signature": ["UPDATE audit_checkpoints SET signature = ''"],
    "the triggers removed": ["open"],
    "the triggers replaced by others of the same names": ["open", "close"],
    "a view in place of the table": [
        "ALTER TABLE audit_log RENAME TO audit_log_kept",
        "CREATE VIEW audit_log AS SELECT * FROM audit_log_kept WHERE event_type <> 'approval.revoked'",
    ],
    "another table of the same name": [
        "CREATE TABLE copied AS SELECT * FROM audit_log",
        "DROP TABLE audit_log",
        "ALTER TABLE copied RENAME TO audit_log",
    ],
}
ROWS: dict[str, list[str]] = {
    "an approval": ["INSERT INTO approvals {evil}"],
    "an approval and a record below 1": ["INSERT INTO approvals {evil}", "open", f"{RECORD}({{row_minus}})"],
    "an approval and a record behind a gap": ["INSERT INTO approvals {evil}", "open", f"{RECORD}({{row_far}})"],
    "an approval and a record with other terms": ["INSERT INTO approvals {evil}", f"{RECORD}({{row_next}})"],
    "an approval of other content": ["UPDATE approvals SET digest = '{EVIL}' WHERE id = '{good}'"],
    "an approval of another skill": ["UPDATE approvals SET skill = 'evil@acme' WHERE id = '{good}'"],
    "an approval for longer": ["UPDATE approvals SET expires_at = '' WHERE id = '{good}'"],
    "an approval that grants more": ["UPDATE approvals SET grants = '[\"scripts\",\"hooks\"]' WHERE id = '{good}'"],
    "an approval that grants tools": ["UPDATE approvals SET tools = '[\"Bash\"]' WHERE id = '{good}'"],
    "an approval in another layer": ["UPDATE approvals SET layer = '' WHERE id = '{good}'"],
    "an approval in another environment": ["UPDATE approvals SET environment = 'prod' WHERE id = '{good}'"],
    "an approval by somebody else": ["UPDATE approvals SET decided_by = 'bob' WHERE id = '{good}'"],
    "an approval that a rule gave": ["UPDATE approvals SET rule = 'auto-approve-when' WHERE id = '{good}'"],
    "an approval of another time": ["UPDATE approvals SET decided_at = '2999-01-01' WHERE id = '{good}'"],
    "an approval under another id": ["UPDATE approvals SET id = 'a-evil' WHERE id = '{good}'"],
    "an approval of another tenant": ["UPDATE approvals SET tenant = 'other' WHERE id = '{good}'"],
    "an approval that was revoked": ["UPDATE approvals SET revoked_at = '' WHERE id = '{taken}'"],
    "a copy of an approval that was revoked": [
        "UPDATE approvals SET revoked_at = '', id = '{good}-2' WHERE id = '{taken}'",
    ],
    "the id of an approval for other content": [
        "DELETE FROM approvals WHERE id = '{good}'",
        "UPDATE approvals SET revoked_at = '', id = '{good}' WHERE id = '{taken}'",
    ],
    "a refusal made an approval": ["UPDATE approvals SET decision = 'approved' WHERE id = '{refused}'"],
    "a refusal taken back": ["UPDATE approvals SET revoked_at = '2026-01-01' WHERE id = '{refused}'"],
    "a refusal removed": ["DELETE FROM approvals WHERE id = '{refused}'"],
    "all decisions removed": ["DELETE FROM approvals"],
    "a quarantine removed": ["DELETE FROM blocks"],
    "a quarantine of something else": ["UPDATE blocks SET value = 'harmless'"],
    "a quarantine of another tenant": ["UPDATE blocks SET tenant = 'other'"],
    "a person": ["INSERT INTO people (tenant, name, kind, roles) VALUES ('', 'mallory', 'user', '[\"admin\"]')"],
    "a person of another tenant": [
        "INSERT INTO people (tenant, name, kind, roles) VALUES ('other', 'mallory', 'user', '[\"admin\"]')"
    ],
    "a higher role": ["UPDATE people SET roles = '[\"admin\"]' WHERE name = 'eve'"],
    "everybody removed": ["DELETE FROM tokens", "DELETE FROM people"],
    "a token for somebody else": ["UPDATE tokens SET person = 'ada' WHERE id = '{token}'"],
    "a token for longer": ["UPDATE tokens SET expires_at = '2999-01-01' WHERE id = '{token}'"],
    "a token that was revoked": ["UPDATE tokens SET revoked_at = '' WHERE id = '{old}'"],
    "a token that was never made": [
        "INSERT INTO tokens (tenant, id, person, secret_hash) SELECT '', 't-evil', 'ada', secret_hash || 'x' "
        "FROM tokens WHERE id = '{token}'"
    ],
}
ONLY_SQLITE: dict[str, list[str]] = {
    "a number that is a fraction": ["open", "INSERT INTO audit_log (tenant, seq) VALUES ('', 1.5)"],
    "a number that is a text": ["open", "INSERT INTO audit_log (tenant, seq) VALUES ('', 'x')"],
    "a number that is bytes": ["open", "INSERT INTO audit_log (tenant, seq) VALUES ('', x'00')"],
    "a number that is a text with a blank": ["open", "INSERT INTO audit_log (tenant, seq) VALUES ('', '1 ')"],
    "a tenant that is bytes": ["open", "INSERT INTO audit_log (tenant, seq) VALUES (x'61', 1)"],
    "a record that is bytes": ["open", "UPDATE audit_log SET data_json = CAST(data_json AS BLOB) WHERE seq = 2"],
    "a row replaced": ["INSERT OR REPLACE INTO audit_log SELECT * FROM audit_log WHERE seq = 2"],
    "a schema that was written by hand": [
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'CHECK', 'check') WHERE name = 'audit_log'",
        "DELETE FROM sqlite_master WHERE type = 'trigger'",
    ],
    "a trigger that hides what is quarantined": [
        "CREATE TRIGGER quiet AFTER INSERT ON blocks BEGIN DELETE FROM blocks; END"
    ],
}
ONLY_POSTGRESQL: dict[str, list[str]] = {
    "a rule that hides records": ["CREATE RULE quiet AS ON DELETE TO audit_log DO INSTEAD NOTHING"],
    "a policy that hides records": [
        "CREATE POLICY quiet ON audit_log USING (event_type <> 'approval.revoked')",
        "ALTER TABLE audit_log ENABLE ROW LEVEL SECURITY",
    ],
    "a table that inherits": ["CREATE TABLE more () INHERITS (audit_log)"],
    "a trigger that was turned off": ["ALTER TABLE audit_log DISABLE TRIGGER audit_log_in_order"],
    "a trigger for other rows": [
        "DROP TRIGGER audit_log_no_change ON audit_log",
        "CREATE TRIGGER audit_log_no_change BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW WHEN (OLD.seq < 0) "
        "EXECUTE FUNCTION audit_log_refuse()",
    ],
    "a function that does nothing": ["close"],
    "no check of numbers": ["ALTER TABLE audit_log DROP CONSTRAINT audit_log_counted"],
    "no key": ["ALTER TABLE audit_log DROP CONSTRAINT audit_log_pkey"],
    "numbers that are texts": [
        "DROP TRIGGER audit_log_in_order ON audit_log",
        "ALTER TABLE audit_log DROP CONSTRAINT audit_log_counted",
        "ALTER TABLE audit_log ALTER COLUMN seq DROP DEFAULT",
        "ALTER TABLE audit_log ALTER COLUMN seq TYPE numeric",
    ],
}
ATTEMPTS = {
    "sqlite": {**TRAIL, **ROWS, **ONLY_SQLITE},
    "postgresql": {**TRAIL, **ROWS, **ONLY_POSTGRESQL},
}


def statements(kind: str, attempt: str, facts: Facts) -> list[str]:
    found: list[str] = []
    for line in ATTEMPTS[kind][attempt]:
        whole = {"open": OPEN[kind], "close": CLOSE[kind]}.get(line)
        found += whole if whole is not None else [_filled(line, facts)]
    return found


def _filled(line: str, facts: Facts) -> str:
    for _ in range(2):
        for name, value in facts.values.items():
            line = line.replace(f"{{{name}}}", value)
    return line


def allowed(scope: Scope, facts: Facts) -> dict[str, set[Any]]:
    """All that is allowed here, so that it can be compared."""
    state = scope.state()
    counting = [one for digest in (GOOD, EVIL, TAKEN, REFUSED) for one in state.approvals.get(digest, ())]
    store = scope.store
    tokens = {secret: store.by_token(secret) for secret in (*facts.secrets, facts.revoked_secret)}
    return {
        "approvals": {
            json.dumps([one.digest, one.skill, one.grants, one.tools, one.layer, one.environment])
            + one.expires_at
            + one.decided_by
            for one in counting
            if one.decision == "approved"
        },
        "not refused": {GOOD, EVIL, TAKEN, REFUSED} - {one.digest for one in counting if one.decision == "denied"},
        "not blocked": {"miner", "fine"} - {value for kind, value in state.blocked if kind == "name"},
        "people": {(one.name, *sorted(one.roles)) for tenant in ("", "other") for one in store.of(tenant).people.all()},
        "tokens": {(secret, found[1].name) for secret, found in tokens.items() if found is not None},
        "nobody's": set() if store.has_people else {"anybody"},
    }


def looser(before: dict[str, set[Any]], now: dict[str, set[Any]]) -> dict[str, set[Any]]:
    return {name: more for name, found in now.items() if (more := found - before[name])}


def noticed(store: Store, facts: Facts, key: Path) -> list[str]:
    """What verification and the check of a store say."""
    report = verify_opened(store, facts.address, known_keys(key), key_file=key)
    faults = [chain.fault.message for chain in report.chains if chain.fault is not None]
    problems = [problem.message for problem in check(store) if problem.severity == "error"]
    return [*faults, *report.unprotected, *problems]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the key and the marks, for all attempts."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def key(home: Path) -> Path:
    return home / "keys" / "audit.ed25519"


@pytest.fixture(scope="module")
def sqlite_store(home: Path, key: Path) -> tuple[Path, Facts]:
    with Store.open(f"sqlite:///{home}/kept/metier.db") as store:
        facts = prepared(store, key)
        store.driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(home / "kept", home / "safe")
    return home / "kept", facts


@pytest.fixture(scope="module")
def postgres_store(key: Path) -> Iterator[tuple[Store, Facts]]:
    with Store.open(new_postgres_url()) as store:
        yield store, prepared(store, key)


@pytest.mark.covers("SEC-6", "SEC-18")
@pytest.mark.parametrize("attempt", ATTEMPTS["sqlite"])
def test_nothing_that_is_done_to_a_file_goes_unnoticed_or_loosens(
    attempt: str, sqlite_store: tuple[Path, Facts], key: Path
) -> None:
    folder, facts = sqlite_store
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name("safe"), folder)
    with Store.open(f"sqlite:///{folder}/metier.db") as store:
        before = allowed(store.of(), facts)
        assert noticed(store, facts, key) == []
    refused = ""
    with contextlib.closing(sqlite3.connect(folder / "metier.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        try:
            for statement in statements("sqlite", attempt, facts):
                connection.execute(statement)
        except sqlite3.Error as error:
            refused = str(error)
    judge(lambda: Store.open(f"sqlite:///{folder}/metier.db"), before, facts, key, refused)


def judge(opened: Callable[[], Store], before: dict[str, set[Any]], facts: Facts, key: Path, refused: str) -> None:
    try:
        with opened() as store:
            said = noticed(store, facts, key)
            now = allowed(store.of(), facts)
    except MetierError:
        return  # nothing can be done with it any more
    assert looser(before, now) == {}
    assert refused or said, "nobody noticed"


@pytest.mark.covers("SEC-6", "SEC-18")
@pytest.mark.parametrize("attempt", ATTEMPTS["postgresql"])
def test_nothing_that_is_done_to_a_server_goes_unnoticed_or_loosens(
    attempt: str, postgres_store: tuple[Store, Facts], key: Path
) -> None:
    store, facts = postgres_store
    before = allowed(store.of(), facts)
    with contextlib.suppress(MetierError), store.driver.transaction():
        try:
            for statement in statements("postgresql", attempt, facts):
                store.driver.change(statement)
        except MetierError:
            raise  # the server refused it, and takes all of it back
        said, now = noticed(store, facts, key), allowed(store.of(), facts)
        assert looser(before, now) == {}
        assert said, "nobody noticed"
        raise MetierError("All of it is taken back.")
    assert noticed(store, facts, key) == []
    assert allowed(store.of(), facts) == before
