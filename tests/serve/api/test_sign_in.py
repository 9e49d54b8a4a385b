"""Sign-in by an OpenID provider: whose ID token counts, which role it gives, and the session of the browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.serve.api.conftest import Api
from tests.serve.api.oidc_provider import PAGE, ProviderProcess, running

from metier.serve.api.settings import ServerSettings

ROLES = [
    {"value": "admins", "role": "admin"},
    {"value": "reviewers", "role": "reviewer"},
    {"value": "acme-admins", "role": "admin", "tenant": "acme"},
    {"value": "acme", "role": "author", "tenant": "acme"},
]


@pytest.fixture(scope="module")
def process() -> Iterator[ProviderProcess]:
    with running() as process:
        yield process


@pytest.fixture
def provider(process: ProviderProcess) -> ProviderProcess:
    process.honest()
    process.has("ada", groups=["staff", "reviewers"])
    return process


@pytest.fixture
def settings(provider: ProviderProcess) -> ServerSettings:
    return ServerSettings.model_validate(
        {"oidc": {"issuer": provider.issuer, "client_id": "metier", "device_client_id": "metier-cli", "roles": ROLES}}
    )


@pytest.fixture
def browser(api: Api) -> TestClient:
    return TestClient(api.app, base_url=PAGE, follow_redirects=False)


def sign_in(browser: TestClient, provider: ProviderProcess, login: str = "ada", **query: str) -> Any:
    """Sign in with a browser; the answer to the address at which the provider sends it back."""
    begun = browser.get("/api/v1/sign-in/oidc", params=query)
    assert begun.status_code == 303, begun.text
    return browser.get(provider.sign_in(begun.headers["location"], login))


def test_who_signs_in_has_the_role_of_their_group_and_a_session(
    api: Api, browser: TestClient, provider: ProviderProcess
) -> None:
    answer = sign_in(browser, provider, return_to="/skills?q=pdf")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PAGE}/skills?q=pdf")
    assert "HttpOnly" in answer.headers["set-cookie"] and "SameSite=lax" in answer.headers["set-cookie"]
    session = browser.get("/api/v1/session").json()
    assert (session["name"], session["roles"], session["tenant"]) == ("ada@example.com", ["reviewer"], "")
    added = api.scope.audit.search(type="person.added", limit=1)[0]
    assert (added["user"], added["reason"]) == ("metier", "user ada@example.com: reviewer")
    assert added["notes"] == [f"signed in as ada at {provider.issuer}"]
