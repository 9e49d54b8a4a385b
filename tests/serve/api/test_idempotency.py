"""Requests that are sent again under their key: done once, and answered as before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from fastapi import Body, FastAPI
from starlette.testclient import TestClient
from tests.serve.api.conftest import Api
from tests.store.postgres import new_postgres_url

from metier.serve.api.app import create_app
from metier.serve.api.browser_session import COOKIE, csrf_token
from metier.serve.api.browser_session import HEADER as CSRF
from metier.serve.api.credentials import require
from metier.serve.api.problems import ProblemError
from metier.serve.api.settings import ServerSettings
from metier.store import Store

KEY = {"Idempotency-Key": "key-1"}


def count_in(app: FastAPI) -> list[Any]:
    """Give an app a route that counts what it does; `fail` and `refuse` say how it ends."""
    done: list[Any] = []

    @app.post("/api/v1/things", status_code=201, **require("viewer"))
    def make(what: str = Body(embed=True)) -> dict[str, Any]:
        if what == "refuse":
            raise ProblemError(409, "conflict", "Not now.")
        done.append(what)
        if what == "fail":
            raise RuntimeError("half done")
        return {"what": what, "number": len(done)}

    return done


@pytest.fixture
def done(api: Api) -> list[Any]:
    return count_in(api.app)


def post(client: TestClient, what: str, **headers: str) -> Any:
    return client.post("/api/v1/things", json={"what": what}, headers=KEY | headers)


def test_the_same_request_is_done_once_and_answered_again(api: Api, done: list[Any]) -> None:
    first, second = (post(api.as_("viewer"), "a") for _ in range(2))
    assert (first.status_code, first.json()) == (201, {"what": "a", "number": 1})
    assert (second.status_code, second.json()) == (201, {"what": "a", "number": 1})
    assert "Idempotency-Replayed" not in first.headers
    assert second.headers["Idempotency-Replayed"] == "true"
    assert done == ["a"]


def test_without_a_key_each_request_is_done(api: Api, done: list[Any]) -> None:
    for _ in range(2):
        api.as_("viewer").post("/api/v1/things", json={"what": "a"})
    assert done == ["a", "a"]


def test_another_request_under_the_same_key_is_refused(api: Api, done: list[Any]) -> None:
    post(api.as_("viewer"), "a")
    answer = post(api.as_("viewer"), "b")
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency-key-reused")
    assert done == ["a"]


def test_keys_of_two_people_are_two_keys(api: Api, done: list[Any]) -> None:
    assert [post(api.as_(name), name).json()["number"] for name in ("viewer", "author", "other")] == [1, 2, 3]


def test_a_key_that_nobody_could_have_made_is_refused(api: Api, done: list[Any]) -> None:
    for key in ("", "x" * 201, "two words"):
        answer = post(api.as_("viewer"), "a", **{"Idempotency-Key": key})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request"), key
    assert done == []


def test_a_request_that_was_refused_leaves_its_key_free(api: Api, done: list[Any]) -> None:
    assert post(api.as_("viewer"), "refuse").status_code == 409
    assert post(api.as_("viewer"), "a").status_code == 201


def test_a_key_needs_a_credential_that_is_valid(api: Api, done: list[Any]) -> None:
    post(api.as_("viewer"), "a")
    assert post(api.as_("nobody"), "a").status_code == 401
    assert post(api.as_("viewer"), "a", Authorization="Bearer mtr_made-up").status_code == 401


def test_a_browser_is_answered_again_only_where_our_own_page_asks(api: Api, done: list[Any]) -> None:
    secret = api.tokens["viewer"]
    browser = TestClient(api.app, cookies={COOKIE: secret})
    own = {"Origin": "http://testserver", CSRF: csrf_token(secret)}
    assert post(browser, "a", **own).status_code == 201
    answer = post(browser, "a")
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign-page")
    assert post(browser, "a", **own).headers["Idempotency-Replayed"] == "true"
    assert done == ["a"]


def test_a_request_that_failed_is_not_done_again(api: Api, done: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.serve.api.idempotency._PATIENCE_SECONDS", 0)
    with pytest.raises(RuntimeError):
        post(api.as_("viewer"), "fail")
    answer = post(api.as_("viewer"), "fail")
    assert (answer.status_code, answer.json()["code"]) == (409, "request-in-progress")
    # Once nothing can be at it any more, nobody knows whether it was done.
    api.store.pool.execute("UPDATE idempotency SET at = '2020-01-01T00:00:00.000+00:00'")
    monkeypatch.setattr("metier.store.idempotency._KEPT", timedelta(days=100_000))
    answer = post(api.as_("viewer"), "fail")
    assert (answer.status_code, answer.json()["code"]) == (409, "outcome-unknown")
    assert done == ["fail"]


def test_a_key_is_forgotten_after_a_day(api: Api, done: list[Any]) -> None:
    post(api.as_("viewer"), "a")
    api.store.pool.execute("UPDATE idempotency SET at = '2020-01-01T00:00:00.000+00:00'")
    assert post(api.as_("viewer"), "b").json() == {"what": "b", "number": 2}


class TestWhatIsKept:
    def test_the_store_has_no_answer_that_can_be_read(self, api: Api, done: list[Any]) -> None:
        post(api.as_("viewer"), "secret")
        (row,) = api.store.pool.execute("SELECT * FROM idempotency")
        assert "secret" not in str(row)

    def test_another_token_of_the_person_is_told_that_it_was_done(self, api: Api, done: list[Any]) -> None:
        post(api.as_("viewer"), "a")
        _, token = api.scope.people.new_token("viewer")
        answer = post(api.as_("nobody"), "a", Authorization=f"Bearer {token}")
        assert (answer.status_code, answer.json()["code"]) == (409, "answer-not-kept")
        assert done == ["a"]


class TestAtOnce:
    @pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
    def store_of_process(self, api: Api, request: pytest.FixtureRequest) -> Callable[[], Store]:
        if request.param == "sqlite":
            return lambda: Store.open(api.store.url)
        url = new_postgres_url()
        Store.migrate(url)
        with Store.open(url) as store:
            store.of().people.add(api.person("admin"))
        return lambda: Store.open(url)

    def test_a_request_that_comes_to_two_servers_at_once_is_done_by_one(
        self, store_of_process: Callable[[], Store]
    ) -> None:
        started, release = threading.Event(), threading.Event()
        done: list[str] = []
        with store_of_process() as one, store_of_process() as two:
            token = one.of().people.new_token("admin")[1]
            apps = [create_app(store, ServerSettings()) for store in (one, two)]
            for app in apps:

                @app.post("/api/v1/things", **require("viewer"))
                def make(what: str = Body(embed=True)) -> int:
                    done.append(what)
                    started.set()
                    release.wait(20)
                    return len(done)

            clients = [TestClient(app, headers={"Authorization": f"Bearer {token}"}) for app in apps]
            with ThreadPoolExecutor() as threads:
                first = threads.submit(post, clients[0], "a")
                assert started.wait(20)
                second = threads.submit(post, clients[1], "a")
                threading.Timer(0.2, release.set).start()
                assert [first.result(20).json(), second.result(20).json()] == [1, 1]
        assert done == ["a"]
