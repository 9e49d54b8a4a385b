"""People over HTTP."""

from __future__ import annotations

import pytest
from tests.serve.api.conftest import CALLERS, Api


@pytest.mark.each("name", [one for one in CALLERS if one != "nobody"])
def test_a_credential_tells_its_person_roles_and_tenant(api: Api, name: str) -> None:
    answer = api.as_(name).get("/api/v1/me")
    assert answer.status_code == 200
    roles = {"node": [], "other": ["admin"]}.get(name, [name])
    assert answer.json() == {
        "name": name,
        "kind": "node" if name == "node" else "user",
        "roles": roles,
        "tenant": "other" if name == "other" else "",
    }


def test_nobody_is_told_nothing_without_a_credential(api: Api) -> None:
    answer = api.as_("nobody").get("/api/v1/people")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["code"] == "unauthorized"


def test_people_of_a_tenant_are_listed_to_it_alone(api: Api) -> None:
    ours = [one["name"] for one in api.as_("viewer").get("/api/v1/people").json()["items"]]
    assert ours == ["admin", "author", "node", "reviewer", "viewer"]
    assert [one["name"] for one in api.as_("other").get("/api/v1/people").json()["items"]] == ["other"]
