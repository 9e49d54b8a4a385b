"""One story of people of each role: what each of them sees and does about a skill that wants to run its script."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient
from tests.serve.api.conftest import Api

from metier.guard import Action, Actor
from metier.hub.node_submissions import receive_request
from metier.hub.registry.deployment import deploy_release, location_of_release
from metier.hub.registry.publication import publish_release
from metier.hub.skill_location import subject_in
from metier.skill.package import Files, digest_of_files
from metier.store import ApprovalRequest
from metier.store.nodes import ManagedNode

POLICY = """\
version: 1
skill-policy:
  require-approval-for: [scripts]
  approval: {self-approval: deny, quorum: 2, expires: 30d}
"""
FILES: Files = {
    "SKILL.md": ("file", b"---\nname: invoices\ndescription: Checks invoices.\nversion: 1.0.0\n---\nRun it.\n"),
    "scripts/check.py": ("file", b"print('fine')\n"),
}


def load(api: Api) -> Action:
    subject = subject_in(location_of_release("default", "invoices"), FILES, digest_of_files(FILES))
    return Action(point="load", skill=subject)


def waiting(client: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/v1/waiting").json()["items"]
    return found


def client_of(api: Api, name: str, *roles: str) -> TestClient:
    """The client of somebody whom the admin adds, by a token that the admin makes."""
    admin = api.as_("admin")
    assert admin.put(f"/api/v1/people/{name}", json={"roles": list(roles)}).status_code == 201
    secret = admin.post("/api/v1/tokens", json={"person": name, "label": "laptop"}).json()["secret"]
    return TestClient(api.app, headers={"Authorization": f"Bearer {secret}"})


def test_two_reviewers_agree_to_what_policy_has_approved_and_one_takes_it_back(api: Api) -> None:
    admin, guard = api.as_("admin"), api.context.guard("")
    rita, otto = client_of(api, "rita", "reviewer"), client_of(api, "otto", "author")

    # Before there is a policy, the skill is deployed and used.
    publish_release(api.scope, api.person("admin"), "default", FILES, guard=guard)
    assert guard.decide(load(api), Actor(user="otto")).outcome == "allow"

    # The admin checks a policy, and lets it count.
    assert admin.post("/api/v1/policy/check", json={"text": POLICY}).json() == {"is_sound": True, "problems": []}
    changed = admin.put("/api/v1/policy/text", json={"text": POLICY}, headers={"If-Match": '"0"'})
    assert changed.status_code == 200
    assert otto.put("/api/v1/policy/text", json={"text": POLICY}, headers={"If-Match": '"1"'}).status_code == 403

    # Whoever uses the skill asks for it, and cannot decide.
    assert guard.decide(load(api), Actor(user="otto")).outcome != "allow"
    asked = ApprovalRequest(id="r-12345678", digest=digest_of_files(FILES), skill="invoices@server", layer="enterprise")
    receive_request(api.scope, guard, ManagedNode(id="n-1", name="laptop", person="otto"), asked)
    (item,) = waiting(otto)
    assert (item["kind"], item["by"], item["may_decide"]) == ("request", "otto", False)
    request = f"/api/v1/requests/{item['id']}"
    assert otto.get(request).json()["decides"]["why_not_you"] is not None
    assert otto.post(f"{request}/grant", json={}).status_code == 403
    assert waiting(api.as_("viewer")) == []

    # Two reviewers agree.
    assert waiting(rita)[0]["may_decide"]
    assert rita.post(f"{request}/grant", json={"reason": "I read it."}).status_code == 201
    assert rita.post(f"{request}/grant", json={}).status_code == 403, "one person is one voice"
    assert guard.decide(load(api), Actor(user="otto")).outcome != "allow"
    assert rita.get(request).json()["decides"]["agreed"] == ["rita"]
    second = api.as_("reviewer").post(f"{request}/grant", json={}).json()
    assert second["expires_at"], "policy lets it count for 30 days"
    assert guard.decide(load(api), Actor(user="otto")).outcome == "allow"
    assert waiting(rita) == []
    assert rita.get(request).json()["request"]["status"] == "approved"

    # One of them takes it back.
    assert rita.post(f"/api/v1/approvals/{second['id']}/revoke", json={"reason": "Not yet."}).status_code == 200
    assert guard.decide(load(api), Actor(user="otto")).outcome != "allow"

    # Somebody who leaves decides nothing more.
    assert admin.delete("/api/v1/people/rita").status_code == 204
    assert rita.get("/api/v1/waiting").status_code == 401
    assert api.scope.audit.search(type="policy.changed") and api.scope.audit.search(type="approval.revoked")


def test_a_deployment_of_an_admin_is_no_way_around_the_quorum(api: Api) -> None:
    admin, guard = api.as_("admin"), api.context.guard("")
    admin.put("/api/v1/policy/text", json={"text": POLICY}, headers={"If-Match": '"0"'})
    publish_release(api.scope, api.person("admin"), "default", FILES, guard=guard)
    deploy_release(api.scope, api.person("admin"), "default", "invoices", "1.0.0", guard=guard)
    assert guard.decide(load(api), Actor(user="otto")).outcome != "allow"
