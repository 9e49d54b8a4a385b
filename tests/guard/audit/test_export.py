"""The audit log for other programs: each format is what its readers expect, whatever is in the records."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from metier.guard.audit.export import Format, export_lines, format_record
from metier.store.audit_log import ChainedRecord, canonical

CALL = {
    "timestamp": "2026-01-01T10:00:00.250+00:00",
    "event": "call",
    "type": "tool.denied",
    "decision": "deny",
    "reason": "Not allowed.",
    "active": ["notes", "pdf"],
    "tool": "Bash",
    "user": "sam",
    "success": False,
    "duration_ms": 0.5,
    "exit_code": 3,
    "correlation_id": "0af7651916cd43dd8448eb211c80319c",
}
ODD = {"timestamp": "t", "reason": "\x1b[2J\n[AUDIT] forged\u2028", "type": {"a": None}, "active": 5, "by": []}


def link(values: dict[str, Any], tenant: str = "") -> ChainedRecord:
    text = canonical({"seq": 1, "tenant": tenant, **values})
    return ChainedRecord(tenant=tenant, seq=1, record=json.loads(text), text=text, previous="0" * 64, hash="a" * 64)


def lines(form: Format, *links: ChainedRecord) -> list[str]:
    return list(export_lines(links, [], form))


def test_a_line_of_json_is_the_record_with_its_hashes() -> None:
    (line,) = lines("jsonl", link(CALL))
    assert json.loads(line) == {**CALL, "seq": 1, "tenant": "", "prev_hash": "0" * 64, "hash": "a" * 64}


def test_a_cloud_event_has_what_the_specification_asks_for() -> None:
    (line,) = lines("cloudevents", link(CALL, "acmé inc"))
    event = json.loads(line)
    assert event.pop("data") == {**CALL, "seq": 1, "tenant": "acmé inc"}
    assert event == {
        "specversion": "1.0",
        "id": "a" * 64,
        "source": "urn:metier:audit:acm%C3%A9%20inc",
        "type": "metier.tool.denied",
        "subject": "pdf",
        "time": "2026-01-01T10:00:00.250+00:00",
        "datacontenttype": "application/json",
    }


def test_a_time_that_is_none_is_not_told() -> None:
    event = json.loads(lines("cloudevents", link({**CALL, "timestamp": "yesterday"}))[0])
    assert "time" not in event
    assert event["source"] == "urn:metier:audit"


def test_otlp_is_what_a_collector_reads() -> None:
    (line,) = lines("otlp", link(CALL, "acme"), link({**CALL, "decision": "allow", "correlation_id": "mine"}))
    request = ParseDict(json.loads(line), ExportLogsServiceRequest())
    (resource,) = request.resource_logs
    assert {one.key: one.value.string_value for one in resource.resource.attributes}["service.name"] == "metier"
    first, second = resource.scope_logs[0].log_records
    assert first.time_unix_nano == 1_767_261_600_250_000_000
    assert (first.severity_text, second.severity_text) == ("WARN", "INFO")
    assert first.event_name == "metier.tool.denied"
    assert first.body.string_value == "Not allowed."
    values = {one.key: one.value for one in first.attributes}
    assert values["metier.tenant"].string_value == "acme"
    assert values["metier.exit_code"].int_value == 3
    assert values["metier.duration_ms"].double_value == 0.5
    assert values["metier.success"].HasField("bool_value")
    assert values["gen_ai.tool.name"].string_value == "Bash"
    assert [one.string_value for one in values["metier.active"].array_value.values] == ["notes", "pdf"]
    found = json.loads(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert ["traceId" in one for one in found] == [True, False]


def test_many_records_go_in_several_requests() -> None:
    found = lines("otlp", *[link(CALL)] * 1_001)
    counts = [len(json.loads(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]) for line in found]
    assert counts == [500, 500, 1]


def test_an_ocsf_event_has_what_its_class_requires() -> None:
    """The attributes that API Activity of OCSF 1.3.0 requires, and the constraints of their objects."""
    load = {**CALL, "event": "load", "type": "skill.activated", "decision": "allow", "success": True, "tool": ""}
    about = {"skill": "pdf", "source": "acme", "digest": "sha256:1", "agent": "clerk", "model": "gpt-5", "session": "s"}
    denied, loaded = (json.loads(line) for line in lines("ocsf", link(CALL, "acme"), link({**load, **about})))
    for event in (denied, loaded):
        assert (event["category_uid"], event["class_uid"]) == (6, 6003)
        assert event["activity_id"] in (2, 99)
        assert event["type_uid"] == 6003 * 100 + event["activity_id"]
        assert event["time"] == 1_767_261_600_250
        assert event["metadata"]["version"] == "1.3.0"
        assert event["metadata"]["product"]["vendor_name"]
        assert event["api"]["operation"]
        assert event["src_endpoint"].keys() & {"ip", "uid", "name", "hostname", "svc_name"}
        assert event["actor"].keys() & {"process", "user", "session", "app_name"}
    assert (denied["severity"], denied["status"], denied["status_detail"]) == ("Medium", "Failure", "Not allowed.")
    assert (denied["metadata"]["tenant_uid"], denied["metadata"]["correlation_uid"]) == ("acme", CALL["correlation_id"])
    assert (loaded["severity_id"], loaded["status_id"]) == (1, 1)
    assert loaded["actor"] == {"app_name": "clerk", "user": {"name": "sam"}, "session": {"uid": "s"}}
    assert loaded["resources"] == [{"name": "pdf@acme", "type": "skill", "uid": "sha256:1"}]
    names = {"gen_ai.skill.name": "pdf", "gen_ai.request.model": "gpt-5", "gen_ai.agent.name": "clerk"}
    assert names.items() <= loaded["unmapped"].items()


@pytest.mark.each("form", ["jsonl", "cloudevents", "otlp", "ocsf", "text"])
def test_nothing_in_a_record_breaks_a_format_or_forges_a_line(form: Format) -> None:
    unreadable = ChainedRecord(tenant="", seq=2, record=None, text="{", previous="", hash="")
    found = lines(form, link(ODD), unreadable, link({}))
    assert "".join(found).isprintable()
    if form == "text":
        assert all(line.startswith("[AUDIT] ") for line in found)
        assert len(found) == 3
    else:
        for line in found:
            json.loads(line)
        if form == "otlp":
            ParseDict(json.loads(found[0]), ExportLogsServiceRequest())


@pytest.mark.covers("A-23")
def test_a_script_run_is_told_in_three_lines() -> None:
    run = {
        "timestamp": "2026-01-01T10:00:00.250+00:00",
        "event": "run",
        "type": "script.run",
        "decision": "allow",
        "skill": "pdf",
        "source": "acme",
        "path": "scripts/fill.py",
        "command": "scripts/fill.py a\nb.pdf",
        "user": "sam",
        "exit_code": 0,
        "duration_ms": 12.5,
        "output_digest": "sha256:1",
    }
    assert format_record(run) == [
        "[AUDIT] skill=pdf@acme script=scripts/fill.py user=sam time=2026-01-01T10:00:00.250+00:00",
        "[AUDIT] command: scripts/fill.py a\\nb.pdf",
        "[AUDIT] exit code: 0, duration: 12.5 ms, output: sha256:1",
    ]


def test_a_script_that_was_refused_says_why() -> None:
    refused = {"event": "run", "decision": "deny", "skill": "pdf", "reason": "Scripts are not allowed here."}
    assert format_record(refused)[2] == "[AUDIT] not run: Scripts are not allowed here."


def test_anything_else_is_told_in_one_line() -> None:
    assert format_record(CALL) == ["[AUDIT] 2026-01-01T10:00:00.250+00:00 tool.denied pdf Bash user=sam Not allowed."]
    assert re.fullmatch(
        r"\[AUDIT\] \S+ approval.granted pdf@acme user=ada",
        format_record(
            {
                **CALL,
                "type": "approval.granted",
                "decision": "allow",
                "tool": "",
                "skill": "pdf@acme",
                "user": "ada",
            }
        )[0],
    )


@pytest.mark.covers("USE-9")
@pytest.mark.each(
    ("record", "said"),
    [
        (
            {"event": "person", "type": "person.added", "reason": "ada (user): reviewer"},
            "user=root ada (user): reviewer",
        ),
        ({"event": "person", "type": "person.removed", "reason": "ada (user)"}, "user=root ada (user)"),
        ({"event": "token", "type": "token.made", "reason": "t-3k9w6p2x of ada"}, "user=root t-3k9w6p2x of ada"),
        (
            {"event": "approval", "type": "approval.granted", "skill": "pdf", "request": "r-1", "approval": "a-1"},
            "approval.granted pdf r-1 a-1 user=root",
        ),
        (
            {"event": "proposal", "type": "proposal.created", "skill": "pdf", "proposal": "p-1", "reason": "Two."},
            "proposal.created pdf p-1 user=root Two.",
        ),
        (
            {"event": "store", "type": "store.restored", "path": "backup.zip", "reason": "It was brought back."},
            "store.restored backup.zip user=root It was brought back.",
        ),
        (
            {"event": "person", "type": "person.refused", "decision": "deny", "notes": ["tried person.added"]},
            "person.refused user=root (tried person.added)",
        ),
    ],
)
def test_the_object_of_what_people_do_is_named_in_the_text(record: dict[str, Any], said: str) -> None:
    (line,) = lines("text", link({"timestamp": "2026-01-01", "decision": "allow", "user": "root", **record}))
    assert line.endswith(said)


@pytest.mark.covers("USE-9")
def test_a_spreadsheet_gets_the_same_columns_whatever_the_records_say() -> None:
    found = lines("csv", link(CALL), link(ODD), link({"unheard": 1}))
    rows = list(csv.DictReader(io.StringIO("".join(f"{line}\n" for line in found), newline="")))
    assert [len(row) for row in rows] == [len(rows[0])] * 3
    assert (rows[0]["seq"], rows[0]["type"], rows[0]["active"]) == ("1", "tool.denied", '["notes", "pdf"]')
    assert (rows[0]["success"], rows[0]["exit_code"], rows[0]["hash"]) == ("false", "3", "a" * 64)
    assert all(line.endswith("\r") and line.count("\r") == 1 and "\n" not in line for line in found)
    assert found[0].startswith("seq,timestamp,event,decision,reason,type,")


@pytest.mark.covers("USE-9")
@pytest.mark.each("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1", '=HYPERLINK("http://x.test")'])
def test_no_cell_of_a_spreadsheet_is_a_formula(text: str) -> None:
    _, line = lines("csv", link({**CALL, "reason": text, "user": text}))
    row = next(csv.reader([line.rstrip("\r")]))
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\uff1d")) for cell in row)


@pytest.mark.covers("USE-9")
def test_text_of_a_stranger_neither_ends_a_row_of_a_spreadsheet_nor_acts_on_a_terminal() -> None:
    hostile = 'a,b;"c"\r\nforged,row\x1b[2J\u202e'
    _, line = lines("csv", link({**CALL, "reason": hostile}))
    assert "\x1b" not in line and "\u202e" not in line
    (row,) = csv.reader(io.StringIO(line + "\n", newline=""))
    assert row[4] == 'a,b;"c"\\r\\nforged,row\\x1b[2J\\u202e'
