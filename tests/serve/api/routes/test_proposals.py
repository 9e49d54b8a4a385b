"""Proposals over HTTP: what a reviewer agrees to becomes the next release, and takes the place of the deployed one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.serve.api.conftest import Api

from metier._lazy import replace
from metier.errors import InvalidArgument, StoreUnavailable
from metier.hub.node_submissions import receive_proposal
from metier.hub.registry.deployment import deploy_release
from metier.hub.registry.namespaces import put_namespace
from metier.hub.registry.publication import publish_release
from metier.hub.skill_files import keep_files
from metier.skill.package import Files, digest_of_files
from metier.store import Proposal
from metier.store.nodes import ManagedNode

SKILL = "---\nname: refunds\ndescription: Decides about refunds.\nmetadata:\n  version: 1.0.0\n---\nWithin 14 days.\n"
FILES: Files = {"SKILL.md": ("file", SKILL.encode())}
DIFF = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -7 +7 @@\n-Within 14 days.\n+Within 30 days.\n"
BODY = {"skill": "refunds", "diff": DIFF, "justification": "The law changed."}


@pytest.fixture(autouse=True)
def deployed(api: Api) -> None:
    """A deployed skill in a namespace that reviewers own."""
    admin, guard = api.person("admin"), api.context.guard("")
    put_namespace(api.scope, admin, "support", ["role:reviewer"])
    publish_release(api.scope, admin, "support", FILES, guard=guard)
    deploy_release(api.scope, admin, "support", "refunds", "1.0.0", guard=guard)


def propose(api: Api, who: str = "author", **body: Any) -> dict[str, Any]:
    answer = api.as_(who).post("/api/v1/proposals", json={**BODY, **body})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def decide(api: Api, who: str, proposal: dict[str, Any], verb: str, **body: Any) -> Any:
    return api.as_(who).post(f"/api/v1/proposals/{proposal['id']}/{verb}", json=body)


def test_an_author_proposes_a_reviewer_agrees_and_every_node_gets_the_next_release(api: Api) -> None:
    made = propose(api)
    assert (made["status"], made["location"], made["author"]) == ("open", "registry:support/refunds", "author")
    assert "+Within 30 days." in made["diff"] and '+  version: "1.0.1"' in made["diff"]
    detail = api.as_("reviewer").get(f"/api/v1/proposals/{made['id']}").json()
    assert (detail["why_not_you"], detail["compared_with"]["kind"]) == (None, "current")

    done = decide(api, "reviewer", made, "approve", comment="Right.")
    assert (done.status_code, done.json()["status"], done.json()["reviewer"]) == (200, "applied", "reviewer"), done.text
    deployed = api.scope.deployments.get("refunds")
    assert deployed is not None
    assert (deployed.version, deployed.digest, deployed.by) == ("1.0.1", done.json()["applied_digest"], "reviewer")
    assert b"Within 30 days." in api.scope.revisions.files(deployed.digest)["SKILL.md"][1]
    assert api.scope.releases.get("support", "refunds", "1.0.1") is not None
    types = [one["type"] for one in api.scope.audit.tail(20)]
    for type_ in ("proposal.approved", "proposal.applied", "skill.published", "skill.deployed", "approval.granted"):
        assert type_ in types


@pytest.mark.parametrize(
    ("who", "why"),
    [("viewer", "that takes the role reviewer"), ("author", "nobody decides about their own")],
)
def test_who_may_not_decide_is_refused_and_recorded(api: Api, who: str, why: str) -> None:
    made = propose(api)
    answer = decide(api, who, made, "reject", comment="No.")
    assert (answer.status_code, answer.json()["code"]) == (403, "not-permitted")
    assert why in answer.json()["detail"]
    assert api.scope.audit.tail(1)[0]["type"] == "proposal.refused"
    assert decide(api, who, made, "approve").status_code == 403
    found = api.scope.proposals.get(made["id"])
    assert found is not None and found.status == "open"


def test_a_reviewer_who_owns_no_namespace_agrees_and_an_owner_applies(api: Api) -> None:
    put_namespace(api.scope, api.person("admin"), "support", ["user:nobody"])
    made = propose(api)
    assert decide(api, "reviewer", made, "approve").status_code == 403
    assert decide(api, "reviewer", made, "approve", apply=False).json()["status"] == "approved"
    assert decide(api, "admin", made, "approve").json()["status"] == "applied"


def test_a_proposal_about_what_is_no_longer_deployed_is_stale(api: Api) -> None:
    first, second = propose(api), propose(api, diff=DIFF.replace("30", "60"))
    assert decide(api, "reviewer", first, "approve").status_code == 200
    late = decide(api, "reviewer", second, "approve")
    assert (late.status_code, late.json()["code"]) == (409, "proposal-stale")
    stale = api.as_("viewer").get("/api/v1/proposals", params={"status": "stale"}).json()["items"]
    assert [one["id"] for one in stale] == [second["id"]]


def test_an_agreement_that_was_cut_short_is_taken_up_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    made = propose(api)

    def cut(*_: object, **__: object) -> None:
        raise StoreUnavailable("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr("metier.hub.registry.proposals._Registry._deploy", cut)
        assert decide(api, "reviewer", made, "approve").status_code == 503
    deployed = api.scope.deployments.get("refunds")
    assert deployed is not None and deployed.version == "1.0.0"
    assert decide(api, "reviewer", made, "approve").json()["status"] == "applied"
    assert len(api.scope.releases.all(name="refunds")) == 2


def test_a_new_skill_is_released_and_an_admin_deploys_it(api: Api) -> None:
    text = "---\nname: returns\ndescription: Handles returns.\nmetadata: {version: 0.1.0}\n---\nDo it.\n"
    files = [{"path": "SKILL.md", "text": text}, {"path": "a.bin", "base64": "AAE="}]
    made = propose(api, skill="returns", namespace="support", diff=None, files=files)
    assert made["kind"] == "new"
    assert decide(api, "reviewer", made, "approve").json()["status"] == "applied"
    assert api.scope.releases.get("support", "returns", "0.1.0") is not None
    assert api.scope.deployments.get("returns") is None


def test_what_an_agent_on_a_node_proposes_is_the_next_release_too(api: Api) -> None:
    guard = api.context.guard("")
    changed: Files = {"SKILL.md": ("file", SKILL.replace("14", "30").encode())}
    keep_files(api.scope, guard.governance.effective, "refunds@server", changed)
    node = ManagedNode(id="n-1", name="laptop", person="viewer")
    sent = Proposal(
        id="p-12345678",
        skill="refunds@server",
        location="/home/vic/.metier/node-skills/refunds",
        base_digest=digest_of_files(FILES),
        proposed_digest=digest_of_files(changed),
        justification="The law changed.",
        author_kind="agent",
        author="helper",
    )
    assert receive_proposal(api.scope, guard, node, sent).id == sent.id
    assert receive_proposal(api.scope, guard, node, sent).id == sent.id
    with pytest.raises(InvalidArgument):
        receive_proposal(api.scope, guard, node, replace(sent, proposed_digest=sent.base_digest))
    assert decide(api, "reviewer", {"id": sent.id}, "approve").json()["status"] == "applied"
    deployed = api.scope.deployments.get("refunds")
    assert deployed is not None and deployed.version == "1.0.1"


def test_others_recommend_and_the_author_withdraws(api: Api) -> None:
    made = propose(api)
    told = decide(api, "viewer", made, "recommend", verdict="approve", reason="SKILL.md:7 is right.")
    assert [one["by"] for one in told.json()["recommendations"]] == ["viewer"]
    assert decide(api, "author", made, "recommend", verdict="approve", reason="Mine.").status_code == 403
    assert decide(api, "reviewer", made, "withdraw").status_code == 403
    assert decide(api, "author", made, "withdraw").json()["status"] == "withdrawn"
    assert decide(api, "reviewer", made, "reject", comment="Late.").status_code == 409


def test_another_tenant_neither_sees_nor_changes_it(api: Api) -> None:
    made = propose(api)
    other = api.as_("other")
    assert other.get("/api/v1/proposals").json()["items"] == []
    assert other.get(f"/api/v1/proposals/{made['id']}").status_code == 404
    for verb, body in {"approve": {}, "withdraw": {}, "reject": {"comment": "No."}}.items():
        assert decide(api, "other", made, verb, **body).status_code == 404
    refused = other.post("/api/v1/proposals", json=BODY)
    assert (refused.status_code, refused.json()["code"]) == (422, "proposal-invalid")


def test_a_proposal_about_a_folder_writes_nothing_at_the_server(api: Api, tmp_path: Any) -> None:
    from metier.hub.proposals import propose_new

    made = propose_new(
        api.scope, "refunds", FILES, "Why not.", author=api.person("author"), into=tmp_path, guard=api.context.guard("")
    )
    done = decide(api, "reviewer", {"id": made.id}, "approve")
    assert (done.status_code, done.json()["status"]) == (200, "approved")
    assert not (tmp_path / "refunds").exists()


@pytest.mark.parametrize(
    "body",
    [
        {"files": [{"path": "SKILL.md", "text": "x"}]},
        {"diff": None},
        {"diff": None, "files": [{"path": "../x", "text": "x"}, {"path": "SKILL.md", "text": SKILL}]},
        {"diff": None, "files": [{"path": "SKILL.md", "text": "x", "base64": "eA=="}]},
        {"diff": None, "files": [{"path": "SKILL.md", "base64": "?"}]},
        {"diff": None, "files": [{"path": "SKILL.md", "text": SKILL}, {"path": "SKILL.md", "text": SKILL}]},
        {"diff": "nonsense"},
        {"skill": "No Name"},
        {"justification": " "},
        {"namespace": "elsewhere"},
    ],
)
def test_what_cannot_be_proposed_leaves_nothing(api: Api, body: dict[str, Any]) -> None:
    assert api.as_("author").post("/api/v1/proposals", json={**BODY, **body}).status_code == 422
    assert api.scope.proposals.all() == []
