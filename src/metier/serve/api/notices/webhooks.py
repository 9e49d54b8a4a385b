"""Webhooks as admins keep them: who is told of what, with a record of each change."""

from __future__ import annotations

import base64
import secrets
import time
from typing import Any

from metier._hosts import authority
from metier._lazy import replace
from metier.errors import InvalidArgument
from metier.guard import Actor
from metier.guard.approvals.people import deciding_scope
from metier.guard.approvals.roles import recording_refusals, require_role
from metier.guard.approvals.status import timestamp
from metier.guard.audit.governance_events import actor_of, event_record
from metier.hub.sources.connection import parse_http_url
from metier.serve.api.notices.events import notice_of_test
from metier.serve.api.notices.forms import AUDIT, SECRET_PREFIX, suits
from metier.serve.api.notices.transport import check_url
from metier.serve.api.problems import ProblemError
from metier.skill import shown
from metier.store import Delivery, Person, TenantScope, Webhook
from metier.store.rows import to_json

MAX_WEBHOOKS = 20
"""The most webhooks of a tenant: one that is slow keeps a thread of the server busy."""
KEPT_TRYING_SECONDS = 24 * 3600.0


def new_secret() -> str:
    """A new key for signatures, as Standard Webhooks writes it."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def add_webhook(scope: TenantScope, by: Person, webhook: Webhook, *, allow_private: bool) -> Webhook:
    """Add a webhook, which is told of what happens from now on; takes the role admin."""
    with recording_refusals(scope, by, "webhook", notes=_notes(webhook)):
        require_role(by, "admin", "add webhooks")
        _check(scope, webhook, allow_private)
        if len(scope.webhooks.all()) >= MAX_WEBHOOKS:
            raise InvalidArgument(
                f"There are {MAX_WEBHOOKS} webhooks already.", hint="Remove one that is not needed any more."
            )
        last = scope.audit.last()
        wanted = replace(webhook, by=by.name, cursor=0 if last is None else last.seq)
        return scope.webhooks.add(wanted, _record(scope, "webhook.added", actor_of(by, scope), webhook))


def change_webhook(scope: TenantScope, by: Person, webhook: Webhook, *, allow_private: bool) -> Webhook:
    """Change a webhook, all but its cursor; takes the role admin."""
    with recording_refusals(scope, by, "webhook", notes=_notes(webhook)):
        require_role(by, "admin", "change webhooks")
        _check(scope, webhook, allow_private)
        scope.webhooks.change(webhook, _record(scope, "webhook.changed", actor_of(by, scope), webhook))
    return webhook


def mark_gone(scope: TenantScope, id: str) -> None:  # noqa: A002
    """Send nothing more to a webhook whose receiver says that it is gone."""
    found = scope.webhooks.get(id)
    if found is not None:
        gone = replace(found, status="gone")
        scope.webhooks.change(gone, _record(scope, "webhook.changed", Actor(), gone))


def remove_webhook(scope: TenantScope, by: Person, webhook: Webhook) -> None:
    """Remove a webhook, and forget its deliveries; takes the role admin."""
    with recording_refusals(scope, by, "webhook", notes=_notes(webhook)):
        require_role(by, "admin", "remove webhooks")
        scope.webhooks.remove(webhook, _record(scope, "webhook.removed", actor_of(by, scope), webhook))


def queue_test(scope: TenantScope, by: Person, webhook: Webhook) -> Delivery:
    """Have a webhook told of a test."""
    if webhook.events == (AUDIT,):
        raise InvalidArgument("An audit stream has records alone.", hint="Whatever happens next is sent to it.")
    return scope.webhooks.add_delivery(new_delivery(webhook, notice_of_test(scope, by.name)))


def replay(scope: TenantScope, by: Person, webhook: Webhook, id: str) -> Delivery:  # noqa: A002
    """Send a delivery once more from the beginning; a batch of an audit stream comes again out of order."""
    with scope.transaction():
        require_role(by, "admin", "send notices again")
        found = scope.webhooks.delivery(id)
        if found is None or found.webhook != webhook.id:
            raise ProblemError(404, "delivery-not-found", f"There is no delivery {id}.", hint="List the deliveries.")
        return scope.webhooks.replay(found, gives_up_at() if found.gives_up_at else "")


def new_delivery(webhook: Webhook, notice: dict[str, Any]) -> Delivery:
    """The delivery of a notice to a webhook."""
    return Delivery(webhook=webhook.id, event=notice["type"], payload=to_json(notice), gives_up_at=gives_up_at())


def gives_up_at() -> str:
    """The time until which a delivery that begins now is tried."""
    return timestamp(time.time() + KEPT_TRYING_SECONDS)


def _check(scope: TenantScope, webhook: Webhook, allow_private: bool) -> None:
    check_url(webhook.url, allow_private=allow_private)
    if not suits(webhook.form, webhook.events):
        raise InvalidArgument(
            f"The form {webhook.form} is none for {', '.join(webhook.events)}.",
            hint="Notices are json, cloudevents, slack or github; `audit` stands alone, as jsonl, cloudevents, otlp "
            "or ocsf.",
        )
    if webhook.form == "slack" and webhook.people and not webhook.credential:
        raise InvalidArgument(
            "Nobody can tell who decides in Slack without the signing secret of the app.",
            hint="Give it as `credential`.",
        )
    for name in webhook.people.values():
        person = deciding_scope(scope).people.get(name)
        if person is None or person.kind != "user":
            raise InvalidArgument(f"No person is called {shown(name)!r}.", hint="Name one of `GET /api/v1/people`.")


def _record(scope: TenantScope, type: str, actor: Actor, webhook: Webhook) -> dict[str, Any]:  # noqa: A002
    return event_record(scope, type, actor, notes=_notes(webhook))


def _notes(webhook: Webhook) -> tuple[str, ...]:
    """The notes of a record: neither keys nor the path, which may be one."""
    try:
        host = authority(*parse_http_url(webhook.url).place)
    except InvalidArgument:
        host = ""
    people = (f"{known_as} is {name}" for known_as, name in sorted(webhook.people.items()))
    return (f"{webhook.form} to {host}", webhook.status, *webhook.events, *people)
