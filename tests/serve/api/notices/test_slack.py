"""Decisions in Slack: a view of the one record, by a person whom the server knows, and by nobody else."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.serve.api.notices.conftest import Notices
from tests.serve.api.notices.requests import waiting_request

from metier.serve.api.notices.forms import DENY, GRANT
from metier.serve.api.notices.slack import sign_request
from metier.store import ApprovalRequest

KEY = "8f742231b10e8888abcd99yyyzzz85a5"
PEOPLE = {"U1": "reviewer", "U2": "viewer", "U3": "author"}


@pytest.fixture
def webhook(notices: Notices) -> dict[str, Any]:
    """A webhook of a Slack app, with the people whom it knows."""
    return notices.add("request.waiting", "request.decided", form="slack", credential=KEY, people=PEOPLE)


def body_of(request: ApprovalRequest | str, user: str = "U1", action: str = GRANT) -> bytes:
    value = request if isinstance(request, str) else request.id
    payload = {"type": "block_actions", "user": {"id": user}, "actions": [{"action_id": action, "value": value}]}
    return urlencode({"payload": json.dumps(payload)}).encode()


def press(notices: Notices, webhook: dict[str, Any], body: bytes, *, age: int = 0, key: str = KEY) -> Any:
    at = str(int(time.time()) - age)
    headers = {
        "X-Slack-Request-Timestamp": at,
        "X-Slack-Signature": sign_request(key, at, body),
        "Content-Type": "application/x-www-form-urlencoded",
    }
    path = f"/api/v1/webhooks/{webhook['id']}/slack"
    return notices.api.as_("nobody").post(path, content=body, headers=headers)


def test_a_button_in_the_message_approves_as_the_person_whom_the_server_knows(
    notices: Notices, webhook: dict[str, Any]
) -> None:
    request = waiting_request(notices.api)
    notices.worker.run_once()
    message = notices.receiver.received[-1].json
    buttons = {one["action_id"]: one for one in message["blocks"][-1]["elements"]}
    assert press(notices, webhook, body_of(buttons[GRANT]["value"])).status_code == 200
    (approval,) = notices.api.scope.approvals.of(request.digest)
    assert (approval.decision, approval.decided_by, approval.grants) == ("approved", "reviewer", ("scripts",))
    record = notices.api.scope.audit.search(type="approval.granted", limit=1)[0]
    assert (record["user"], record["reason"]) == ("reviewer", "Decided in Slack by U1.")


def test_the_receiver_is_told_who_decided(notices: Notices, webhook: dict[str, Any]) -> None:
    press(notices, webhook, body_of(waiting_request(notices.api), action=DENY))
    notices.worker.run_once()
    told = [one.json for one in notices.receiver.received]
    assert [one["text"] for one in told] == ["A skill waits for an approval", "A request was decided"]
    assert "by: reviewer" in told[1]["blocks"][1]["text"]["text"]
    assert notices.api.scope.approvals.requests()[0].status == "denied"


@pytest.mark.parametrize(
    ("user", "status"),
    [("U2", 403), ("U3", 403), ("U9", 403), ("reviewer", 403)],
    ids=["without-the-role", "who-asked-for-it", "unknown", "by-another-name"],
)
def test_nobody_else_decides(notices: Notices, webhook: dict[str, Any], user: str, status: int) -> None:
    request = waiting_request(notices.api)
    answer = press(notices, webhook, body_of(request, user))
    assert (answer.status_code, answer.json()["code"]) == (status, "not-permitted")
    assert notices.api.scope.approvals.of(request.digest) == []
    assert notices.api.scope.audit.search(type="approval.refused")


def test_a_forged_request_decides_nothing(notices: Notices, webhook: dict[str, Any]) -> None:
    request = waiting_request(notices.api)
    assert press(notices, webhook, body_of(request), key="guessed").status_code == 400
    assert press(notices, webhook, body_of(request), key="").status_code == 400
    unsigned = notices.api.as_("admin").post(f"/api/v1/webhooks/{webhook['id']}/slack", content=body_of(request))
    assert unsigned.status_code == 400
    assert notices.api.scope.approvals.of(request.digest) == []


def test_a_changed_body_does_not_fit_its_signature(notices: Notices, webhook: dict[str, Any]) -> None:
    request = waiting_request(notices.api)
    at = str(int(time.time()))
    headers = {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": sign_request(KEY, at, body_of(request, "U9"))}
    path = f"/api/v1/webhooks/{webhook['id']}/slack"
    assert notices.api.as_("nobody").post(path, content=body_of(request, "U1"), headers=headers).status_code == 400


def test_a_request_counts_once_and_only_for_minutes(notices: Notices, webhook: dict[str, Any]) -> None:
    first = waiting_request(notices.api)
    assert press(notices, webhook, body_of(first), age=301).status_code == 400
    assert press(notices, webhook, body_of(first), age=-301).status_code == 400
    at = str(int(time.time()))
    headers = {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": sign_request(KEY, at, body_of(first))}
    path = f"/api/v1/webhooks/{webhook['id']}/slack"
    answers = [notices.api.as_("nobody").post(path, content=body_of(first), headers=headers) for _ in range(2)]
    assert [one.status_code for one in answers] == [200, 409]
    assert len(notices.api.scope.approvals.of(first.digest)) == 1


def test_a_signature_counts_for_its_own_webhook_alone(notices: Notices, webhook: dict[str, Any]) -> None:
    other = notices.add("request.waiting", form="slack", credential="another-key", people=PEOPLE)
    request = waiting_request(notices.api)
    assert press(notices, other, body_of(request)).status_code == 400
    assert press(notices, {"id": "w-00000000"}, body_of(request)).status_code == 400


def test_a_webhook_that_is_paused_or_no_slack_app_takes_no_decision(notices: Notices, webhook: dict[str, Any]) -> None:
    request = waiting_request(notices.api)
    plain = notices.add("request.waiting", credential=KEY)
    assert press(notices, plain, body_of(request)).status_code == 400
    paused = {"url": notices.receiver.url, "form": "slack", "events": ["request.waiting"], "status": "paused"}
    notices.api.as_("admin").put(f"/api/v1/webhooks/{webhook['id']}", json={**paused, "people": PEOPLE})
    assert press(notices, webhook, body_of(request)).status_code == 400


@pytest.mark.parametrize(
    "body",
    [b"", b"payload=1", b"payload={}", b"payload=%7B%22actions%22%3A%5B%5D%7D", b"\xff", body_of("pdf"), body_of("")],
)
def test_a_signed_body_that_is_no_button_of_ours_is_an_error(
    notices: Notices, webhook: dict[str, Any], body: bytes
) -> None:
    waiting_request(notices.api)
    assert press(notices, webhook, body).status_code == 422
    assert notices.api.scope.approvals.all() == []


def test_a_body_of_any_length_is_not_read(notices: Notices, webhook: dict[str, Any]) -> None:
    assert press(notices, webhook, b"payload=" + b"a" * 70_000).status_code == 413


def test_a_button_that_only_opens_a_page_decides_nothing(notices: Notices, webhook: dict[str, Any]) -> None:
    request = waiting_request(notices.api)
    assert press(notices, webhook, body_of(request, action="metier-open")).json() == {"text": ""}
    assert notices.api.scope.approvals.of(request.digest) == []
