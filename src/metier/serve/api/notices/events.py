"""Events that webhooks are told of, each made of an audit record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from metier.store.audit_log import skill_ref
from metier.store.rows import now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.store import TenantScope

Event = Literal[
    "request.waiting",
    "request.decided",
    "proposal.waiting",
    "quarantine",
    "approval.expiring",
    "verification.failed",
    "node.tampered",
]
_BY_TYPE: Mapping[str, Event] = {
    "approval.requested": "request.waiting",
    "approval.granted": "request.decided",
    "approval.denied": "request.decided",
    "proposal.created": "proposal.waiting",
    "skill.quarantined": "quarantine",
    "approval.expiring": "approval.expiring",
    "verification.failed": "verification.failed",
    "node.tampered": "node.tampered",
}
TITLES: Mapping[str, str] = {
    "request.waiting": "A skill waits for an approval",
    "request.decided": "A request was decided",
    "proposal.waiting": "A change to a skill waits for a decision",
    "quarantine": "A skill was taken out of use",
    "approval.expiring": "An approval runs out",
    "verification.failed": "The audit log is not as it was written",
    "node.tampered": "The records of a node are not as it sent them",
    "test": "This is a test",
}
_PATHS: Mapping[str, str] = {
    "request.waiting": "/api/v1/requests/{}",
    "request.decided": "/api/v1/requests/{}",
    "proposal.waiting": "/api/v1/proposals/{}",
    "quarantine": "/api/v1/quarantine",
    "approval.expiring": "/api/v1/approvals/{}",
    "verification.failed": "/api/v1/audit/verify",
    "node.tampered": "/api/v1/nodes/{}",
}
_ID_FIELDS: Mapping[str, str] = {
    "request.waiting": "request",
    "request.decided": "request",
    "proposal.waiting": "proposal",
    "approval.expiring": "approval",
    "node.tampered": "node",
}


def event_of(record: Mapping[str, Any]) -> Event | None:
    """The event that an audit record is; None for one that nobody is told of."""
    return _BY_TYPE.get(str(record.get("type", "")))


def notice_of(scope: TenantScope, event: Event, record: Mapping[str, Any], server: str) -> dict[str, Any]:
    """The notice of a record: type, time and data, as Standard Webhooks has them, with a link to the record."""
    id = str(record.get(_ID_FIELDS.get(event, ""), "")) or _first_note(record)  # noqa: A001
    data = {
        "tenant": scope.tenant,
        "seq": record.get("seq"),
        "record": record.get("type"),
        "id": id,
        "skill": skill_ref(record),
        "digest": record.get("digest"),
        "decision": record.get("decision"),
        "by": record.get("user") or record.get("agent"),
        "reason": record.get("reason"),
        "notes": record.get("notes"),
        "link": f"{server}{_PATHS[event].format(id)}" if server else "",
        **_request_data(scope, event, id),
    }
    return {
        "type": event,
        "timestamp": str(record.get("timestamp", "")),
        "data": {name: value for name, value in data.items() if value not in (None, "", [], ()) or name == "tenant"},
    }


def notice_of_test(scope: TenantScope, by: str) -> dict[str, Any]:
    """The notice by which somebody tries a webhook."""
    return {"type": "test", "timestamp": now(), "data": {"tenant": scope.tenant, "by": by}}


def _first_note(record: Mapping[str, Any]) -> str:
    notes = record.get("notes")
    return str(notes[0]).replace(" ", ":", 1) if isinstance(notes, list) and notes else ""


def _request_data(scope: TenantScope, event: Event, id: str) -> dict[str, Any]:  # noqa: A002
    """The data of a request that somebody needs to decide about it."""
    request = scope.approvals.get_request(id) if event == "request.waiting" else None
    if request is None:
        return {}
    return {
        "by": request.requested_by,
        "environment": request.environment,
        "capabilities": list(request.capabilities),
        "new": list(request.new),
    }
