"""The audit trail for other programs and for people: JSON lines, CloudEvents, OTLP, CSV, and plain text."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._version import __version__
from metier.guard.audit.log import POINTS, AuditRecord
from metier.skill import shown
from metier.store.link import skill_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from metier.guard.audit.checkpoints import Checkpoint
    from metier.store.link import ChainedRecord

Format: TypeAlias = Literal["jsonl", "cloudevents", "otlp", "csv", "text"]

_BATCH = 500
"""Log records in one request of OTLP."""
_INFO, _WARN = (9, "INFO"), (13, "WARN")
_CSV_COLUMNS = ("seq", *(field.name for field in fields(AuditRecord)), "prev_hash", "hash")
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters with which a cell begins that a spreadsheet would calculate."""
_TRACE = re.compile(r"[0-9a-f]{32}")


def export_lines(links: Iterable[ChainedRecord], checkpoints: Iterable[Checkpoint], form: Format) -> Iterator[str]:
    """The lines of an export. Those of `jsonl` can be verified, with their signatures, from the file alone."""
    if form == "jsonl":
        return _json_lines(links, checkpoints)
    return _FORMS[form](links)


def _json_lines(links: Iterable[ChainedRecord], checkpoints: Iterable[Checkpoint]) -> Iterator[str]:
    signed: dict[int, Checkpoint] = {one.seq: one for one in checkpoints}
    for link in links:
        line = {**_record(link), "prev_hash": link.previous, "hash": link.hash}
        if link.seq in signed:
            line["checkpoint"] = signed[link.seq].as_dict()
        yield _line(line)


def _cloud_events(links: Iterable[ChainedRecord]) -> Iterator[str]:
    for link in links:
        record = _record(link)
        event = {
            "specversion": "1.0",
            "id": link.hash,
            "source": f"urn:metier:audit:{_uri(link.tenant)}" if link.tenant else "urn:metier:audit",
            "type": f"metier.{record.get('type', '')}",
            "subject": skill_ref(record),
            "time": _time(record),
            "datacontenttype": "application/json",
            "data": record,
        }
        yield _line({name: value for name, value in event.items() if value})


def _otlp(links: Iterable[ChainedRecord]) -> Iterator[str]:
    records = (_log_record(link) for link in links)
    while batch := list(itertools.islice(records, _BATCH)):
        resource = {"attributes": [_attribute("service.name", "metier"), _attribute("service.version", __version__)]}
        scope = {"name": "metier.audit", "version": __version__}
        yield _line({"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": batch}]}]})


def _log_record(link: ChainedRecord) -> dict[str, Any]:
    record = _record(link)
    number, text = _INFO if record.get("decision") == "allow" else _WARN
    found: dict[str, Any] = {
        "timeUnixNano": _nanoseconds(record),
        "observedTimeUnixNano": _nanoseconds(record),
        "severityNumber": number,
        "severityText": text,
        "eventName": f"metier.{record.get('type', '')}",
        "body": {"stringValue": str(record.get("reason", ""))},
        "attributes": [_attribute(f"metier.{name}", value) for name, value in record.items() if name != "reason"]
        + [_attribute("metier.hash", link.hash)],
    }
    trace = record.get("correlation_id")
    if isinstance(trace, str) and _TRACE.fullmatch(trace) and trace.strip("0"):
        found["traceId"] = trace
    return found


def _attribute(name: str, value: Any) -> dict[str, Any]:
    return {"key": name, "value": _any_value(value)}


def _any_value(value: Any) -> dict[str, Any]:
    """A value as OTLP has it in JSON, where a whole number is a text."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any_value(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [_attribute(name, inner) for name, inner in value.items()]}}
    return {"stringValue": "" if value is None else str(value)}


def _text(links: Iterable[ChainedRecord]) -> Iterator[str]:
    for link in links:
        yield from format_record(_record(link))


def format_record(record: Mapping[str, Any]) -> list[str]:
    """A record for people: three lines for what was run, one for anything else.

    >>> run = {"type": "script.run", "skill": "pdf", "path": "scripts/fill.py", "user": "sam", "exit_code": 0}
    >>> run |= {"command": "python3 fill.py a.pdf", "duration_ms": 12.5, "timestamp": "2026-01-01T10:00:00.000+00:00"}
    >>> print("\\n".join(format_record(run)))
    [AUDIT] skill=pdf script=scripts/fill.py user=sam time=2026-01-01T10:00:00.000+00:00
    [AUDIT] command: python3 fill.py a.pdf
    [AUDIT] exit code: 0, duration: 12.5 ms
    """
    said = {name: _said(value) for name, value in record.items()}
    if record.get("event") == "run" or said.get("type") == "script.run":
        return _told_run(record, said)
    what, reason = object_of(record)
    parts = [
        said.get("timestamp", ""),
        said.get("type", ""),
        _said(skill_ref(record)),
        _said(what),
        f"user={said['user']}" if "user" in said else "",
        f"agent={said['agent']}" if "agent" in said else "",
        _said(reason),
    ]
    return ["[AUDIT] " + " ".join(part for part in parts if part)]


def object_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """The object of a record beside its skill, and its reason as far as that is news.

    >>> object_of({"type": "person.added", "event": "person", "decision": "allow", "reason": "ada (user): reviewer"})
    ('', 'ada (user): reviewer')
    >>> object_of({"event": "call", "decision": "allow", "tool": "Read", "reason": "Nothing is against it."})
    ('Read', '')
    """
    # What people do has its object in the ids and the reason: whom they added, which request they decided.
    is_done_by_people = str(record.get("event")) not in POINTS
    names = ("proposal", "request", "approval", "tool", "path") if is_done_by_people else ("tool", "path", "command")
    found = [str(record[name]) for name in names if record.get(name)]
    is_plain = record.get("decision") == "allow" and not record.get("would")
    is_known = is_plain and not is_done_by_people and bool(found or skill_ref(record))
    reason = "" if is_known else str(record.get("reason") or record.get("unreadable") or "")
    notes = record.get("notes")
    tried = [str(note) for note in notes if str(note).startswith("tried ")] if isinstance(notes, list | tuple) else []
    return " ".join(found if is_done_by_people else found[:1]), " ".join(
        part for part in (reason, *(f"({note})" for note in tried)) if part
    )


def _told_run(record: Mapping[str, Any], said: Mapping[str, str]) -> list[str]:
    who = said.get("user") or said.get("agent") or "-"
    head = f"skill={_said(skill_ref(record)) or '-'} script={said.get('path') or '-'} user={who}"
    digest = f", output: {said['output_digest']}" if said.get("output_digest") else ""
    took = f"exit code: {said.get('exit_code', '-')}, duration: {said.get('duration_ms', '-')} ms{digest}"
    if record.get("decision", "allow") != "allow":
        took = f"not run: {said.get('reason', '')}"
    elif "would" in said:
        took += f", {said.get('reason', '')}"
    lines = [f"{head} time={said.get('timestamp', '-')}", f"command: {said.get('command') or '-'}", took]
    return [f"[AUDIT] {line}" for line in lines]


def _csv(links: Iterable[ChainedRecord]) -> Iterator[str]:
    """RFC 4180, with the same columns in the same order whatever the records say."""
    yield _csv_line(_CSV_COLUMNS)
    for link in links:
        record = {"reason": link.text, **_record(link), "prev_hash": link.previous, "hash": link.hash}
        yield _csv_line([_csv_cell(record.get(name)) for name in _CSV_COLUMNS])


def _csv_line(cells: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r").writerow(cells)
    # The caller ends the line, and a record's line ends with both characters.
    return out.getvalue()


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = shown(text, len(text) + 1)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _record(link: ChainedRecord) -> dict[str, Any]:
    return link.record or {"seq": link.seq, "tenant": link.tenant, "unreadable": link.text}


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_said, value))
    return shown(value if isinstance(value, str) else json.dumps(value), 4_096)


def _time(record: Mapping[str, Any]) -> str:
    """The moment as RFC 3339, which a timestamp of a record may not be."""
    moment = _moment(record)
    return "" if moment is None else str(record["timestamp"])


def _moment(record: Mapping[str, Any]) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(record.get("timestamp", "")))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _nanoseconds(record: Mapping[str, Any]) -> str:
    moment = _moment(record)
    if moment is None:
        return "0"
    past = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return str(max(0, (past.days * 86_400 + past.seconds) * 1_000_000_000 + past.microseconds * 1_000))


def _uri(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


def _line(value: object) -> str:
    # ASCII only: no character of a stranger's text ends the line for anybody.
    return json.dumps(value, separators=(",", ":"))


_FORMS: dict[str, Callable[[Iterable[ChainedRecord]], Iterator[str]]] = {
    "cloudevents": _cloud_events,
    "otlp": _otlp,
    "csv": _csv,
    "text": _text,
}
