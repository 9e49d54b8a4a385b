"""The headers of every answer, the access log, and failures."""

from __future__ import annotations

import logging
import socket
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient
from tests.serve.api.conftest import Api
from tests.serve.api.listening import listening

from metier.serve.api.settings import ServerSettings


@pytest.mark.each("path", ["/healthz", "/api/v1/me", "/api/v1/openapi.json", "/nothing"])
def test_every_answer_keeps_browsers_from_running_framing_or_keeping_it(api: Api, path: str) -> None:
    headers = api.as_("nobody").get(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["Cache-Control"] == ("private, no-cache" if path.endswith(".json") else "no-store")
    assert "Strict-Transport-Security" not in headers


class TestOverTls:
    @pytest.fixture
    def settings(self) -> ServerSettings:
        return ServerSettings.model_validate({"public_url": "https://skills.example.com"})

    def test_browsers_are_told_to_stay_with_it(self, api: Api) -> None:
        assert api.as_("nobody").get("/healthz").headers["Strict-Transport-Security"].startswith("max-age=")


class TestAccessLog:
    def test_a_line_names_the_caller_and_the_answer_and_no_secret(
        self, api: Api, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, "metier.serve.access"):
            answer = api.as_("other").get("/api/v1/me?q=private")
        (line,) = [one.getMessage() for one in caplog.records if one.name == "metier.serve.access"]
        assert line.startswith("GET /api/v1/me 200 ")
        assert line.endswith(f" ms other@other {answer.headers['X-Request-Id']}")
        assert api.tokens["other"] not in line
        assert "private" not in line

    def test_a_path_cannot_forge_a_line(self, api: Api, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "metier.serve.access"):
            api.as_("nobody").get("/x%0aGET /admin 200")
        assert all("\n" not in one.getMessage() for one in caplog.records)


def test_a_failure_tells_its_number_and_nothing_of_its_cause(api: Api) -> None:
    @api.app.get("/api/v1/broken")
    def broken() -> None:
        raise RuntimeError("the password is sesame")

    answer = TestClient(api.app, raise_server_exceptions=False).get("/api/v1/broken")
    assert answer.status_code == 500
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert "sesame" not in answer.text
    assert answer.headers["X-Request-Id"] in answer.json()["hint"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_method_that_a_path_does_not_have_is_answered_with_those_that_it_has(api: Api) -> None:
    answer = api.as_("admin").request("OPTIONS", "/api/v1/people/ada")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "DELETE, GET, PUT")


def test_a_body_with_two_lengths_ends_its_connection(api: Api) -> None:
    head = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    rest = b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with listening(api.store) as url, socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), 20) as client:
        client.sendall(head + rest)
        with client.makefile("rb") as answers:
            answer = answers.read()  # until the server closes the connection
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.lower().count(b"connection: close") == 1
    assert answer.count(b"HTTP/1.1 ") == 1
