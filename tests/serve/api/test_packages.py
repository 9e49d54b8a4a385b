"""Namespaces, releases, submissions and deployments through the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.serve.api.conftest import Api
from tests.serve.api.registry_client import CURL, GZIP, publish, skill_files, submit, upload

from metier.hub.publish.pack import pack
from metier.skill.package import digest_of_files

NAMESPACE = "/api/v1/namespaces/acme"
REVIEW = "/api/v1/submissions/acme/pdf-forms/1.0.0/review"


@pytest.fixture
def acme(api: Api) -> Api:
    """A server with a namespace whose owner is the author, with a criterion."""
    body = {"owners": ["user:reviewer"], "criteria": ["It has an example."]}
    assert api.as_("admin").put(NAMESPACE, json=body).status_code == 200
    return api


def test_a_content_is_kept_once_and_verified(api: Api) -> None:
    files = skill_files()
    digest = digest_of_files(files)
    author, path = api.as_("author"), f"/api/v1/contents/{digest}"
    assert author.put(path, content=pack(files, "tar.gz"), headers=GZIP).status_code == 201
    assert author.put(path, content=pack(files), headers={"Content-Type": "application/zip"}).status_code == 200
    wrong = author.put(path, content=pack(skill_files(body="Other.")), headers=GZIP)
    assert (wrong.status_code, wrong.json()["code"]) == (409, "integrity-failed")
    assert api.as_("node").get(path).status_code == 200


def test_a_version_never_changes(api: Api) -> None:
    assert publish(api.as_("admin"), skill_files()).status_code == 201
    again = publish(api.as_("admin"), skill_files(body="Other."))
    assert (again.status_code, again.json()["code"]) == (409, "skill-exists")
    spelled = publish(api.as_("admin"), skill_files(version="1.0"))
    assert spelled.status_code == 409


def test_a_name_belongs_to_the_namespace_that_published_it_first(acme: Api) -> None:
    assert publish(acme.as_("admin"), skill_files(), "acme").status_code == 201
    acme.as_("admin").post("/api/v1/packages/acme/pdf-forms/1.0.0/yank", json={"reason": "It leaks."})
    taken = publish(acme.as_("admin"), skill_files(version="9.0.0"))
    assert (taken.status_code, taken.json()["code"]) == (409, "skill-exists")


def test_who_does_not_own_a_namespace_submits_for_review(acme: Api) -> None:
    author = acme.as_("author")
    refused = publish(author, skill_files(), "acme")
    assert (refused.status_code, "Submit it" in refused.json()["hint"]) == (403, True)
    assert submit(author, skill_files(), "acme").json()["status"] == "submitted"
    assert acme.as_("viewer").get("/v1/packages/acme/pdf-forms/versions").status_code == 404
    assert acme.as_("viewer").get("/api/v1/packages/acme/pdf-forms/1.0.0").status_code == 404
    assert [one["by"] for one in acme.as_("viewer").get("/api/v1/submissions").json()["items"]] == ["author"]
    assert author.post(REVIEW, json={"approve": True}).status_code == 403
    done = acme.as_("reviewer").post(REVIEW, json={"approve": True, "criteria": {"It has an example.": True}})
    assert (done.status_code, done.json()["status"], done.json()["decided_by"]) == (200, "published", "reviewer")
    assert acme.as_("viewer").get("/api/v1/packages/acme/pdf-forms").json()["items"] == [done.json()]
    types = [one["type"] for one in acme.scope.audit.tail(9)]
    assert {"skill.submitted", "submission.approved", "skill.published", "skill.refused"} <= set(types)


def test_a_rejected_submission_has_feedback_and_may_be_made_again(acme: Api) -> None:
    author, reviewer = acme.as_("author"), acme.as_("reviewer")
    submit(author, skill_files(), "acme")
    assert reviewer.post(REVIEW, json={"approve": False}).status_code == 422
    body = {"approve": False, "criteria": {"It has an example.": False}, "feedback": "Add an example."}
    assert reviewer.post(REVIEW, json=body).status_code == 200
    found = author.get("/api/v1/submissions/acme/pdf-forms/1.0.0").json()
    assert (found["status"], found["reason"], found["criteria"]) == (
        "rejected",
        "Add an example.",
        {"It has an example.": False},
    )
    assert reviewer.post(REVIEW, json=body).status_code == 409
    assert submit(author, skill_files(body="For example so."), "acme").status_code == 201


@pytest.mark.each("criteria", [{}, {"It has an example.": False}, {"It is nice.": True}])
def test_every_criterion_has_to_be_met(acme: Api, criteria: dict[str, bool]) -> None:
    submit(acme.as_("author"), skill_files(), "acme")
    answer = acme.as_("reviewer").post(REVIEW, json={"approve": True, "criteria": criteria})
    assert answer.status_code == 422


def test_nobody_reviews_their_own_submission_where_policy_says_so(
    acme: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("skill-policy: {approval: {self-approval: deny}}\n")
    monkeypatch.setenv("METIER_POLICY", str(policy))
    submit(acme.as_("reviewer"), skill_files(), "acme")
    body = {"approve": True, "criteria": {"It has an example.": True}}
    assert acme.as_("reviewer").post(REVIEW, json=body).status_code == 403
    assert acme.as_("admin").post(REVIEW, json=body).status_code == 200


def test_a_submission_is_withdrawn_by_who_made_it(acme: Api) -> None:
    submit(acme.as_("author"), skill_files(), "acme")
    path = "/api/v1/submissions/acme/pdf-forms/1.0.0/withdraw"
    assert acme.as_("admin").post(path).status_code == 403
    assert acme.as_("author").post(path).json()["status"] == "withdrawn"
    assert acme.as_("author").post(path).status_code == 409


def test_findings_keep_a_release_back_until_somebody_accepts_them(api: Api) -> None:
    refused = publish(api.as_("admin"), skill_files(body=CURL))
    assert (refused.status_code, refused.json()["code"]) == (403, "scan-findings")
    assert publish(api.as_("admin"), skill_files(body=CURL), accept_findings="It is a test.").status_code == 201


def test_a_release_is_deployed_to_all_nodes_and_taken_back(api: Api) -> None:
    publish(api.as_("admin"), skill_files())
    path, body = "/api/v1/deployments/pdf-forms", {"namespace": "default", "version": "1.0.0", "reason": "For all."}
    assert api.as_("author").put(path, json=body).status_code == 403
    done = api.as_("admin").put(path, json=body)
    assert (done.status_code, done.json()["by"], done.json()["not_approved"]) == (200, "admin", "")
    assert api.scope.approvals.of(done.json()["digest"])
    assert api.as_("node").get(path).json()["version"] == "1.0.0"
    assert api.as_("other").get(path).status_code == 404
    assert api.as_("admin").delete(path).status_code == 200
    assert api.as_("admin").delete(path).status_code == 404


@pytest.mark.each("status", ["yanked", "submitted", "missing"])
def test_only_a_published_release_is_deployed(api: Api, status: str) -> None:
    if status == "yanked":
        publish(api.as_("admin"), skill_files())
        api.as_("admin").post("/api/v1/packages/default/pdf-forms/1.0.0/yank", json={"reason": "It leaks."})
    elif status == "submitted":
        submit(api.as_("author"), skill_files())
    body = {"namespace": "default", "version": "1.0.0"}
    assert api.as_("admin").put("/api/v1/deployments/pdf-forms", json=body).status_code == 404


def test_an_interrupted_publish_is_invisible(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise OSError("the power went")

    admin = api.as_("admin")
    upload(admin, skill_files())
    before = api.scope.audit.last()
    with monkeypatch.context() as patch:
        patch.setattr("metier.hub.registry.publication.record_event", fail)
        with pytest.raises(OSError, match="the power went"):
            publish(admin, skill_files())
    assert (api.scope.releases.all(), api.scope.audit.last()) == ([], before)
    assert admin.get("/.well-known/agent-skills/index.json").json()["skills"] == []
    assert publish(admin, skill_files()).status_code == 201


def test_lists_have_pages(api: Api) -> None:
    for version in ("1.0.0", "1.1.0", "1.2.0"):
        publish(api.as_("admin"), skill_files(version=version))
    first = api.as_("viewer").get("/api/v1/packages/default", params={"limit": 2}).json()
    second = api.as_("viewer").get("/api/v1/packages/default", params={"limit": 2, "cursor": first["next"]}).json()
    assert [one["version"] for one in (*first["items"], *second["items"])] == ["1.0.0", "1.1.0", "1.2.0"]
    assert second["next"] is None
    assert [one["name"] for one in api.as_("viewer").get("/api/v1/namespaces").json()["items"]] == ["default"]


def test_no_two_skills_have_archives_of_one_name(api: Api) -> None:
    admin = api.as_("admin")
    assert publish(admin, skill_files("lib-1", "2")).status_code == 201
    refused = publish(admin, skill_files("lib", "1-2"))
    assert (refused.status_code, refused.json()["code"]) == (409, "skill-exists")
