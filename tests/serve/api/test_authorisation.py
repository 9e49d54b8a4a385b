"""Who may call which route: every cell of the table in the documentation, by a real request."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.serve.api.conftest import CALLERS, OTHER, Api
from tests.serve.api.objects import MARK, example, fill, make_objects

from metier.serve.api.openapi import PATH, generate_openapi
from metier.serve.api.settings import ClientLimits, RegistrySettings, ServerSettings
from metier.store.schema import tables_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "server-roles.md"
ROW = re.compile(r"^\| `(?P<method>[A-Z]+) (?P<path>/\S*)` \|(?P<cells>.*)\|$", re.MULTILINE)
ROUTES = {
    (row["method"], row["path"]): dict(zip(CALLERS, map(str.strip, row["cells"].split("|")), strict=True))
    for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))
}
CELLS = [(method, path, caller, cell) for (method, path), row in ROUTES.items() for caller, cell in row.items()]
WITHOUT_CREDENTIAL = {"/healthz", "/readyz", "/api/v1/webhooks/{id}/slack"}
"""What everybody may call, where a signature is no credential; and everything below the next."""
SIGN_IN = "/api/v1/sign-in"


@pytest.fixture
def settings() -> ServerSettings:
    return ServerSettings(
        limits=ClientLimits(requests_per_minute=1_000_000), registry=RegistrySettings(anonymous=False)
    )


@pytest.fixture
def document(api: Api) -> dict[str, Any]:
    return generate_openapi(api.app)


@pytest.fixture
def objects(api: Api) -> dict[str, str]:
    api.context.stop()  # so that streams end at once
    return make_objects(api)


def call(api: Api, caller: str, method: str, path: str, document: dict[str, Any], objects: dict[str, str]) -> Any:
    """Send a request that is as right as its description says, about these objects, or some that are not there."""
    operation = document["paths"][path][method.lower()]
    client = api.as_(caller)
    if (method, path) == ("DELETE", "/api/v1/session") and caller != "nobody":
        # Which ends the token that it is called with.
        token = (api.other if caller == OTHER else api.scope).people.new_token(caller)[1]
        client = TestClient(api.app, headers={"Authorization": f"Bearer {token}"})
    content = operation.get("requestBody", {}).get("content", {})
    query = {
        one["name"]: objects.get(f"{path}?{one['name']}", example(one["schema"], document))
        for one in operation.get("parameters", ())
        if one["in"] == "query" and one.get("required")
    }
    body: dict[str, Any] = {}
    if "application/json" in content:
        body = {"json": example(content["application/json"]["schema"], document)}
    elif content:
        body = {"content": b"x", "headers": {"Content-Type": next(iter(content))}}
    absent = {
        path.partition(f"{{{one['name']}}}")[0]: str(example(one["schema"], document))
        for one in operation.get("parameters", ())
        if one["in"] == "path"
    }
    return client.request(method, fill(path, objects or absent), params=query, **body)


@pytest.mark.each(("method", "path", "caller", "cell"), CELLS)
def test_a_route_lets_in_whom_the_table_says(
    api: Api, document: dict[str, Any], method: str, path: str, caller: str, cell: str
) -> None:
    api.context.stop()  # so that streams end at once
    answer = call(api, caller, method, path, document, {})
    refused = 401 if caller == "nobody" else 403
    assert (answer.status_code == refused) == (cell in ("no", "public")), answer.text
    assert answer.status_code < 500 or path.startswith(SIGN_IN), answer.text


def test_the_table_has_every_route(document: dict[str, Any]) -> None:
    assert set(ROUTES) == {(method.upper(), path) for path, item in document["paths"].items() for method in item}


def test_a_route_that_asks_for_no_role_is_one_of_few(document: dict[str, Any]) -> None:
    free = {path for (_, path), row in ROUTES.items() if row["nobody"] == "yes" and not path.startswith(SIGN_IN)}
    assert free == WITHOUT_CREDENTIAL
    assert PATH not in document["paths"]


class TestAnOpenRegistry:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(registry=RegistrySettings(anonymous=True))

    def test_nobody_needs_a_credential_to_read_it(
        self, api: Api, document: dict[str, Any], objects: dict[str, str]
    ) -> None:
        public = [key for key, row in ROUTES.items() if row["nobody"] == "public"]
        assert len(public) >= 5
        for method, path in public:
            assert call(api, "nobody", method, path, document, objects).status_code == 200, path


class TestAnotherTenant:
    def test_its_admin_sees_nothing_of_this_one(
        self, api: Api, document: dict[str, Any], objects: dict[str, str]
    ) -> None:
        for (method, path), row in ROUTES.items():
            if row[OTHER] == "own" and method == "GET":
                answer = call(api, OTHER, method, path, document, objects)
                assert answer.status_code == 404 or MARK not in answer.text, path

    def test_objects_of_this_one_are_there_for_its_own_admin(
        self, api: Api, document: dict[str, Any], objects: dict[str, str]
    ) -> None:
        for (method, path), row in ROUTES.items():
            if row["admin"] == "yes" and method == "GET" and "{" in path:
                assert call(api, "admin", method, path, document, objects).status_code == 200, path

    def test_its_admin_changes_nothing_of_this_one(
        self, api: Api, document: dict[str, Any], objects: dict[str, str]
    ) -> None:
        before = rows_of(api)
        # What a PUT makes under the same name is the other tenant's own.
        for (method, path), row in sorted(ROUTES.items(), key=lambda one: one[0][0] == "PUT"):
            if row[OTHER] == "own" and method != "GET" and (method, path) != ("DELETE", "/api/v1/session"):
                answer = call(api, OTHER, method, path, document, objects)
                if "{" in path and method != "PUT":
                    assert answer.status_code in (404, 422), (method, path, answer.text)
        after = rows_of(api)
        assert {name for name in before if before[name] != after[name]} == set()


def rows_of(api: Api) -> dict[str, list[Any]]:
    """All that the store has of tenant ""."""
    found = {}
    for table in tables_of("sqlite"):
        if "tenant" in table.key:
            found[table.name] = api.store.pool.execute(f"SELECT * FROM {table.name} WHERE tenant = ''")
    return found
