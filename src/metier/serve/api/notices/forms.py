"""Forms of messages: the body and the headers that a receiver wants, and the signature of Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from metier.guard.audit.export import export_lines
from metier.serve.api.notices.events import TITLES
from metier.skill import shown
from metier.store import Delivery, TenantScope, Webhook

NoticeForm = Literal["json", "cloudevents", "slack", "github"]
AuditForm = Literal["jsonl", "cloudevents", "otlp", "ocsf"]
Form = Literal["json", "cloudevents", "slack", "github", "jsonl", "otlp", "ocsf"]
AUDIT = "audit"
"""The event of a webhook that receives all audit records in order, and nothing else."""
SECRET_PREFIX = "whsec_"
GRANT, DENY = "metier-grant", "metier-deny"
"""The actions of the buttons in a message to Slack."""
_MAX_TEXT = 2_000
_JSON = "application/json"
_AUDIT_TYPES = {
    "jsonl": "application/x-ndjson",
    "cloudevents": "application/cloudevents-batch+json",
    "otlp": _JSON,
    "ocsf": "application/x-ndjson",
}


class Message(NamedTuple):
    """The body of a request to a receiver, with its headers."""

    body: bytes
    headers: dict[str, str]


def suits(form: str, events: tuple[str, ...]) -> bool:
    """Whether a form is one for these events: the audit log has others than notices."""
    return form in get_args(AuditForm if events == (AUDIT,) else NoticeForm)


def message_of(scope: TenantScope, webhook: Webhook, delivery: Delivery, at: int) -> Message:
    """The message of a delivery, signed at a time in seconds."""
    payload = json.loads(delivery.payload)
    if delivery.event == AUDIT:
        content_type, body = _AUDIT_TYPES[webhook.form], _audit_body(scope, webhook, payload)
    else:
        content_type, data = _FORMS[webhook.form](webhook, delivery.id, payload)
        body = json.dumps(data, separators=(",", ":")).encode()
    headers = {
        "Content-Type": content_type,
        "webhook-id": delivery.id,
        "webhook-timestamp": str(at),
        "webhook-signature": sign(webhook.secret, delivery.id, at, body),
    }
    if webhook.form == "github":
        headers |= {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    if webhook.credential and webhook.form != "slack":
        headers["Authorization"] = f"Bearer {webhook.credential}"
    return Message(body, headers)


def sign(secret: str, id: str, at: int, body: bytes) -> str:  # noqa: A002
    """The signature of a body, as Standard Webhooks has it.

    >>> body = b'{"test": 2432232314}'
    >>> sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = hmac.digest(key, f"{id}.{at}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(signed).decode()}"


def _audit_body(scope: TenantScope, webhook: Webhook, payload: Mapping[str, Any]) -> bytes:
    """The records of a batch: the same at each attempt, because records never change."""
    first, last = payload["first"], payload["last"]
    records = []
    for one in scope.audit.walk(start=first):
        if one.seq > last:
            break
        records.append(one)
    lines = [*export_lines(records, (), webhook.form)]  # type: ignore[arg-type]  # one of those forms
    text = f"[{','.join(lines)}]" if webhook.form == "cloudevents" else "".join(f"{line}\n" for line in lines)
    return text.encode()


def _json(webhook: Webhook, id: str, notice: Mapping[str, Any]) -> tuple[str, Any]:  # noqa: A002
    return _JSON, notice


def _cloud_event(webhook: Webhook, id: str, notice: Mapping[str, Any]) -> tuple[str, Any]:  # noqa: A002
    event = {
        "specversion": "1.0",
        "id": id,
        "source": "urn:metier:notices",
        "type": f"metier.{notice['type']}",
        "subject": notice["data"].get("skill", ""),
        "time": notice["timestamp"],
        "datacontenttype": _JSON,
        "data": notice["data"],
    }
    return "application/cloudevents+json", {name: value for name, value in event.items() if value != ""}


def _facts(notice: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The facts of a notice that people read, shown so that none can look like something else."""
    data, found = notice["data"], []
    for name in ("skill", "id", "by", "environment", "capabilities", "new", "decision", "reason", "digest"):
        value = data.get(name)
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        if text:
            found.append((name, shown(str(text), _MAX_TEXT)))
    return found


def _slack(webhook: Webhook, id: str, notice: Mapping[str, Any]) -> tuple[str, Any]:  # noqa: A002
    title = TITLES[notice["type"]]
    facts = "\n".join(f"{name}: {value}" for name, value in _facts(notice))
    # Plain text has neither mentions nor links, whatever a skill is called.
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain_text(title)},
        *([{"type": "section", "text": _plain_text(facts[:3_000])}] if facts else []),
    ]
    link = notice["data"].get("link")
    buttons = [{"type": "button", "text": _plain_text("Open"), "url": link, "action_id": "metier-open"}] if link else []
    if notice["type"] == "request.waiting" and webhook.credential:
        request = notice["data"]["id"]
        buttons += [
            {**_button("Approve", GRANT, request), "style": "primary"},
            {**_button("Deny", DENY, request), "style": "danger"},
        ]
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    return _JSON, {"text": title, "blocks": blocks}


def _button(text: str, action: str, value: str) -> dict[str, Any]:
    return {"type": "button", "text": _plain_text(text), "action_id": action, "value": value}


def _plain_text(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _github(webhook: Webhook, id: str, notice: Mapping[str, Any]) -> tuple[str, Any]:  # noqa: A002
    skill = shown(str(notice["data"].get("skill", "")), 100)
    # In a block of code nobody is mentioned, and nothing is a link or an image.
    facts = "\n".join(f"    {name}: {value}" for name, value in _facts(notice))
    link = notice["data"].get("link", "")
    body = "\n\n".join(filter(None, (f"{TITLES[notice['type']]}.", facts, link, f"<!-- metier {id} -->")))
    return _JSON, {"title": f"{TITLES[notice['type']]}{f': {skill}' if skill else ''}", "body": body}


_FORMS: Mapping[str, Callable[[Webhook, str, Mapping[str, Any]], tuple[str, Any]]] = {
    "json": _json,
    "cloudevents": _cloud_event,
    "slack": _slack,
    "github": _github,
}
