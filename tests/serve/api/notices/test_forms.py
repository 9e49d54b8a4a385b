"""Forms of messages: what receivers read, and that nothing in a skill's name can be more than text there."""

from __future__ import annotations

import json
from typing import Any

from tests.serve.api.notices.conftest import Notices
from tests.serve.api.notices.requests import waiting_request

HOSTILE = "<!channel> <https://evil.test|Approve> @octocat ![x](https://evil.test/x.png)\n# Title\n<script>"


def sent(notices: Notices, **more: Any) -> Any:
    notices.add("request.waiting", **more)
    waiting_request(notices.api, reason=HOSTILE)
    notices.worker.run_once()
    return notices.receiver.received[-1]


def test_a_notice_says_all_that_a_receiver_needs_and_leads_to_the_record(notices: Notices) -> None:
    notice = sent(notices).json
    request = notices.api.scope.approvals.requests()[0]
    data = notice["data"]
    assert (notice["type"], data["id"], data["skill"], data["by"]) == (
        "request.waiting",
        request.id,
        "pdf@acme",
        "author",
    )
    assert (data["capabilities"], data["digest"], data["tenant"]) == (["scripts"], request.digest, "")
    assert data["link"] == f"http://127.0.0.1:8400/api/v1/requests/{request.id}"


def test_a_cloud_event_is_structured_json(notices: Notices) -> None:
    received = sent(notices, form="cloudevents")
    assert received.headers["content-type"] == "application/cloudevents+json"
    event = received.json
    assert (event["specversion"], event["type"], event["subject"]) == ("1.0", "metier.request.waiting", "pdf@acme")
    assert event["id"] == received.headers["webhook-id"]


def test_in_slack_the_texts_of_strangers_are_plain_text(notices: Notices) -> None:
    message = sent(notices, form="slack", credential="key").json
    assert message["text"] == "A skill waits for an approval"
    texts = [block["text"] for block in message["blocks"] if "text" in block]
    assert {text["type"] for text in texts} == {"plain_text"}
    buttons = [one["action_id"] for one in message["blocks"][-1]["elements"]]
    assert buttons == ["metier-open", "metier-grant", "metier-deny"]


def test_without_the_key_of_an_app_nobody_is_offered_to_decide_in_slack(notices: Notices) -> None:
    message = sent(notices, form="slack").json
    assert [one["action_id"] for one in message["blocks"][-1]["elements"]] == ["metier-open"]


def test_an_issue_of_github_has_the_texts_of_strangers_in_a_block_of_code(notices: Notices) -> None:
    received = sent(notices, form="github", credential="ghp_secret")
    assert received.headers["authorization"] == "Bearer ghp_secret"
    issue = received.json
    assert issue["title"] == "A skill waits for an approval: pdf@acme"
    lines = issue["body"].splitlines()
    assert all(line.startswith("    ") for line in lines if "evil" in line or "octocat" in line or "script" in line)
    assert any("octocat" in line for line in lines)


def test_the_key_of_a_slack_app_is_sent_to_nobody(notices: Notices) -> None:
    received = sent(notices, form="slack", credential="signing-secret")
    assert "authorization" not in received.headers
    assert b"signing-secret" not in received.body


def test_the_log_of_a_tenant_has_the_message_without_keys(notices: Notices) -> None:
    webhook = notices.add("request.waiting", form="github", credential="ghp_secret")
    waiting_request(notices.api)
    notices.worker.run_once()
    (entry,) = notices.log(webhook)
    assert entry["payload"]["type"] == "request.waiting"
    assert "ghp_secret" not in json.dumps(entry)
