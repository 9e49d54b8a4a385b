"""Audit records as events of OCSF, the Open Cybersecurity Schema Framework: class API Activity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._version import __version__
from metier.store.audit_log import skill_ref

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = "1.3.0"
_CATEGORY, _CLASS = (6, "Application Activity"), (6_003, "API Activity")
_READ, _OTHER = (2, "Read"), 99
_SUCCESS, _FAILURE = (1, "Success"), (2, "Failure")
_INFORMATIONAL, _MEDIUM = (1, "Informational"), (3, "Medium")
GEN_AI = {
    "skill": "gen_ai.skill.name",
    "agent": "gen_ai.agent.name",
    "model": "gen_ai.request.model",
    "session": "gen_ai.conversation.id",
    "tool": "gen_ai.tool.name",
    "tokens_in": "gen_ai.usage.input_tokens",
    "tokens_out": "gen_ai.usage.output_tokens",
}
"""The fields of a record that have a name in the conventions of OpenTelemetry."""


def ocsf_event(record: Mapping[str, Any], *, uid: str, time: int) -> dict[str, Any]:
    """Return a record as an event; `uid` is its hash and `time` its moment in milliseconds.

    >>> event = ocsf_event({"type": "skill.activated", "decision": "allow", "skill": "pdf"}, uid="1", time=0)
    >>> event["class_uid"], event["api"]["operation"], event["unmapped"]["gen_ai.skill.name"]
    (6003, 'skill.activated', 'pdf')
    """
    kind = str(record.get("type", ""))
    is_allowed = record.get("decision", "allow") == "allow"
    activity, activity_name = _READ if record.get("event") == "read" else (_OTHER, kind or "unreadable")
    status, status_name = _SUCCESS if is_allowed and record.get("success") is not False else _FAILURE
    severity, severity_name = _INFORMATIONAL if is_allowed else _MEDIUM
    event = {
        "activity_id": activity,
        "activity_name": activity_name,
        "category_uid": _CATEGORY[0],
        "category_name": _CATEGORY[1],
        "class_uid": _CLASS[0],
        "class_name": _CLASS[1],
        "type_uid": _CLASS[0] * 100 + activity,
        "type_name": f"{_CLASS[1]}: {activity_name}",
        "time": time,
        "severity_id": severity,
        "severity": severity_name,
        "status_id": status,
        "status": status_name,
        "status_code": record.get("code"),
        "status_detail": record.get("reason"),
        "message": record.get("reason"),
        "metadata": _metadata(record, kind, uid),
        "actor": _actor(record),
        "api": {"operation": kind or "unreadable", "service": {"name": "metier"}},
        # Records do not say which machine it was.
        "src_endpoint": {"svc_name": "metier"},
        "resources": _resources(record),
        "unmapped": _unmapped(record),
    }
    return {name: value for name, value in event.items() if value not in (None, "", [], {})}


def _metadata(record: Mapping[str, Any], kind: str, uid: str) -> dict[str, Any]:
    found = {
        "version": VERSION,
        "product": {"name": "Métier", "vendor_name": "Métier", "version": __version__},
        "uid": uid,
        "event_code": kind,
        "log_name": "audit",
        "sequence": record.get("seq"),
        "tenant_uid": record.get("tenant"),
        "original_time": record.get("timestamp"),
        "correlation_uid": record.get("correlation_id"),
    }
    return {name: value for name, value in found.items() if value}


def _actor(record: Mapping[str, Any]) -> dict[str, Any]:
    """The user, the session and the agent; an event must have one of them."""
    found: dict[str, Any] = {"app_name": str(record.get("agent") or "metier")}
    if record.get("user"):
        found["user"] = {"name": str(record["user"])}
    if record.get("session"):
        found["session"] = {"uid": str(record["session"])}
    return found


def _resources(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    name = skill_ref(record)
    if not name:
        return []
    skill = {"name": name, "type": "skill", "uid": record.get("digest") or name}
    return [{field: str(value) for field, value in skill.items()}]


def _unmapped(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that OCSF has no attribute for: by the names of OpenTelemetry where there is one, else by our own."""
    told = ("reason", "code", "type", "timestamp", "seq", "tenant", "correlation_id", "user")
    return {GEN_AI.get(name, f"metier.{name}"): value for name, value in record.items() if name not in told}
