"""Webhooks over the API: admins keep them, with a record of each change, and nobody sees their keys again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.serve.api.conftest import Api

from metier.serve.api.notices.webhooks import MAX_WEBHOOKS

PATH = "/api/v1/webhooks"
BODY = {"url": "https://hooks.example.com/services/T0/B0/key", "events": ["request.waiting"]}


def added(api: Api, **more: Any) -> dict[str, Any]:
    answer = api.as_("admin").post(PATH, json={**BODY, **more})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_key_of_signatures_is_shown_once_and_a_credential_never(api: Api) -> None:
    webhook = added(api, form="github", credential="ghp_secret")
    assert webhook["secret"].startswith("whsec_")
    shown = api.as_("admin").get(f"{PATH}/{webhook['id']}").json()
    assert shown == {name: value for name, value in webhook.items() if name != "secret"}
    assert shown["has_credential"]
    everything = json.dumps([webhook, api.as_("admin").get(PATH).json(), *api.scope.audit.tail(100)])
    assert "ghp_secret" not in everything


def test_a_new_key_takes_the_place_of_the_old_one(api: Api) -> None:
    webhook = added(api)
    changed = api.as_("admin").post(f"{PATH}/{webhook['id']}/secret").json()
    assert changed["secret"] != webhook["secret"]
    kept = api.scope.webhooks.get(webhook["id"])
    assert kept is not None
    assert kept.secret == changed["secret"]


def test_each_change_leaves_a_record_without_the_path_which_may_be_a_key(api: Api) -> None:
    webhook = added(api, form="slack", credential="key", people={"U1": "reviewer"})
    path = f"{PATH}/{webhook['id']}"
    assert api.as_("admin").put(path, json={**BODY, "status": "paused"}).json()["status"] == "paused"
    assert api.as_("admin").delete(path).status_code == 204
    assert api.as_("admin").get(path).status_code == 404
    records = api.scope.audit.search(type="webhook")[::-1]
    assert [one["type"] for one in records] == ["webhook.added", "webhook.changed", "webhook.removed"]
    assert {one["user"] for one in records} == {"admin"}
    assert "U1 is reviewer" in records[0]["notes"]
    assert "slack to hooks.example.com:443" in records[0]["notes"]
    assert "B0" not in json.dumps(records)


@pytest.mark.parametrize("change", [{"url": "https://evil.test/"}, {"form": "cloudevents"}])
def test_a_credential_does_not_go_elsewhere_with_a_change(api: Api, change: dict[str, str]) -> None:
    webhook = added(api, form="json", credential="token-of-the-receiver")
    path = f"{PATH}/{webhook['id']}"
    assert api.as_("admin").put(path, json={**BODY, "events": ["quarantine"]}).json()["has_credential"]
    assert not api.as_("admin").put(path, json={**BODY, **change}).json()["has_credential"]


def test_only_admins_of_the_tenant_have_to_do_with_its_webhooks(api: Api) -> None:
    webhook = added(api)
    path = f"{PATH}/{webhook['id']}"
    for name in ("node", "viewer", "author", "reviewer"):
        assert api.as_(name).get(PATH).status_code == 403
        assert api.as_(name).post(PATH, json=BODY).status_code == 403
    assert api.as_("nobody").get(path).status_code == 401
    assert api.as_("other").get(PATH).json()["items"] == []
    for answer in (
        api.as_("other").get(path),
        api.as_("other").put(path, json=BODY),
        api.as_("other").delete(path),
        api.as_("other").post(f"{path}/test"),
        api.as_("other").post(f"{path}/secret"),
        api.as_("other").get(f"{path}/deliveries"),
        api.as_("other").post(f"{path}/deliveries/d-00000000/replay"),
    ):
        assert answer.status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "https://10.0.0.1/"},
        {"url": "http://example.com/"},
        {"url": "https://user:secret@example.com/"},
        {"events": []},
        {"events": ["everything"]},
        {"events": ["audit", "quarantine"], "form": "jsonl"},
        {"events": ["audit"], "form": "slack"},
        {"events": ["quarantine"], "form": "otlp"},
        {"form": "slack", "people": {"U1": "reviewer"}},
        {"form": "slack", "credential": "key", "people": {"U1": "nobody-here"}},
        {"form": "slack", "credential": "key", "people": {"U1": "node"}},
        {"credential": "key\r\nX-Other: 1"},
        {"other": 1},
    ],
    ids=lambda wrong: "-".join(map(str, wrong)),
)
def test_a_webhook_that_makes_no_sense_is_refused(api: Api, wrong: dict[str, Any]) -> None:
    assert api.as_("admin").post(PATH, json={**BODY, **wrong}).status_code == 422
    assert api.scope.webhooks.all() == []


def test_a_tenant_has_only_so_many(api: Api) -> None:
    for _ in range(MAX_WEBHOOKS):
        added(api)
    assert api.as_("admin").post(PATH, json=BODY).status_code == 422


def test_a_test_is_in_the_log_page_by_page_and_can_be_sent_again(api: Api) -> None:
    webhook = added(api)
    path = f"{PATH}/{webhook['id']}"
    made = {api.as_("admin").post(f"{path}/test").json()["id"] for _ in range(3)}
    first = api.as_("admin").get(f"{path}/deliveries", params={"limit": 2}).json()
    second = api.as_("admin").get(f"{path}/deliveries", params={"limit": 2, "cursor": first["next"]}).json()
    assert {one["id"] for one in first["items"] + second["items"]} == made
    assert second["next"] is None
    assert api.as_("admin").post(f"{path}/deliveries/{made.pop()}/replay").json()["status"] == "pending"
    assert api.as_("admin").post(f"{path}/deliveries/d-00000000/replay").status_code == 404
    assert api.as_("admin").get(f"{path}/deliveries", params={"cursor": "WzFd"}).status_code == 422


def test_an_audit_stream_has_no_test(api: Api) -> None:
    webhook = added(api, events=["audit"], form="jsonl")
    assert api.as_("admin").post(f"{PATH}/{webhook['id']}/test").status_code == 422
