"""Exports of the audit log: JSON lines, CloudEvents, OTLP, OCSF, CSV and text; reading an export."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import quote

from metier._lazy import fields
from metier._version import __version__
from metier.errors import InvalidArgument
from metier.guard.audit.checkpoints import Checkpoint
from metier.guard.audit.log import AuditRecord, object_of
from metier.guard.audit.ocsf import GEN_AI, ocsf_event
from metier.hints import for_people
from metier.skill import shown
from metier.store.audit_log import ChainedRecord, canonical_or_none, skill_ref
from metier.store.canonical_json import parse_strict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

Format: TypeAlias = Literal["jsonl", "cloudevents", "otlp", "ocsf", "csv", "text"]

_BATCH = 500
"""Log records in one OTLP request."""
_INFO, _WARN = (9, "INFO"), (13, "WARN")
_CSV_COLUMNS = ("seq", *(one.name for one in fields(AuditRecord)), "prev_hash", "hash")
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a cell that a spreadsheet would calculate."""
_MAX_LINE = 4 * 1024 * 1024
"""Several times the size of the largest record."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRACE = re.compile(r"[0-9a-f]{32}")


def export_lines(records: Iterable[ChainedRecord], checkpoints: Iterable[Checkpoint], form: Format) -> Iterator[str]:
    """Return the lines of an export; those of `jsonl` can be verified, with their signatures, from the file alone."""
    if form == "jsonl":
        return _json_lines(records, checkpoints)
    return _FORMS[form](records)


def _json_lines(records: Iterable[ChainedRecord], checkpoints: Iterable[Checkpoint]) -> Iterator[str]:
    signed: dict[int, Checkpoint] = {one.seq: one for one in checkpoints}
    for chained in records:
        line = {**_record(chained), "prev_hash": chained.previous, "hash": chained.hash}
        if chained.seq in signed:
            line["checkpoint"] = signed[chained.seq].as_dict()
        yield _line(line)


def _cloud_events(records: Iterable[ChainedRecord]) -> Iterator[str]:
    for chained in records:
        record = _record(chained)
        event = {
            "specversion": "1.0",
            "id": chained.hash,
            "source": f"urn:metier:audit:{quote(chained.tenant, safe='')}" if chained.tenant else "urn:metier:audit",
            "type": f"metier.{record.get('type', '')}",
            "subject": skill_ref(record),
            "time": _time(record),
            "datacontenttype": "application/json",
            "data": record,
        }
        yield _line({name: value for name, value in event.items() if value})


def _ocsf_events(records: Iterable[ChainedRecord]) -> Iterator[str]:
    for chained in records:
        record = _record(chained)
        yield _line(ocsf_event(record, uid=chained.hash, time=int(_nanoseconds(record)) // 1_000_000))


def _otlp(records: Iterable[ChainedRecord]) -> Iterator[str]:
    log_records = map(_log_record, records)
    while batch := list(itertools.islice(log_records, _BATCH)):
        resource = {"attributes": [_attribute("service.name", "metier"), _attribute("service.version", __version__)]}
        scope = {"name": "metier.audit", "version": __version__}
        yield _line({"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": batch}]}]})


def _log_record(chained: ChainedRecord) -> dict[str, Any]:
    record = _record(chained)
    number, text = _INFO if record.get("decision") == "allow" else _WARN
    found: dict[str, Any] = {
        "timeUnixNano": _nanoseconds(record),
        "observedTimeUnixNano": _nanoseconds(record),
        "severityNumber": number,
        "severityText": text,
        "eventName": f"metier.{record.get('type', '')}",
        "body": {"stringValue": str(record.get("reason", ""))},
        "attributes": [_attribute(f"metier.{name}", value) for name, value in record.items() if name != "reason"]
        + [_attribute(GEN_AI[name], value) for name, value in record.items() if name in GEN_AI]
        + [_attribute("metier.hash", chained.hash)],
    }
    trace = record.get("correlation_id")
    if isinstance(trace, str) and _TRACE.fullmatch(trace) and trace.strip("0"):
        found["traceId"] = trace
    return found


def _attribute(name: str, value: Any) -> dict[str, Any]:
    return {"key": name, "value": _any_value(value)}


def _any_value(value: Any) -> dict[str, Any]:
    """Return a value in OTLP JSON, where an integer is a string."""
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


def _text(records: Iterable[ChainedRecord]) -> Iterator[str]:
    for chained in records:
        yield from format_record(_record(chained))


def format_record(record: Mapping[str, Any]) -> list[str]:
    """Return a record as lines for people: three for a script run, one for anything else.

    >>> run = {"type": "script.run", "skill": "pdf", "path": "scripts/fill.py", "user": "sam", "exit_code": 0}
    >>> run |= {"command": "python3 fill.py a.pdf", "duration_ms": 12.5, "timestamp": "2026-01-01T10:00:00.000+00:00"}
    >>> print("\\n".join(format_record(run)))
    [AUDIT] skill=pdf script=scripts/fill.py user=sam time=2026-01-01T10:00:00.000+00:00
    [AUDIT] command: python3 fill.py a.pdf
    [AUDIT] exit code: 0, duration: 12.5 ms
    """
    texts = {name: _display(value) for name, value in record.items()}
    if record.get("event") == "run" or texts.get("type") == "script.run":
        return _format_run(record, texts)
    what, reason = object_of(record)
    parts = [
        texts.get("timestamp", ""),
        texts.get("type", ""),
        _display(skill_ref(record)),
        _display(what),
        f"user={texts['user']}" if "user" in texts else "",
        f"agent={texts['agent']}" if "agent" in texts else "",
        _display(reason),
    ]
    return ["[AUDIT] " + " ".join(part for part in parts if part)]


def _format_run(record: Mapping[str, Any], texts: Mapping[str, str]) -> list[str]:
    who = texts.get("user") or texts.get("agent") or "-"
    head = f"skill={_display(skill_ref(record)) or '-'} script={texts.get('path') or '-'} user={who}"
    digest = f", output: {texts['output_digest']}" if texts.get("output_digest") else ""
    took = f"exit code: {texts.get('exit_code', '-')}, duration: {texts.get('duration_ms', '-')} ms{digest}"
    if record.get("decision", "allow") != "allow":
        took = f"not run: {texts.get('reason', '')}"
    elif "would" in texts:
        took += f", {texts.get('reason', '')}"
    lines = [
        f"{head} time={texts.get('timestamp', '-')}",
        f"command: {texts.get('command') or '-'}",
        took,
    ]
    return [f"[AUDIT] {line}" for line in lines]


def _csv(records: Iterable[ChainedRecord]) -> Iterator[str]:
    """Yield CSV by RFC 4180, with the same columns in the same order for all records."""
    yield csv_line(_CSV_COLUMNS)
    for chained in records:
        record = {"reason": chained.text, **_record(chained), "prev_hash": chained.previous, "hash": chained.hash}
        yield csv_line([csv_cell(record.get(name)) for name in _CSV_COLUMNS])


def csv_line(cells: Iterable[str]) -> str:
    """Return a line of CSV, but for the line feed at its end."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r").writerow(cells)
    # The caller adds the line feed of the line ending.
    return out.getvalue()


def csv_cell(value: Any) -> str:
    """Return a value as a cell that no spreadsheet calculates."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = shown(text, len(text) + 1)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _record(chained: ChainedRecord) -> dict[str, Any]:
    return chained.record or {"seq": chained.seq, "tenant": chained.tenant, "unreadable": chained.text}


def _display(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_display, value))
    return shown(value if isinstance(value, str) else json.dumps(value), 4_096)


def _time(record: Mapping[str, Any]) -> str:
    """Return the timestamp where it is RFC 3339, which that of a record may not be."""
    return "" if _moment(record) is None else str(record["timestamp"])


def _moment(record: Mapping[str, Any]) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(record.get("timestamp", "")))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _nanoseconds(record: Mapping[str, Any]) -> str:
    moment = _moment(record) or _EPOCH
    return str(max(0, (moment - _EPOCH) // timedelta(microseconds=1) * 1_000))


def _line(value: object) -> str:
    # ASCII only: no character of a foreign text ends the line for any reader.
    return json.dumps(value, separators=(",", ":"))


_FORMS: dict[str, Callable[[Iterable[ChainedRecord]], Iterator[str]]] = {
    "cloudevents": _cloud_events,
    "otlp": _otlp,
    "ocsf": _ocsf_events,
    "csv": _csv,
    "text": _text,
}


def records_in(path: Path) -> Iterator[ChainedRecord]:
    """Yield the records of a `jsonl` export in the order of its lines; a line of something else is unreadable."""
    for line in _read_lines(path):
        record = parse_strict(line) or {}
        previous, made = (_as_text(record.pop(name, "")) for name in ("prev_hash", "hash"))
        record.pop("checkpoint", None)
        text = canonical_or_none(record)
        if not record or text is None:
            yield ChainedRecord(tenant="", seq=0, record=None, text=line, previous="", hash="")
            continue
        seq = record.get("seq")
        yield ChainedRecord(
            tenant=_as_text(record.get("tenant")),
            seq=seq if type(seq) is int else 0,
            record=record,
            text=text,
            previous=previous,
            hash=made,
        )


def checkpoints_in(path: Path) -> list[Checkpoint]:
    """Return the checkpoints in a `jsonl` export."""
    found = []
    for line in _read_lines(path):
        if '"checkpoint"' in line:
            checkpoint = Checkpoint.of((parse_strict(line) or {}).get("checkpoint"))
            if checkpoint is not None:
                found.append(checkpoint)
    return found


def _read_lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            while line := file.readline(_MAX_LINE):
                if line.strip():
                    yield line
    except OSError as error:
        raise InvalidArgument(
            f"{os.fspath(path)} cannot be read: {error.strerror}.",
            hint=for_people("Name a file that `metier audit export` has written."),
        ) from None


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""
