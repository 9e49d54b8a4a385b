"""People and tokens over HTTP: admins say who may decide, and everybody makes and revokes tokens of their own."""

from __future__ import annotations

from starlette.testclient import TestClient
from tests.serve.api.conftest import Api


def me(api: Api, secret: str) -> int:
    return TestClient(api.app, headers={"Authorization": f"Bearer {secret}"}).get("/api/v1/me").status_code


def test_an_admin_adds_somebody_gives_other_roles_and_removes_them(api: Api) -> None:
    admin = api.as_("admin")
    assert admin.put("/api/v1/people/ada", json={"roles": ["author"]}).status_code == 201
    assert admin.put("/api/v1/people/ada", json={"roles": ["reviewer"]}).status_code == 200
    assert api.as_("viewer").get("/api/v1/people/ada").json() == {"name": "ada", "kind": "user", "roles": ["reviewer"]}
    secret = admin.post("/api/v1/tokens", json={"person": "ada"}).json()["secret"]
    assert me(api, secret) == 200
    assert admin.delete("/api/v1/people/ada").status_code == 204
    assert me(api, secret) == 401
    assert admin.delete("/api/v1/people/ada").status_code == 404


def test_others_make_tokens_for_themselves_alone(api: Api) -> None:
    author = api.as_("author")
    made = author.post("/api/v1/tokens", json={"label": "laptop", "expires": "30d"})
    assert (made.status_code, made.headers["Cache-Control"]) == (201, "no-store")
    assert me(api, made.json()["secret"]) == 200
    assert author.post("/api/v1/tokens", json={"person": "admin"}).status_code == 403
    assert [one["person"] for one in author.get("/api/v1/tokens").json()["items"]] == ["author", "author"]
    assert "secret" not in author.get("/api/v1/tokens").text
    assert api.as_("viewer").delete(f"/api/v1/tokens/{made.json()['id']}").status_code == 404
    assert author.delete(f"/api/v1/tokens/{made.json()['id']}").json()["revoked"][0]["state"] == "revoked"
    assert me(api, made.json()["secret"]) == 401


def test_a_token_ends_with_the_one_that_it_was_made_with(api: Api) -> None:
    first = api.as_("author").post("/api/v1/tokens", json={}).json()
    client = TestClient(api.app, headers={"Authorization": f"Bearer {first['secret']}"})
    second = client.post("/api/v1/tokens", json={}).json()
    revoked = api.as_("admin").delete(f"/api/v1/tokens/{first['id']}").json()["revoked"]
    assert {one["id"] for one in revoked} == {first["id"], second["id"]}
    assert me(api, second["secret"]) == 401


def test_one_admin_stays(api: Api) -> None:
    answer = api.as_("admin").delete("/api/v1/people/admin")
    assert (answer.status_code, answer.json()["code"]) == (403, "not-permitted")
    assert api.as_("admin").put("/api/v1/people/admin", json={"roles": ["viewer"]}).status_code == 403


def test_a_node_is_none_of_the_people(api: Api) -> None:
    admin = api.as_("admin")
    assert admin.put("/api/v1/people/node", json={"roles": ["admin"]}).status_code == 409
    assert admin.delete("/api/v1/people/node").status_code == 409
    assert admin.post("/api/v1/tokens", json={"person": "node"}).status_code == 409
    assert api.as_("node").post("/api/v1/tokens", json={}).status_code == 403


def test_another_tenants_people_are_not_there(api: Api) -> None:
    other = api.as_("other")
    assert [one["name"] for one in other.get("/api/v1/people").json()["items"]] == ["other"]
    assert other.get("/api/v1/people/viewer").status_code == 404
    assert other.delete("/api/v1/people/viewer").status_code == 404
    assert other.post("/api/v1/tokens", json={"person": "viewer"}).status_code == 404
    token = api.as_("viewer").get("/api/v1/tokens").json()["items"][0]["id"]
    assert other.delete(f"/api/v1/tokens/{token}").status_code == 404
