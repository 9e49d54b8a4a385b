"""Decisions that are taken in Slack: by a button in a message, signed by Slack, for a person whom the server knows.

Boundary: whoever holds the signing secret of the app speaks for every person whom the webhook names, and for nobody
else. A request counts once, within minutes, and its decision is the one that the command line makes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from metier._lazy import pattern
from metier.errors import NotPermitted
from metier.guard import Actor
from metier.guard.approvals.decisions import deny, grant
from metier.guard.approvals.people import deciding_scope
from metier.guard.approvals.requests import expire_requests
from metier.guard.approvals.status import timestamp
from metier.guard.audit.governance_events import record_refusal
from metier.serve.api.context import ServerContext
from metier.serve.api.notices.forms import DENY, GRANT
from metier.serve.api.problems import ProblemError
from metier.skill import shown
from metier.store import Approval, Person, Store, TenantScope, Webhook
from metier.store.all_tenants import tenants_of_webhook

MAX_BYTES = 64 * 1024
_MAX_AGE_SECONDS = 300
_REQUEST_ID = pattern(r"r-[0-9a-z]{1,40}")


class _Click(NamedTuple):
    """A button that somebody pressed."""

    user: str
    action: str
    value: str


def decide(
    context: ServerContext, webhook_id: str, headers: Mapping[str, str], body: bytes, now: float
) -> Approval | None:
    """Take the decision that a request of Slack carries; None for a button that decides nothing.

    Raises `ProblemError` for a request that is not Slack's, and the errors of `grant` and `deny`.
    """
    scope, webhook = _authenticate(context.store, webhook_id, headers, body, now)
    click = _parse(body)
    if click.action not in (GRANT, DENY):
        return None
    person = _person(scope, webhook, click)
    effective = context.governance(scope.tenant).effective
    expire_requests(scope, effective)
    if not _REQUEST_ID.fullmatch(click.value):
        raise _not_understood()
    reason = f"Decided in Slack by {shown(click.user, 40)}."
    take = grant if click.action == GRANT else deny
    return take(scope, effective, person, click.value, reason=reason)


def sign_request(secret: str, at: str, body: bytes) -> str:
    """The signature of a request, as Slack has it."""
    return f"v0={hmac.new(secret.encode(), f'v0:{at}:'.encode() + body, hashlib.sha256).hexdigest()}"


def _authenticate(
    store: Store,
    id: str,  # noqa: A002
    headers: Mapping[str, str],
    body: bytes,
    now: float,
) -> tuple[TenantScope, Webhook]:
    """The webhook that a request is for, if Slack signed it just now, and it comes for the first time."""
    at, signature = headers.get("x-slack-request-timestamp", ""), headers.get("x-slack-signature", "")
    is_recent = at.isascii() and at.isdigit() and len(at) < 20 and abs(now - int(at)) <= _MAX_AGE_SECONDS
    for tenant in tenants_of_webhook(store.pool, id) if is_recent else ():
        scope = store.of(tenant)
        webhook = scope.webhooks.get(id)
        if webhook is None or webhook.form != "slack" or webhook.status != "active" or not webhook.credential:
            continue
        expected = sign_request(webhook.credential, at, body)
        if hmac.compare_digest(expected.encode(), signature.encode()):
            if not scope.used_once.take(f"slack {id} {signature}", expires_at=timestamp(now + 2 * _MAX_AGE_SECONDS)):
                raise ProblemError(409, "already-used", "This request was received before.", hint="Press it again.")
            return scope, webhook
    # The same answer for a webhook that is not there: nobody learns which there are.
    raise ProblemError(
        400, "invalid-signature", "No valid signature came with the request.", hint="Check the app's signing secret."
    )


def _parse(body: bytes) -> _Click:
    try:
        payload: Any = json.loads(parse_qs(body.decode(), strict_parsing=True, max_num_fields=5)["payload"][0])
        (action,) = payload["actions"]
        found = _Click(payload["user"]["id"], action["action_id"], action.get("value", ""))
        if payload["type"] != "block_actions" or not all(isinstance(one, str) for one in found):
            raise _not_understood()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _not_understood() from None
    return found


def _person(scope: TenantScope, webhook: Webhook, click: _Click) -> Person:
    """The person of this server who pressed a button; an attempt of anybody else is recorded."""
    name = webhook.people.get(click.user, "")
    person = deciding_scope(scope).people.get(name) if name else None
    if person is not None and person.kind == "user":
        return person
    reason = f"{shown(click.user, 40)} of Slack is nobody whom webhook {webhook.id} knows."
    record_refusal(scope, "approval.granted", Actor(), "", reason=reason, decision="deny", code=NotPermitted.code)
    raise NotPermitted(reason, hint="An admin names people in the webhook: `people: {SLACK_ID: NAME}`.")


def _not_understood() -> ProblemError:
    return ProblemError(422, "invalid-request", "That is no button of ours.", hint="Use those in a message of Métier.")
