"""Limits of requests, each reached on a small server."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from fastapi import Body
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.serve.api.conftest import Api

from metier.serve.api.limits import RateLimiter, RequestLimits
from metier.serve.api.settings import ClientLimits, ServerSettings

SMALL = ClientLimits(body_bytes=4096, json_bytes=1024, requests_per_minute=6, concurrent=2)


@pytest.fixture
def settings() -> ServerSettings:
    return ServerSettings(limits=SMALL)


@pytest.fixture
def echo(api: Api) -> Api:
    """The server with a route that tells how long the body was."""

    @api.app.post("/api/v1/echo")
    @api.app.put("/v1/packages/x")
    def length(body: bytes = Body()) -> int:
        return len(body)

    return api


class TestBodies:
    def test_a_body_within_the_limit_comes_through(self, echo: Api) -> None:
        assert echo.as_("nobody").post("/api/v1/echo", content=b"x" * 1024).json() == 1024

    def test_a_length_over_the_limit_is_refused_before_the_body_is_read(self, echo: Api) -> None:
        answer = echo.as_("nobody").post("/api/v1/echo", content=b"x" * 1025)
        assert (answer.status_code, answer.json()["code"]) == (413, "request-too-large")

    def test_bytes_are_counted_whatever_the_header_says(self, echo: Api) -> None:
        def parts() -> Iterator[bytes]:
            yield from [b"x" * 512] * 3

        answer = echo.as_("nobody").post("/api/v1/echo", content=parts())
        assert (answer.status_code, answer.json()["code"]) == (413, "request-too-large")

    def test_contents_may_be_larger_than_other_bodies(self, echo: Api) -> None:
        assert echo.as_("viewer").put("/v1/packages/x", content=b"x" * 4096).json() == 4096
        assert echo.as_("viewer").put("/v1/packages/x", content=b"x" * 4097).status_code == 413

    def test_contents_are_read_only_for_somebody_known(self, echo: Api) -> None:
        def parts() -> Iterator[bytes]:
            yield from map(bytes, [1024] * 8)  # more than anybody may send

        answer = echo.as_("nobody").put("/v1/packages/x", content=parts())
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


class TestRates:
    def test_too_many_requests_of_a_person_are_told_when_to_come_again(self, api: Api) -> None:
        statuses = [api.as_("viewer").get("/api/v1/me").status_code for _ in range(6)]
        assert statuses == [200] * 6
        answer = api.as_("viewer").get("/api/v1/me")
        assert (answer.status_code, answer.json()["code"]) == (429, "too-many-requests")
        assert 1 <= int(answer.headers["Retry-After"]) <= 10

    def test_one_person_takes_nothing_from_another(self, api: Api) -> None:
        while api.as_("viewer").get("/api/v1/me").status_code == 200:
            pass
        assert api.as_("author").get("/api/v1/me").status_code == 200

    def test_credentials_that_somebody_makes_up_count_for_their_address(self, api: Api) -> None:
        tries = [
            api.as_("nobody").get("/api/v1/me", headers={"Authorization": f"Bearer mtr_{one}"}) for one in range(7)
        ]
        assert [one.status_code for one in tries] == [401] * 6 + [429]
        assert api.as_("viewer").get("/api/v1/me").status_code == 200, "a person who shares the address is let in"

    def test_all_credentials_of_a_person_count_together(self, api: Api) -> None:
        tokens = [api.scope.people.new_token("viewer")[1] for _ in range(4)]
        answers = [
            api.as_("nobody").get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})
            for token in tokens
            for _ in range(2)
        ]
        assert [one.status_code for one in answers] == [200] * 6 + [429] * 2

    def test_a_credential_that_was_revoked_takes_nothing_from_its_person(self, api: Api) -> None:
        token, secret = api.scope.people.new_token("viewer")
        header = {"Authorization": f"Bearer {secret}"}
        assert api.as_("nobody").get("/api/v1/me", headers=header).status_code == 200
        api.scope.people.revoke_token(token.id)
        tries = [api.as_("nobody").get("/api/v1/me", headers=header).status_code for _ in range(8)]
        assert tries == [401] * 7 + [429]
        assert api.as_("viewer").get("/api/v1/me").status_code == 200

    def test_the_health_of_a_busy_server_can_still_be_asked(self, api: Api) -> None:
        assert {api.as_("nobody").get("/healthz").status_code for _ in range(20)} == {200}

    def test_requests_come_back_with_time(self) -> None:
        now = [100.0]
        limiter = RateLimiter(60, clock=lambda: now[0])
        scope = {"type": "http", "headers": [], "client": ("192.0.2.1", 1)}
        assert {limiter.take(scope) for _ in range(60)} == {0}
        assert limiter.take(scope) == pytest.approx(1)
        now[0] += 1
        assert limiter.take(scope) == 0

    def test_a_network_of_version_six_counts_as_one(self) -> None:
        limiter = RateLimiter(1)
        scopes = [{"type": "http", "headers": [], "client": (f"2001:db8::{number}", 1)} for number in (1, 2)]
        assert limiter.take(scopes[0]) == 0
        assert limiter.take(scopes[1]) > 0


class TestTime:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings(limits=ClientLimits(request_seconds=0.1))

    def test_a_request_that_takes_too_long_is_told_so(self, api: Api) -> None:
        release = threading.Event()

        @api.app.get("/api/v1/slow")
        def slow() -> str:
            release.wait(20)
            return "done"

        threading.Timer(0.4, release.set).start()
        answer = api.as_("nobody").get("/api/v1/slow")
        assert (answer.status_code, answer.json()["code"]) == (503, "too-slow")
        assert "Retry-After" in answer.headers


class TestPlaces:
    def test_a_request_without_a_place_is_told_that_the_server_is_busy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("metier.serve.api.limits._PATIENCE_SECONDS", 0.01)
        statuses = run_at_once(SMALL, streams=False)
        assert sorted(statuses) == [200, 200, 503]

    def test_streams_of_events_take_no_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("metier.serve.api.limits._PATIENCE_SECONDS", 0.01)
        assert run_at_once(SMALL, streams=True) == [200, 200, 200]


def run_at_once(limits: ClientLimits, *, streams: bool) -> list[int]:
    """The statuses of three requests, each of which begins while those before are being answered."""
    import asyncio

    kind = b"text/event-stream" if streams else b"text/plain"

    async def main() -> list[int]:
        end, statuses = asyncio.Event(), []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
            await end.wait()
            await send({"type": "http.response.body", "body": b""})

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                if len(statuses) == 3:
                    end.set()

        async def receive() -> Message:
            return {"type": "http.request", "body": b""}

        limited: ASGIApp = RequestLimits(app, limits=limits, by_token=lambda secret: None)
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("127.0.0.1", 1)}
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            for _ in range(3):
                tasks.create_task(limited(dict(scope), receive, send))  # type: ignore[arg-type]
        return statuses

    return asyncio.run(main())
