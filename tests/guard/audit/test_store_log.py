"""The audit log in the store, as a guard writes it: from any thread and process, signed, never lost in silence."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.store.postgres import sqlite_first, store_url

from metier import Guard, Library, Policy, Session
from metier.errors import AuditUnavailable
from metier.guard import Actor, AuditRecord
from metier.guard.audit.checkpoints import CheckpointFile, default_key_file
from metier.guard.audit.export import export_lines
from metier.guard.audit.governance_events import governance_record
from metier.guard.audit.keys import known_keys
from metier.guard.audit.store_log import StoreLog
from metier.guard.audit.verification import verify_store
from metier.run import PlainRunner
from metier.store.location import parse_address

__all__ = ["store_url"]


def record(reason: str = "", **more: Any) -> AuditRecord:
    return AuditRecord(timestamp="2026-01-01T10:00:00.000+00:00", event="load", decision="allow", reason=reason, **more)


@pytest.fixture
def url(store_url: str, tmp_path: Path) -> str:
    """The address of an empty store, which no test before had: a process keeps a few of them open."""
    return store_url if store_url.startswith("sqlite") else f"{store_url}&application_name={tmp_path.name}"


@pytest.fixture
def log(url: str) -> Iterator[StoreLog]:
    log = StoreLog(url, every=5)
    yield log
    log.close()


def reasons(log: StoreLog, tenant: str = "") -> list[str]:
    return [one.get("reason", "") for one in log.store.of(tenant).audit.tail(1_000)]


def is_ok(log: StoreLog) -> bool:
    return verify_store(known_keys(default_key_file()), log.store.url).is_ok


def signed(log: StoreLog) -> list[int]:
    log.flush()
    return [one.seq for one in CheckpointFile(log.store.folder).read()[0]]


def test_records_go_to_the_chain_of_their_tenant(log: StoreLog) -> None:
    log.append(record("one"))
    log.append(record("two", tenant="acme"))
    log.append(record("three"))
    assert reasons(log) == ["one", "three"]
    assert reasons(log, "acme") == ["two"]
    assert is_ok(log)


def test_the_store_is_made_with_the_first_record(tmp_path: Path) -> None:
    log = StoreLog(f"sqlite:///{tmp_path}/deep/metier.db")
    assert not (tmp_path / "deep").exists()
    log.append(record())
    assert (tmp_path / "deep" / "metier.db").exists()
    log.close()


@pytest.mark.parametrize("tenant", ["x" * 10_000, "\ud800", "a\0b"], ids=["long", "surrogate", "null"])
def test_no_name_of_a_tenant_loses_a_record(log: StoreLog, tenant: str) -> None:
    for _ in range(6):
        log.append(record("kept", tenant=tenant))
    log.append(record("kept too", tenant=tenant + "2"))
    assert len(signed(log)) == 1
    report = verify_store(known_keys(default_key_file()), log.store.url)
    assert report.is_ok
    assert sorted((one.records, one.checkpoints) for one in report.chains) == [(0, 0), (1, 0), (6, 1)]


def test_after_so_many_records_a_checkpoint_is_signed(log: StoreLog) -> None:
    for number in range(4):
        log.append(record(str(number)))
    assert signed(log) == []
    log.append(record("4"))
    assert signed(log) == [5]
    for number in range(7):
        log.append(record(str(number)))
    assert len(signed(log)) == 2
    assert is_ok(log)


def test_records_that_others_added_count_for_the_next_checkpoint(log: StoreLog) -> None:
    log.append(record())
    for _ in range(6):
        log.store.of().audit.append(record("added beside").as_dict())
    log.append(record())
    assert signed(log) == [8]


@sqlite_first
def test_what_others_have_signed_is_not_signed_again(log: StoreLog, url: str) -> None:
    other = StoreLog(url, every=5)
    log.append(record())
    for _ in range(4):
        other.append(record())
    assert signed(other) == [5]
    for _ in range(3):
        log.append(record())
    assert signed(log) == [5]
    other.close()


@sqlite_first
def test_at_its_end_it_signs_what_is_worth_it(url: str) -> None:
    for count, expected in [(9, []), (1, [10]), (9, [10]), (3, [10, 22])]:
        log = StoreLog(url)
        for _ in range(count):
            log.append(record())
        log.close()
        assert signed(log) == expected
        log.close()


def test_a_store_that_was_taken_away_is_not_made_anew_at_the_end(tmp_path: Path) -> None:
    log = StoreLog(f"sqlite:///{tmp_path}/deep/records.db")
    for _ in range(12):
        log.append(record())
    (tmp_path / "deep").rename(tmp_path / "elsewhere")
    log.close()
    assert os.listdir(tmp_path) == ["elsewhere"]


AT_THE_END = """
import sys
from metier.guard.audit.store_log import StoreLog
from metier.guard import AuditRecord
log = StoreLog(sys.argv[1])
for number in range(12):
    log.append(AuditRecord(timestamp="t", event="load", decision="allow", reason=str(number)))
"""


def test_the_end_of_a_process_is_such_an_end(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    subprocess.run([sys.executable, "-c", AT_THE_END, url], check=True, timeout=60)
    assert [one.seq for one in CheckpointFile(parse_address(url).folder).read()[0]] == [12]


def test_a_failure_to_sign_is_told_recorded_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.guard.audit.store_log._SIGNING_PAUSE", 0.0)
    key = tmp_path / "key"
    key.write_text("no key")
    log = StoreLog(f"sqlite:///{tmp_path}/metier.db", every=2, key=key)
    with caplog.at_level(logging.WARNING, "metier.guard"):
        for number in range(6):
            log.append(record(str(number)))
            log.flush()
    assert len([one for one in caplog.records if "could not be signed" in one.getMessage()]) == 1
    failures = log.store.of().audit.search(type="checkpoint.failed")
    assert [(one["decision"], one["code"]) for one in failures] == [("deny", "audit-unavailable")]
    assert str(key) in failures[0]["reason"]
    assert reasons(log)[-1] == "5"
    key.unlink()
    log.append(record("after"))
    assert signed(log) == [8]
    log.close()


def test_a_decision_does_not_wait_for_the_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on, waiting = threading.Event(), threading.Event()
    real = CheckpointFile.append

    def slow(self: CheckpointFile, checkpoint: object) -> None:
        waiting.set()
        assert may_go_on.wait(30)
        real(self, checkpoint)  # type: ignore[arg-type]

    monkeypatch.setattr(CheckpointFile, "append", slow)
    log = StoreLog(f"sqlite:///{tmp_path}/metier.db", every=2)
    for number in range(2):
        log.append(record(str(number)))
    assert waiting.wait(30)
    for number in range(2, 8):
        log.append(record(str(number)))
    assert len(reasons(log)) == 8
    may_go_on.set()
    assert signed(log) == [2]
    log.close()


@pytest.mark.parametrize("kind", ["below a file", "no address", "not a store"])
def test_what_cannot_be_written_says_so(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("not a database, by far")
    url = {
        "below a file": f"sqlite:///{tmp_path}/file/metier.db",
        "no address": "mysql://x",
        "not a store": f"sqlite:///{tmp_path}/file",
    }[kind]
    log = StoreLog(url)
    for attempt in (log.prepare, lambda: log.append(record())):
        with pytest.raises(AuditUnavailable) as caught:
            attempt()
        assert caught.value.hint


def test_a_closed_log_is_opened_again(log: StoreLog) -> None:
    log.append(record("one"))
    log.close()
    log.close()
    log.append(record("two"))
    assert reasons(log) == ["one", "two"]


def test_many_threads_write_one_chain(log: StoreLog) -> None:
    start = threading.Barrier(4)

    def work(number: int) -> None:
        start.wait()
        for step in range(15):
            log.append(record(f"{number} {step}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(reasons(log)) == sorted(f"{number} {step}" for number in range(4) for step in range(15))
    log.flush()
    assert is_ok(log)


WRITER = """
import sys
from metier.guard.audit.store_log import StoreLog
from metier.guard import AuditRecord
log = StoreLog(sys.argv[1], every=7)
for number in range(20):
    log.append(AuditRecord(timestamp=sys.argv[2], event="load", decision="allow", reason=f"{sys.argv[2]} {number}"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 6])
def test_many_processes_write_one_chain(log: StoreLog, url: str, count: int) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, url, str(number)]) for number in range(count)]
    assert [writer.wait(60) for writer in writers] == [0] * count
    found = reasons(log)
    assert len(found) == 20 * count
    for number in range(count):
        mine = [reason for reason in found if reason.startswith(f"{number} ")]
        assert mine == [f"{number} {step}" for step in range(20)]
    assert is_ok(log)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_goes_on_with_the_chain(log: StoreLog) -> None:
    log.append(record("parent"))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for number in range(6):
                log.append(record(f"child {number}"))
            log.flush()
            os.write(writing, b"done")
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert pipe.read() == b"done"
    os.waitpid(child, 0)
    log.append(record("parent again"))
    assert reasons(log) == ["parent", *(f"child {number}" for number in range(6)), "parent again"]
    assert is_ok(log)


# --- what a session leaves --------------------------------------------------------------------------------------------

KEY = "AKIA" + "Q" * 16
LEAK = f"import os\nprint(os.environ['HOME'])\nprint('{KEY[:4]}' + '{KEY[4:]}')\nraise SystemExit(3)\n"


@pytest.fixture
def session(log: StoreLog, tmp_path: Path) -> Session:
    """A session whose records go to the store."""
    skills = [
        {"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n{more}---\nDo.", "scripts/leak.py": LEAK}
        for name, more in {"a": "", "b": "allowed-tools: Read\n", "c": "", "d": ""}.items()
    ]
    guard = Guard(Policy(unsandboxed="allow"), audit=log)
    library = Library.from_files(*skills).as_caller(tenant="acme")
    return library.session(guard=guard, runner=PlainRunner(), user="sam", id="s-1", workspace=tmp_path / "work")


@sqlite_first
@pytest.mark.covers("A-47", "O-105")
def test_whoever_sets_it_off_an_activation_is_recorded_with_what_was_activated(session: Session, log: StoreLog) -> None:
    executor = session.executor(builtin=["Read", "Write"])
    session.invoke("/a")
    executor.execute_blocking("skills_load", {"skills": ["b"], "mode": "add"})
    with session.parts.loader.activation("c"), session.parts.loader.activation("d"):
        pass
    executor.execute_blocking("Write", {"file_path": "x", "content": "y"})
    session.close()
    records = log.store.of("acme").audit.tail(100)
    begun = {one["skill"]: one for one in records if one["type"] == "skill.activated"}
    assert {name: (one["trigger"], one["source"]) for name, one in begun.items()} == {
        "a": ("user", "memory"),
        "b": ("model", "memory"),
        "c": ("host", "memory"),
        "d": ("nested", "memory"),
    }
    for one in begun.values():
        assert one["digest"].startswith("sha256:")
        assert (one["layer"], one["user"], one["session"], one["tenant"]) == ("project", "sam", "s-1", "acme")
    (refused,) = (one for one in records if one["type"] == "tool.denied")
    assert (refused["tool"], refused["active"][-1], refused["user"]) == ("Write", "b", "sam")
    ended = [one["skill"] for one in records if one["type"] == "skill.deactivated"]
    assert sorted(ended) == ["a", "b", "c", "d"]


@sqlite_first
@pytest.mark.covers("A-23", "A-24", "O-105")
def test_a_script_run_is_recorded_with_all_but_its_output(session: Session, log: StoreLog) -> None:
    session.load("a")
    outcome = session.run_blocking("scripts/leak.py", ["--token=hunter2hunter2", "plain"])
    assert KEY in outcome.stdout
    (found,) = log.store.of("acme").audit.search(type="script.run")
    assert (found["skill"], found["path"], found["user"], found["exit_code"]) == ("a", "scripts/leak.py", "sam", 3)
    assert found["command"] == "scripts/leak.py --token=[REDACTED] plain"
    assert found["duration_ms"] > 0
    assert found["output_digest"].startswith("sha256:")
    lines = list(export_lines(log.store.of("acme").audit.walk(), [], "text"))
    start = next(number for number, line in enumerate(lines) if "script=" in line)
    assert lines[start : start + 3] == [
        f"[AUDIT] skill=a@memory script=scripts/leak.py user=sam time={found['timestamp']}",
        "[AUDIT] command: scripts/leak.py --token=[REDACTED] plain",
        f"[AUDIT] exit code: 3, duration: {found['duration_ms']} ms, output: {found['output_digest']}",
    ]
    kept = "\n".join(link.text for link in log.store.of("acme").audit.walk())
    assert KEY not in kept
    assert "hunter2" not in kept


@sqlite_first
@pytest.mark.covers("A-24")
def test_a_secret_is_redacted_wherever_a_record_has_it(log: StoreLog) -> None:
    log.append(record(f"It said {KEY}.", path=f"x/{KEY}", skill=f"pass {KEY}"))
    log.append(governance_record("approval.denied", actor=Actor(user="sam"), reason=f"token={KEY}", notes=(KEY,)))
    kept = "\n".join(link.text for link in log.store.of().audit.walk())
    assert KEY not in kept
    assert kept.count("[REDACTED]") == 5
