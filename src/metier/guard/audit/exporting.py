"""The audit trail for other programs and for people: JSON lines, CloudEvents, OTLP, and plain text."""

from __future__ import annotations

import itertools
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._version import __version__
from metier.skill import shown
from metier.store.link import skill_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from metier.guard.audit.checkpoints import Checkpoint
    from metier.store.link import Link

Format: TypeAlias = Literal["jsonl", "cloudevents", "otlp", "text"]

_BATCH = 500
"""Log records in one request of OTLP."""
_INFO, _WARN = (9, "INFO"), (13, "WARN")
_TRACE = re.compile(r"[0-9a-f]{32}")


def exported(links: Iterable[Link], checkpoints: Iterable[Checkpoint], form: Format) -> Iterator[str]:
    """The lines of an export. Those of `jsonl` can be verified, with their signatures, from the file alone."""
    if form == "jsonl":
        return _json_lines(links, checkpoints)
    return _FORMS[form](links)


def _json_lines(links: Iterable[Link], checkpoints: Iterable[Checkpoint]) -> Iterator[str]:
    signed: dict[int, Checkpoint] = {one.seq: one for one in checkpoints}
    for link in links:
        line = {**_record(link), "prev_hash": link.previous, "hash": link.hash}
        if link.seq in signed:
            line["checkpoint"] = signed[link.seq].as_dict()
        yield _line(line)


def _cloud_events(links: Iterable[Link]) -> Iterator[str]:
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


def _otlp(links: Iterable[Link]) -> Iterator[str]:
    records = (_log_record(link) for link in links)
    while batch := list(itertools.islice(records, _BATCH)):
        resource = {"attributes": [_attribute("service.name", "metier"), _attribute("service.version", __version__)]}
        scope = {"name": "metier.audit", "version": __version__}
        yield _line({"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": batch}]}]})


def _log_record(link: Link) -> dict[str, Any]:
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


def _text(links: Iterable[Link]) -> Iterator[str]:
    for link in links:
        yield from told(_record(link))


def told(record: Mapping[str, Any]) -> list[str]:
    """A record for people: three lines for what was run, one for anything else.

    >>> run = {"type": "script.run", "skill": "pdf", "path": "scripts/fill.py", "user": "sam", "exit_code": 0}
    >>> run |= {"command": "python3 fill.py a.pdf", "duration_ms": 12.5, "timestamp": "2026-01-01T10:00:00.000+00:00"}
    >>> print("\\n".join(told(run)))
    [AUDIT] skill=pdf script=scripts/fill.py user=sam time=2026-01-01T10:00:00.000+00:00
    [AUDIT] command: python3 fill.py a.pdf
    [AUDIT] exit code: 0, duration: 12.5 ms
    """
    said = {name: _said(value) for name, value in record.items()}
    if record.get("event") == "run" or said.get("type") == "script.run":
        return _told_run(record, said)
    what = said.get("tool") or said.get("path") or said.get("command") or ""
    parts = [
        said.get("timestamp", ""),
        said.get("type", ""),
        _said(skill_ref(record)),
        what,
        f"user={said['user']}" if "user" in said else "",
        f"agent={said['agent']}" if "agent" in said else "",
        said.get("reason", "") if record.get("decision") != "allow" or "would" in said else "",
    ]
    return ["[AUDIT] " + " ".join(part for part in parts if part)]


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


def _record(link: Link) -> dict[str, Any]:
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


_FORMS: dict[str, Callable[[Iterable[Link]], Iterator[str]]] = {
    "cloudevents": _cloud_events,
    "otlp": _otlp,
    "text": _text,
}
