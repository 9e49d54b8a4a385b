"""`metier audit`: what was recorded, found, proved and handed on."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.cli.identity import system_user
from metier.guard import AuditRecord
from metier.guard.audit.store_log import StoreLog
from metier.store import Person, Store, data_folder

Command = Callable[..., tuple[int, str, str]]


def record(number: int, **more: Any) -> AuditRecord:
    given: dict[str, Any] = {
        "timestamp": f"2026-01-{number % 28 + 1:02}T10:00:00.000+00:00",
        "event": "call",
        "decision": "allow",
        "reason": "Nothing is against it.",
        "tool": f"tool-{number}",
        "active": ("pdf",),
        "user": "sam",
    }
    return AuditRecord(**{**given, **more})


@pytest.fixture
def trail() -> int:
    """Twelve records in the user's own store, of which the last two are a refusal and a script run; all are signed."""
    log = StoreLog()
    for number in range(10):
        log.append(record(number))
    log.append(record(10, decision="deny", reason="Not \x1b[2Jallowed.", rule="policy", session="s-1", agent="clerk"))
    run = {"event": "run", "skill": "pdf", "source": "acme", "path": "scripts/x.py", "command": "scripts/x.py a"}
    log.append(record(11, **run, tool="", active=(), exit_code=0, duration_ms=12.5, output_digest="sha256:1"))
    log.close()
    return 12


def seqs(out: str) -> list[int]:
    return [one["seq"] for one in json.loads(out)["records"]]


def test_the_last_records_are_shown_the_newest_at_the_end(metier: Command, trail: int) -> None:
    code, out, _ = metier("audit", "tail", "-n", "2")
    assert code == 0
    head, *rows = out.splitlines()
    assert head.split() == ["SEQ", "TIME", "TYPE", "SKILL", "WHO", "WHAT"]
    assert rows[0].split(maxsplit=5) == [
        "11", "2026-01-11T10:00:00.000+00:00", "tool.denied", "pdf", "sam", "tool-10: Not \\x1b[2Jallowed.",
    ]  # fmt: skip
    assert rows[1].split() == ["12", "2026-01-12T10:00:00.000+00:00", "script.run", "pdf@acme", "sam", "scripts/x.py"]


def test_the_last_records_as_json(metier: Command, trail: int) -> None:
    code, out, _ = metier("audit", "tail", "--json")
    assert code == 0
    assert seqs(out) == list(range(1, 13))


@pytest.mark.each(
    ("filters", "found"),
    [
        (["--type", "tool.denied"], [11]),
        (["--type", "script"], [12]),
        (["--outcome", "deny"], [11]),
        (["--skill", "pdf@acme"], [12]),
        (["--skill", "pdf", "-n", "3"], [12, 11, 10]),
        (["--session", "s-1"], [11]),
        (["--user", "sam", "--agent", "clerk"], [11]),
        (["--user", "nobody"], []),
        (["--since", "2026-01-11"], [12, 11]),
        (["--since", "2026-01-11T10:00:00+00:00", "--until", "2026-01-12T10:00:00+00:00"], [11]),
        (["--since", "1w"], []),
        (["--text", "ALLOWED"], [11]),
        (["--text", "x.py A"], [12]),
    ],
)
def test_records_are_found_by_what_is_asked_for(
    metier: Command, trail: int, filters: list[str], found: list[int]
) -> None:
    code, out, _ = metier("audit", "search", *filters, "--json")
    assert (code, seqs(out)) == (0, found)


def test_an_outcome_that_no_record_can_have_is_an_error(metier: Command, trail: int) -> None:
    code, out, err = metier("audit", "search", "--outcome", "denied")
    assert (code, out) == (2, "")
    assert "'deny'" in err


@pytest.mark.each("moment", ["yesterday", "", "99999999d", "2026-13-01", "9999-12-31T23:59:59-23:59"])
def test_a_time_that_is_none_is_refused(metier: Command, moment: str) -> None:
    code, _, err = metier("audit", "search", "--since", moment)
    assert code == 2
    assert "[invalid-argument]" in err
    assert "hint" in err


@pytest.mark.parametrize("verb", ["tail", "search", "export", "checkpoint", "verify"])
def test_where_nothing_was_recorded_nothing_is_made(metier: Command, verb: str) -> None:
    code, _, _ = metier("audit", verb)
    assert code == 0
    assert not data_folder().exists()


def test_whoever_has_records_elsewhere_is_told(metier: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, said in {"off": "nowhere", "/var/log/x.jsonl": "/var/log/x.jsonl"}.items():
        monkeypatch.setenv("METIER_AUDIT", value)
        assert said in metier("audit", "tail")[2]


@pytest.mark.covers("A-45")
def test_a_clean_trail_is_verified(metier: Command, trail: int) -> None:
    code, out, _ = metier("audit", "verify")
    assert (code, out) == (
        0,
        "✓ 12 records, all as they were written; 1 checkpoint signed, 0 records since the last.\n",
    )
    code, out, _ = metier("audit", "verify", "--json")
    assert json.loads(out) == {
        "ok": True,
        "chains": [
            {
                "tenant": "",
                "node": "",
                "ok": True,
                "records": 12,
                "checkpoints": 1,
                "unsigned": 0,
                "unknown_keys": [],
                "fault": None,
            }
        ],
        "damaged_checkpoints": [],
        "damaged_marks": [],
        "unprotected": [],
    }


@pytest.mark.covers("A-45")
def test_a_trail_that_was_tampered_with_is_not(metier: Command, trail: int) -> None:
    with sqlite3.connect(data_folder() / "metier.db") as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE audit_log SET data_json = replace(data_json, 'deny', 'pass') WHERE seq = 11")
        for _, sql in triggers:
            connection.execute(sql)
    connection.close()
    code, out, _ = metier("audit", "verify")
    assert code == 1
    assert out.startswith("✗ record 11 edited. ")
    code, out, _ = metier("audit", "verify", "--json")
    assert (code, json.loads(out)["chains"][0]["fault"]["seq"]) == (1, 11)


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (["DROP TRIGGER audit_log_no_delete"], "The trigger audit_log_no_delete is missing."),
        (
            [
                "DROP TRIGGER audit_log_no_update",
                "CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log BEGIN SELECT 1; END",
            ],
            "The trigger audit_log_no_update was changed.",
        ),
    ],
)
def test_a_trail_that_anybody_could_change_is_not_fine(
    metier: Command, trail: int, statements: list[str], said: str
) -> None:
    with sqlite3.connect(data_folder() / "metier.db") as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    code, out, _ = metier("audit", "verify")
    assert code == 1
    assert f"✗ {said}" in out
    code, out, _ = metier("audit", "verify", "--json")
    shape = json.loads(out)
    assert (code, shape["ok"], shape["unprotected"]) == (1, False, [said])
    assert shape["chains"][0]["fault"] is None, "the records themselves are as they were written"


@pytest.mark.covers("A-45")
def test_a_database_that_was_deleted_is_missed(metier: Command, trail: int) -> None:
    for path in data_folder().glob("metier.db*"):
        path.unlink()
    code, out, _ = metier("audit", "verify")
    assert code == 1
    assert "record 1 gone" in out


@pytest.mark.covers("A-48")
def test_an_export_is_verified_from_the_file_alone(metier: Command, trail: int, tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    assert metier("audit", "export", "-o", path)[:2] == (0, "")
    if os.name != "nt":
        assert path.stat().st_mode & 0o077 == 0
    data_folder().rename(tmp_path / "gone")
    code, out, _ = metier("audit", "verify", "--file", path)
    assert code == 0
    assert "12 records" in out
    path.write_text(path.read_text().replace("tool-3", "tool-4"))
    code, out, _ = metier("audit", "verify", "--file", path)
    assert code == 1
    assert "record 4 edited" in out


def test_somebody_else_needs_the_public_key(
    metier: Command, trail: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metier("audit", "export", "-o", tmp_path / "export.jsonl")
    (public,) = Path(os.environ["METIER_CONFIG"]).rglob("*.pub")
    monkeypatch.setenv("METIER_CONFIG", str(tmp_path / "config"))
    code, out, _ = metier("audit", "verify", "--file", tmp_path / "export.jsonl")
    assert code == 1
    assert "not known here" in out
    code, out, _ = metier("audit", "verify", "--file", tmp_path / "export.jsonl", "--key", public)
    assert code == 0
    assert "1 checkpoint signed" in out
    assert "not known here" not in out
    code, _, err = metier("audit", "verify", "--key", tmp_path / "export.jsonl")
    assert code == 1
    assert "[audit-unavailable]" in err


def test_what_is_no_export_is_said_to_be_none(metier: Command, tmp_path: Path) -> None:
    assert metier("audit", "verify", "--file", tmp_path / "nothing")[0] == 2
    (tmp_path / "noise").write_bytes(b"\xff\n\0" * 10)
    code, out, _ = metier("audit", "verify", "--file", tmp_path / "noise")
    assert code == 1
    assert "record 1 edited" in out


@pytest.mark.covers("A-23")
def test_an_export_to_read(metier: Command, trail: int) -> None:
    code, out, _ = metier("audit", "export", "--format", "text")
    assert code == 0
    assert out.splitlines()[-3:] == [
        "[AUDIT] skill=pdf@acme script=scripts/x.py user=sam time=2026-01-12T10:00:00.000+00:00",
        "[AUDIT] command: scripts/x.py a",
        "[AUDIT] exit code: 0, duration: 12.5 ms, output: sha256:1",
    ]


@pytest.mark.covers("A-6")
def test_what_policy_only_watched_is_told_with_what_would_have_denied_it(metier: Command) -> None:
    log = StoreLog()
    told = "If it were enforced, this would be denied: Policy forbids it."
    watched = {"would": "deny", "reason": told, "rule": "tools: deny tool-1 (policy.yaml:4 (enterprise))"}
    log.append(record(1, **watched))
    log.append(record(2, **watched, event="run", tool="", path="scripts/x.py", exit_code=0, duration_ms=1.5))
    log.close()
    _, out, _ = metier("audit", "tail")
    assert [line.split("sam")[1].strip() for line in out.splitlines()[1:]] == [
        f"tool-1: {told}",
        f"scripts/x.py: {told}",
    ]
    _, out, _ = metier("audit", "export", "--format", "text")
    assert out.splitlines()[0].endswith(f"tool-1 user=sam {told}")
    assert out.splitlines()[-1] == f"[AUDIT] exit code: 0, duration: 1.5 ms, {told}"


@pytest.mark.each(("form", "count"), [("jsonl", 12), ("cloudevents", 12), ("ocsf", 12), ("otlp", 1)])
def test_an_export_for_programs_is_json_in_lines(metier: Command, trail: int, form: str, count: int) -> None:
    code, out, _ = metier("audit", "export", "--format", form)
    assert code == 0
    assert len([json.loads(line) for line in out.splitlines()]) == count


def test_only_otlp_is_sent(metier: Command) -> None:
    code, _, err = metier("audit", "export", "--endpoint", "http://localhost:1")
    assert code == 2
    assert "--format otlp" in err


def test_a_collector_that_is_not_there_is_an_error(metier: Command, trail: int) -> None:
    code, _, err = metier("audit", "export", "--format", "otlp", "--endpoint", "http://127.0.0.1:1")
    assert code == 1
    assert "[audit-unavailable]" in err


def test_an_export_that_cannot_be_written_leaves_nothing(metier: Command, trail: int, tmp_path: Path) -> None:
    code, _, _ = metier("audit", "export", "-o", tmp_path / "no" / "folder.jsonl")
    assert code != 0
    (tmp_path / "taken").mkdir()
    assert metier("audit", "export", "-o", tmp_path / "taken")[0] != 0
    assert os.listdir(tmp_path) == ["taken"]


def test_a_checkpoint_can_be_asked_for(metier: Command, trail: int) -> None:
    assert metier("audit", "checkpoint")[1] == "Nothing is new since the last checkpoint.\n"
    with Store.open() as store:
        store.of().audit.append(record(1).as_dict())
    code, out, _ = metier("audit", "checkpoint", "--json")
    assert code == 0
    assert json.loads(out)["checkpoint"]["seq"] == 13
    assert "2 checkpoints signed, 0 records since" in metier("audit", "verify")[1]


def test_a_tenant_has_a_trail_of_its_own(metier: Command, trail: int) -> None:
    with Store.open() as store:
        store.of("acme").audit.append(record(1).as_dict())
    assert seqs(metier("audit", "tail", "--tenant", "acme", "--json")[1]) == [1]
    assert len(metier("audit", "export", "--tenant", "acme")[1].splitlines()) == 1
    assert metier("audit", "verify")[1].splitlines()[1].startswith("✓ acme: 1 record,")


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal there")
def test_the_records_that_come_are_followed_until_somebody_has_seen_enough(forked: list[str], trail: int) -> None:
    arguments = [*forked, "audit", "tail", "-n", "1", "--follow", "--json"]
    following = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with following, Store.open() as store:
        try:
            assert following.stdout is not None
            assert json.loads(following.stdout.readline())["seq"] == 12
            store.of().audit.append(record(1).as_dict())
            store.of().audit.append(record(2).as_dict())
            assert [json.loads(following.stdout.readline())["seq"] for _ in range(2)] == [13, 14]
            following.send_signal(signal.SIGINT)
            assert following.wait(30) == 130
        finally:
            following.kill()


# --- who reads, and where ---------------------------------------------------------------------------------------------


@pytest.fixture
def token(trail: int) -> str:
    """The token of somebody of the tenant acme, which has one record of its own."""
    with Store.open() as store:
        store.of().people.add(Person(name="root", roles=frozenset({"admin"})))
        acme = store.of("acme")
        acme.people.add(Person(name="tina", roles=frozenset({"admin"})))
        acme.audit.append(record(1, tenant="acme", tool="theirs").as_dict())
        return acme.people.new_token("tina")[1]


def test_a_token_reads_the_records_of_its_own_tenant_alone(
    metier: Command, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_API_TOKEN", token)
    for verb in ("tail", "search"):
        code, out, _ = metier("audit", verb, "--json")
        records = json.loads(out)["records"]
        assert (code, {one["tenant"] for one in records}) == (0, {"acme"})
        assert [one["tool"] for one in records if "tool" in one] == ["theirs"]
    assert len(metier("audit", "export")[1].splitlines()) == 3
    code, out, _ = metier("audit", "verify", "--json")
    assert (code, [one["tenant"] for one in json.loads(out)["chains"]]) == (0, ["acme"])
    for verb in ("tail", "search", "export", "checkpoint"):
        code, out, err = metier("audit", verb, "--tenant", "")
        assert (code, out) == (1, "")
        assert "[not-permitted]" in err


@pytest.mark.each("verb", ["tail", "search", "export", "checkpoint", "verify"])
def test_a_token_that_does_not_count_reads_nothing(
    metier: Command, token: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_API_TOKEN", "mtr_wrong")
    code, out, err = metier("audit", verb)
    assert (code, out) == (1, "")
    assert "[person-not-found]" in err


def test_who_is_not_known_to_the_store_reads_nothing(
    metier: Command, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.guard.guard.current_user", lambda: "mallory")
    code, out, err = metier("audit", "tail")
    assert (code, out) == (1, "")
    assert "'mallory' is not known" in err


def test_the_records_are_read_where_an_administrator_says(
    metier: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = f"sqlite:///{tmp_path}/ours.db"
    (tmp_path / "policy.yaml").write_text(f"version: 1\nstore: {ours}\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    monkeypatch.setenv("METIER_STORE", f"sqlite:///{tmp_path}/mine.db")
    with Store.open(ours) as store:
        store.of().audit.append(record(1).as_dict())
    assert seqs(metier("audit", "tail", "--json")[1]) == [1]
    assert json.loads(metier("audit", "checkpoint", "--json")[1])["checkpoint"]["seq"] == 1
    assert metier("audit", "verify")[1].startswith("✓ 1 record,")
    assert not (tmp_path / "mine.db").exists()


@pytest.mark.parametrize("verb", [("tail",), ("tail", "--follow"), ("search",), ("export",), ("checkpoint",)])
def test_a_store_that_is_gone_is_not_made_anew_to_read_from(metier: Command, trail: int, verb: tuple[str, ...]) -> None:
    for path in data_folder().glob("metier.db*"):
        path.unlink()
    code, out, err = metier("audit", *verb)
    assert (code, out) == (2, "")
    assert "was there, and is gone" in err
    assert not (data_folder() / "metier.db").exists()


def test_an_export_of_which_nothing_is_signed_is_told(metier: Command, trail: int, tmp_path: Path) -> None:
    lines = metier("audit", "export")[1].splitlines()
    (tmp_path / "export.jsonl").write_text("\n".join(lines[:10]))
    code, out, _ = metier("audit", "verify", "--file", tmp_path / "export.jsonl")
    assert code == 0
    assert "Nothing in it is signed" in out


@pytest.mark.covers("USE-9")
def test_who_was_added_is_in_the_text_and_in_the_spreadsheet(metier: Command, tmp_path: Path) -> None:
    assert metier("user", "add", system_user(), "--role", "admin")[0] == 0
    _, out, _ = metier("audit", "export", "--format", "text")
    assert re.search(rf"person\.added user=.* user {re.escape(system_user())}: admin", out)
    target = tmp_path / "audit.csv"
    assert metier("audit", "export", "--format", "csv", "-o", target)[0] == 0
    (row,) = csv.DictReader(io.StringIO(target.read_bytes().decode(), newline=""))
    assert row["type"] == "person.added" and system_user() in row["reason"]
