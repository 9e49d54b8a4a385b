"""The audit log as a file: whole lines, from any number of threads and processes, and never lost in silence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from metier import Guard, Library, Policy
from metier.errors import AuditUnavailable, Refused
from metier.guard import AuditRecord, FileLog
from metier.store import Store

SKILL = {"SKILL.md": "---\nname: a\ndescription: Does a.\n---\nDo."}

WRITER = """
import sys
from metier.guard import AuditRecord, FileLog
log = FileLog(sys.argv[1])
for number in range(200):
    log.append(AuditRecord(timestamp=sys.argv[2], event="load", decision="allow", reason=str(number) + "x" * 3000))
"""


def record(reason: str = "") -> AuditRecord:
    return AuditRecord(timestamp="t", event="load", decision="allow", reason=reason)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_record_is_one_line_of_json_without_what_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.jsonl"
    FileLog(path).append(record("two\nlines \u2028 \ud800"))
    assert lines(path) == [
        {
            "timestamp": "t",
            "event": "load",
            "decision": "allow",
            "reason": "two\nlines \u2028 \ud800",
            "type": "skill.activated",
            "duration_ms": 0.0,
        }
    ]
    assert path.read_bytes().count(b"\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="permissions of another kind")
def test_others_cannot_read_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "audit.jsonl"
    FileLog(path).append(record())
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_many_threads_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = FileLog(path)
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for step in range(100):
            log.append(record(f"{number} {step} " + "y" * 2_000))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {str(line["reason"]).rsplit(" ", 1)[0] for line in lines(path)}
    assert found == {f"{number} {step}" for number in range(8) for step in range(100)}


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_many_processes_write_whole_lines(tmp_path: Path, count: int) -> None:
    path = tmp_path / "audit.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(number)]) for number in range(count)]
    assert [writer.wait(60) for writer in writers] == [0] * count
    found = lines(path)
    assert len(found) == 200 * count
    for number in range(count):
        mine = [str(line["reason"]).rstrip("x") for line in found if line["timestamp"] == str(number)]
        assert mine == [str(step) for step in range(200)]


@pytest.mark.parametrize("what", ["removed", "moved", "replaced"])
def test_a_file_that_was_taken_away_is_begun_again(tmp_path: Path, what: str) -> None:
    path = tmp_path / "audit.jsonl"
    log = FileLog(path)
    log.append(record("before"))
    if what == "removed":
        path.unlink()
    else:
        path.rename(tmp_path / "audit.1")
    if what == "replaced":
        path.touch()
    log.append(record("after"))
    assert [line["reason"] for line in lines(path)] == ["after"]


def test_a_closed_file_is_opened_again(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "audit.jsonl")
    log.append(record("one"))
    log.close()
    log.close()
    log.append(record("two"))
    assert [line["reason"] for line in lines(tmp_path / "audit.jsonl")] == ["one", "two"]


@pytest.mark.parametrize("kind", ["directory", "below a file", "link"])
def test_what_cannot_be_written_says_so(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit.jsonl"
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_text("")
        path = path / "audit.jsonl"
    with pytest.raises(AuditUnavailable) as caught:
        FileLog(path).append(record())
    assert caught.value.hint
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_noticed() -> None:
    with pytest.raises(AuditUnavailable, match="space"):
        FileLog("/dev/full").append(record())


def test_a_line_that_was_cut_short_does_not_spoil_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    log = FileLog(path)
    log.append(record("one"))
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:10]))
    with pytest.raises(AuditUnavailable):
        log.append(record("two"))
    monkeypatch.undo()
    log.append(record("three"))
    log.append(record("four"))
    whole = [line for line in path.read_text().splitlines() if line.endswith("}")]
    assert [json.loads(line)["reason"] for line in whole] == ["one", "three", "four"]


@pytest.mark.covers("O-105")
def test_a_session_writes_its_trail_without_being_told(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METIER_AUDIT", raising=False)
    session = Library.from_files(SKILL).session()
    session.load("a")
    session.close()
    with Store.open() as store:
        assert str(own_home) in store.url
        assert [record["event"] for record in store.of().audit.tail(10)] == ["load", "unload"]


def test_a_default_trail_that_cannot_be_written_is_warned_about_once_and_stops_nothing(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("METIER_AUDIT", raising=False)
    monkeypatch.setenv("METIER_DATA", str(own_home / "file"))
    (own_home / "file").write_text("")
    session = Library.from_files(SKILL).session(guard=Guard(Policy()))
    for _ in range(3):
        session.load("a")
        session.unload("a")
    warnings = [one for one in caplog.records if one.name == "metier.guard" and one.levelname == "WARNING"]
    assert len(warnings) == 1


def test_a_trail_that_the_environment_asks_for_must_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METIER_AUDIT", str(tmp_path))
    session = Library.from_files(SKILL).session()
    assert session.calls.admit("Bash", {}).decision.code == "audit-unavailable"
    with pytest.raises(Refused, match="nothing may happen unrecorded"):
        session.load("a")
    assert session.active == ()


def test_no_trail_is_kept_where_it_is_off(monkeypatch: pytest.MonkeyPatch, own_home: Path) -> None:
    monkeypatch.setenv("METIER_AUDIT", "off")
    Library.from_files(SKILL).session().load("a")
    assert not (own_home / "data").exists()


def test_a_log_that_is_let_go_waits_for_no_lock(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "audit.jsonl")
    log.prepare()
    # As in a forked process, where the thread that opens the file is missing.
    with log._opening:
        ending = threading.Thread(target=log.__del__, daemon=True)
        ending.start()
        ending.join(10)
        assert not ending.is_alive()
