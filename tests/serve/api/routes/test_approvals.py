"""Requests are decided over HTTP by the people whom policy names, on the same terms as by the command."""

from __future__ import annotations

from typing import Any

import pytest
from tests.serve.api.conftest import Api

from metier.guard import Actor, Subject
from metier.guard.approvals.requests import request_approval
from metier.skill.package import Files, digest_of_files

FILES: Files = {
    "SKILL.md": ("file", b"---\nname: pdf\ndescription: Fills forms.\n---\nFill it in.\n"),
    "scripts/fill.py": ("file", b"import subprocess\nsubprocess.run(['ls'])\n"),
}
DIGEST = digest_of_files(FILES)


@pytest.fixture
def request_id(api: Api) -> str:
    """A request of the author for a skill with a script."""
    keep(api)
    made = request_approval(
        api.scope,
        Subject(name="pdf", digest=DIGEST, layer="plugin", source="acme"),
        capabilities=["scripts"],
        new=["scripts"],
        scripts={"scripts/fill.py": "sha256:1"},
        actor=Actor(user="author"),
    )
    return made.id


def keep(api: Api) -> None:
    from metier.hub.skill_files import keep_files

    keep_files(api.scope, api.context.governance("").effective, "pdf@acme", FILES)


def items(api: Api, who: str, path: str, **parameters: Any) -> list[dict[str, Any]]:
    answer = api.as_(who).get(f"/api/v1/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def test_a_reviewer_finds_looks_at_and_grants_a_request(api: Api, request_id: str) -> None:
    assert [(one["kind"], one["id"]) for one in items(api, "reviewer", "waiting")] == [("request", request_id)]
    answer = api.as_("reviewer").get(f"/api/v1/requests/{request_id}")
    assert answer.status_code == 200, answer.text
    detail = answer.json()
    assert detail["request"]["skill"] == "pdf@acme"
    assert "+subprocess.run(['ls'])" in detail["diff"]
    assert detail["decides"] == {"approvers": ["role:reviewer"], "quorum": 1, "agreed": [], "why_not_you": None}

    given = api.as_("reviewer").post(f"/api/v1/requests/{request_id}/grant", json={"expires": "30d", "reason": "Read."})
    assert given.status_code == 201, given.text
    assert (given.json()["grants"], given.json()["state"], given.json()["decided_by"]) == (
        ["scripts"],
        "counts",
        "reviewer",
    )
    assert items(api, "reviewer", "waiting") == []
    assert [one["id"] for one in items(api, "viewer", "approvals")] == [given.json()["id"]]
    assert api.scope.audit.tail(1)[0]["type"] == "approval.granted"


def test_an_approval_is_revoked_and_a_denial_outweighs(api: Api, request_id: str) -> None:
    reviewer = api.as_("reviewer")
    approval = reviewer.post(f"/api/v1/requests/{request_id}/grant", json={}).json()["id"]
    revoked = reviewer.post(f"/api/v1/approvals/{approval}/revoke", json={"reason": "Not needed."})
    assert (revoked.status_code, revoked.json()["state"]) == (200, "revoked")
    denied = reviewer.post(f"/api/v1/requests/{DIGEST}/deny", json={"reason": "It runs programs."})
    assert (denied.status_code, denied.json()["state"]) == (201, "denied")
    again = reviewer.post(f"/api/v1/requests/{DIGEST}/grant", json={})
    assert (again.status_code, again.json()["code"]) == (403, "not-permitted")


@pytest.mark.parametrize("who", ["viewer", "author"])
def test_those_whom_policy_does_not_name_decide_nothing_and_that_is_recorded(
    api: Api, request_id: str, who: str
) -> None:
    answer = api.as_(who).post(f"/api/v1/requests/{request_id}/grant", json={})
    assert (answer.status_code, answer.json()["code"]) == (403, "not-permitted")
    assert [one["type"] for one in api.scope.audit.tail(1)] == ["approval.refused"]


def test_another_tenants_admin_finds_nothing(api: Api, request_id: str) -> None:
    assert items(api, "other", "requests") == []
    other = api.as_("other")
    assert other.get(f"/api/v1/requests/{request_id}").status_code == 404
    assert other.post(f"/api/v1/requests/{request_id}/grant", json={}).status_code == 404
    assert other.post(f"/api/v1/requests/{DIGEST}/deny", json={"reason": "No."}).status_code == 404


def test_the_pages_of_a_list_have_every_request_once(api: Api) -> None:
    for number in range(5):
        request_approval(
            api.scope,
            Subject(name=f"s{number}", digest=f"sha256:{number:064}", layer="plugin", source="acme"),
            capabilities=[],
            new=[],
            scripts={},
            actor=Actor(user="author"),
        )
    found, cursor = [], None
    while True:
        page = api.as_("viewer").get("/api/v1/requests", params={"limit": 2} | ({"cursor": cursor} if cursor else {}))
        found += [one["skill"] for one in page.json()["items"]]
        cursor = page.json()["next"]
        if cursor is None:
            break
    assert sorted(found) == [f"s{number}@acme" for number in range(5)]
