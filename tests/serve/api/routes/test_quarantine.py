"""Quarantine over HTTP: a reviewer takes skills out of use, an admin releases them."""

from __future__ import annotations

import pytest
from tests.serve.api.conftest import Api

from metier.guard import Action, Subject

BODY = {"kind": "name", "value": "pdf", "reason": "It sends files away."}


def test_what_a_reviewer_takes_out_of_use_is_denied_from_the_next_decision_on(api: Api) -> None:
    guard, load = api.context.guard(""), Action(point="load", skill=Subject(name="pdf", layer="enterprise"))
    assert guard.decide(load).outcome == "allow"
    added = api.as_("reviewer").post("/api/v1/quarantine", json=BODY)
    assert (added.status_code, added.json()["by"]) == (201, "reviewer")
    assert guard.decide(load).outcome == "deny"
    assert [one["value"] for one in api.as_("viewer").get("/api/v1/quarantine").json()["items"]] == ["pdf"]

    assert api.as_("reviewer").post("/api/v1/quarantine/release", json=BODY).status_code == 403
    assert api.as_("admin").post("/api/v1/quarantine/release", json=BODY).status_code == 200
    assert guard.decide(load).outcome == "allow"
    assert api.as_("admin").post("/api/v1/quarantine/release", json=BODY).status_code == 404


def test_a_tenant_takes_nothing_of_another_out_of_use(api: Api) -> None:
    assert api.as_("other").post("/api/v1/quarantine", json=BODY).status_code == 201
    assert api.as_("viewer").get("/api/v1/quarantine").json()["items"] == []
    assert api.as_("admin").post("/api/v1/quarantine/release", json=BODY).status_code == 404


def test_the_uses_of_a_skill_are_listed(api: Api) -> None:
    api.scope.audit.append(
        {"timestamp": "2026-01-01T00:00:00.000+00:00", "event": "skill", "type": "skill.activated", "skill": "pdf"}
        | {"decision": "allow", "user": "ada", "session": "s1"}
    )
    found = api.as_("viewer").get("/api/v1/quarantine/usage", params={"kind": "name", "value": "pdf"}).json()["items"]
    assert [(one["user"], one["session"], one["times"]) for one in found] == [("ada", "s1", 1)]


@pytest.mark.parametrize(
    "body", [{**BODY, "reason": "  "}, {**BODY, "kind": "folder"}, {**BODY, "kind": "digest"}, {**BODY, "more": 1}]
)
def test_what_would_never_match_is_refused(api: Api, body: dict[str, object]) -> None:
    assert api.as_("admin").post("/api/v1/quarantine", json=body).status_code == 422
