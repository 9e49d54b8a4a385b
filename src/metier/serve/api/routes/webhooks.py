"""Webhooks: who is told of what, and what was sent to them."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Literal, Self

from fastapi import Depends, Path, Request, Response
from pydantic import BaseModel, Field

from metier._lazy import replace
from metier.serve.api.answers import ApiBody, sorted_page
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.notices import slack, webhooks
from metier.serve.api.notices.events import Event
from metier.serve.api.notices.forms import Form
from metier.serve.api.pages import PagingOf, ResultPage, bad_cursor, cursor_of
from metier.serve.api.problems import ProblemError, documented
from metier.serve.api.routing import new_router
from metier.store import Delivery, TenantScope, Webhook

router = new_router(prefix="/api/v1", tag="webhooks")

_Id = Annotated[str, Path(max_length=40, pattern=r"^w-[0-9a-z]+$", description="The id of a webhook.")]
_DeliveryId = Annotated[str, Path(max_length=40, pattern=r"^d-[0-9a-z]+$", description="The id of a delivery.")]
_Name = Annotated[str, Field(min_length=1, max_length=100)]


class WebhookBody(ApiBody):
    """A webhook as an admin wants it."""

    url: Annotated[str, Field(min_length=8, max_length=2_000, description="Where messages are sent to by POST.")]
    form: Form = "json"
    events: Annotated[
        list[Event | Literal["audit"]],
        Field(min_length=1, max_length=20, description="The events, or `audit` alone for all audit records in order."),
    ]
    credential: Annotated[
        str | None,
        Field(
            max_length=1_000,
            pattern=r"^[!-~]*$",
            description="A token for the receiver; for Slack, the signing secret of the app. It is never shown. "
            "A change without one keeps it, unless the address or the form changes.",
        ),
    ] = None
    people: dict[_Name, _Name] = Field(
        {}, max_length=500, description="The names of people by their ids in Slack, for decisions taken there."
    )
    status: Literal["active", "paused"] = "active"

    def applied_to(self, webhook: Webhook) -> Webhook:
        """A webhook with what is wanted."""
        given = self.model_dump()
        if self.credential is None:
            # Elsewhere, or in another form, a credential would be shown to who was never given it.
            is_same = (webhook.url, webhook.form) == (self.url, self.form)
            given["credential"] = webhook.credential if is_same else ""
        return replace(webhook, **{**given, "events": tuple(dict.fromkeys(self.events))})


class SlackAnswer(BaseModel):
    """The answer to a button in Slack."""

    text: str


class WebhookAnswer(BaseModel):
    """A webhook, without its keys."""

    id: str
    url: str
    form: Form
    events: list[Event | Literal["audit"]]
    has_credential: bool
    people: dict[str, str]
    status: Literal["active", "paused", "gone"]
    by: str
    at: str

    @classmethod
    def of(cls, webhook: Webhook) -> Self:
        """The answer about a webhook."""
        return cls(**_fields(webhook, cls), has_credential=bool(webhook.credential))


class WebhookSecret(WebhookAnswer):
    """A webhook with the key of its signatures, which is shown this once."""

    secret: str


class DeliveryAnswer(BaseModel):
    """A message to a webhook, and how far it is."""

    id: str
    event: str
    status: Literal["pending", "delivered", "failed"]
    attempts: int
    next_at: Annotated[str, Field(description="The time of the next attempt; empty when there is none.")]
    gives_up_at: Annotated[str, Field(description="Nothing is tried after it; empty for an audit stream.")]
    response: Annotated[str, Field(description="The status of the last answer, or why there was none.")]
    at: str
    payload: dict[str, Any]

    @classmethod
    def of(cls, delivery: Delivery) -> DeliveryAnswer:
        """The answer about a delivery."""
        return cls(**{**_fields(delivery, cls), "payload": json.loads(delivery.payload)})


def _fields(record: Webhook | Delivery, model: type[BaseModel]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in model.model_fields if hasattr(record, name)}


def _webhook(scope: TenantScope, id: str) -> Webhook:  # noqa: A002
    found = scope.webhooks.get(id)
    if found is None:
        raise ProblemError(404, "webhook-not-found", f"There is no webhook {id}.", hint="`GET /api/v1/webhooks`.")
    return found


@router.get("/webhooks", **require("admin"), summary="The webhooks")
def list_webhooks(caller: CallerOf, paging: PagingOf) -> ResultPage[WebhookAnswer]:
    found = caller.scope.webhooks.all()
    return sorted_page(WebhookAnswer, map(WebhookAnswer.of, found), paging, "id")


@router.post("/webhooks", **require("admin"), status_code=201, summary="Tell a receiver of events from now on")
def add_webhook(caller: CallerOf, context: Context, body: WebhookBody) -> WebhookSecret:
    wanted = body.applied_to(Webhook(url="", form="", events=(), secret=webhooks.new_secret()))
    allow_private = context.settings.webhooks.allow_private
    added = webhooks.add_webhook(caller.scope, caller.person, wanted, allow_private=allow_private)
    return WebhookSecret.of(added)


@router.get("/webhooks/{id}", **require("admin"), responses=documented(404), summary="A webhook")
def get_webhook(caller: CallerOf, id: _Id) -> WebhookAnswer:  # noqa: A002
    return WebhookAnswer.of(_webhook(caller.scope, id))


@router.put("/webhooks/{id}", **require("admin"), responses=documented(404), summary="Change a webhook")
def change_webhook(caller: CallerOf, context: Context, id: _Id, body: WebhookBody) -> WebhookAnswer:  # noqa: A002
    wanted = body.applied_to(_webhook(caller.scope, id))
    allow_private = context.settings.webhooks.allow_private
    return WebhookAnswer.of(webhooks.change_webhook(caller.scope, caller.person, wanted, allow_private=allow_private))


@router.post(
    "/webhooks/{id}/secret",
    **require("admin"),
    responses=documented(404),
    summary="Replace the key of a webhook's signatures",
)
def replace_secret(caller: CallerOf, context: Context, id: _Id) -> WebhookSecret:  # noqa: A002
    wanted = replace(_webhook(caller.scope, id), secret=webhooks.new_secret())
    allow_private = context.settings.webhooks.allow_private
    changed = webhooks.change_webhook(caller.scope, caller.person, wanted, allow_private=allow_private)
    return WebhookSecret.of(changed)


@router.delete(
    "/webhooks/{id}",
    **require("admin"),
    status_code=204,
    response_class=Response,
    responses=documented(404),
    summary="Remove a webhook, and forget its deliveries",
)
def remove_webhook(caller: CallerOf, id: _Id) -> None:  # noqa: A002
    webhooks.remove_webhook(caller.scope, caller.person, _webhook(caller.scope, id))


@router.post(
    "/webhooks/{id}/test", **require("admin"), status_code=201, responses=documented(404), summary="Send a test"
)
def test_webhook(caller: CallerOf, id: _Id) -> DeliveryAnswer:  # noqa: A002
    return DeliveryAnswer.of(webhooks.queue_test(caller.scope, caller.person, _webhook(caller.scope, id)))


@router.get(
    "/webhooks/{id}/deliveries",
    **require("admin"),
    responses=documented(404),
    summary="What was sent to a webhook, the newest first",
)
def list_deliveries(caller: CallerOf, id: _Id, paging: PagingOf) -> ResultPage[DeliveryAnswer]:  # noqa: A002
    webhook = _webhook(caller.scope, id)
    before = None
    if paging.after is not None:
        if len(paging.after) != 2:
            raise bad_cursor()
        before = (str(paging.after[0]), str(paging.after[1]))
    found = caller.scope.webhooks.deliveries(webhook.id, before=before, limit=paging.limit + 1)
    items = found[: paging.limit]
    following = cursor_of((items[-1].at, items[-1].id)) if len(found) > paging.limit else None
    return ResultPage(items=[DeliveryAnswer.of(one) for one in items], next=following)


@router.post(
    "/webhooks/{id}/deliveries/{delivery_id}/replay",
    **require("admin"),
    responses=documented(404),
    summary="Send a delivery once more, with the same id",
)
def replay_delivery(caller: CallerOf, id: _Id, delivery_id: _DeliveryId) -> DeliveryAnswer:  # noqa: A002
    return DeliveryAnswer.of(webhooks.replay(caller.scope, caller.person, _webhook(caller.scope, id), delivery_id))


async def _slack_body(request: Request) -> bytes:
    """The bytes that Slack signed."""
    found = b""
    async for piece in request.stream():
        found += piece
        if len(found) > slack.MAX_BYTES:
            raise ProblemError(413, "too-large", "That is more than Slack sends.", hint="Use a button in a message.")
    return found


@router.post(
    "/webhooks/{id}/slack",
    responses=documented(400, 403, 404, 409, 413, 422),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/x-www-form-urlencoded": {
                    "schema": {
                        "type": "object",
                        "required": ["payload"],
                        "properties": {"payload": {"type": "string", "description": "`block_actions` as JSON."}},
                    }
                }
            },
        }
    },
    summary="Decide about a request by a button in Slack; the signature of Slack is the credential",
)
def decide_in_slack(
    request: Request,
    context: Context,
    id: _Id,  # noqa: A002
    body: Annotated[bytes, Depends(_slack_body)],
) -> SlackAnswer:
    decided = slack.decide(context, id, request.headers, body, time.time())
    if decided is None:
        return SlackAnswer(text="")
    return SlackAnswer(text=f"{decided.decision.capitalize()} by {decided.decided_by}: {decided.id}.")
