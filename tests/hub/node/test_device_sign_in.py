"""Sign-in at a command line: with a certified provider, and with servers that are not what they should be."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.serve.api.listening import listening
from tests.serve.api.oidc_provider import ProviderProcess, running

from metier.errors import InvalidArgument, NotPermitted, SourceUnavailable
from metier.hub.node.device_sign_in import DeviceCode, sign_in
from metier.store import Person, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/store/metier.db") as store:
        store.of().people.add(Person(name="root", roles=frozenset({"admin"})))
        yield store


@pytest.fixture(scope="module")
def provider() -> Iterator[ProviderProcess]:
    with running() as provider:
        provider.has("ada", groups=["reviewers"])
        yield provider


@pytest.fixture
def server(store: Store, provider: ProviderProcess) -> Iterator[str]:
    roles = [{"value": "reviewers", "role": "reviewer"}]
    oidc = {"issuer": provider.issuer, "client_id": "metier", "device_client_id": "metier-cli", "roles": roles}
    with listening(store, oidc=oidc) as url:
        yield url


def test_who_confirms_the_code_has_a_token_of_the_server(server: str, store: Store, provider: ProviderProcess) -> None:
    codes: list[DeviceCode] = []
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:  # the first time the provider says that nobody has confirmed yet
            provider.confirm_device(codes[0].complete_url, "ada")

    token = sign_in(f"{server}/", codes.append, wait=wait)
    found = store.by_token(token)
    assert found is not None and found[1].title == "user ada@example.com: reviewer"
    assert waits == [5, 5]
    assert codes[0].url.startswith(provider.issuer) and codes[0].user_code in codes[0].complete_url


def test_who_refuses_the_code_gets_no_token(server: str, provider: ProviderProcess) -> None:
    def refuse(code: DeviceCode) -> None:
        provider.confirm_device(code.complete_url, "ada", abort=True)

    with pytest.raises(NotPermitted, match="aborted"):
        sign_in(server, refuse, wait=lambda _: None)


def test_a_code_that_nobody_confirms_ends(server: str) -> None:
    waited: list[float] = []
    with pytest.raises(NotPermitted, match="not confirmed in time"):
        sign_in(server, lambda _: None, wait=waited.append)
    assert sum(waited) == 600


def test_somebody_without_a_role_is_refused_by_the_server(server: str, provider: ProviderProcess) -> None:
    provider.has("eve", groups=[])
    with pytest.raises(NotPermitted, match="none of the groups"):
        sign_in(server, lambda code: provider.confirm_device(code.complete_url, "eve"), wait=lambda _: None)


def test_a_server_without_a_provider_names_tokens(store: Store) -> None:
    with listening(store) as url, pytest.raises(InvalidArgument) as raised:
        sign_in(url, lambda _: None)
    assert "token" in raised.value.hint


def test_a_browser_signs_in_to_a_server_that_listens_and_signs_out(server: str, provider: ProviderProcess) -> None:
    provider.sends_back_to(server)
    with httpx2.Client(base_url=server) as browser:
        begun = browser.get("/api/v1/sign-in/oidc", params={"return_to": "/healthz"})
        answer = browser.get(provider.sign_in(begun.headers["location"], "ada", server))
        assert answer.headers["location"] == f"{server}/healthz"
        token = browser.get("/api/v1/session").json()["csrf_token"]
        for origin, status in (
            ("https://evil.test", 403),
            (server.replace("127.0.0.1", "localhost"), 403),
            (server, 204),
        ):
            headers = {"Origin": origin, "X-CSRF-Token": token}
            assert browser.delete("/api/v1/session", headers=headers).status_code == status
        assert browser.get("/api/v1/session").status_code == 401


class Script:
    """A server that gives the answers of a script, in order for each path."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Any]] = {}
        self.asked: list[str] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                script.asked.append(self.path)
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answers = script.answers[self.path]
                status, content = answers.pop(0) if len(answers) > 1 else answers[0]
                body = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if status == 307:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        oidc = {"client_id": "cli", "scope": "openid", "token_endpoint": f"{self.url}/token"}
        self.oidc = {**oidc, "device_authorization_endpoint": f"{self.url}/device"}
        self.device = {"device_code": "d", "user_code": "ABCD", "verification_uri": f"{self.url}/v", "expires_in": 60}
        self.answers = {
            "/api/v1/sign-in": [(200, {"methods": ["token", "oidc"], "oidc": self.oidc})],
            "/device": [(200, self.device)],
            "/token": [(200, {"id_token": "i", "access_token": "a"})],
            "/api/v1/sign-in/exchange": [(201, {"token": "mtr_x"})],
        }


@pytest.fixture
def script() -> Iterator[Script]:
    script = Script()
    thread = threading.Thread(target=script.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield script
    script.http.shutdown()
    thread.join()
    script.http.server_close()


def test_a_provider_that_is_overloaded_is_asked_less_often(script: Script) -> None:
    slow, broken = (400, {"error": "slow_down"}), (502, b"<html>")
    script.answers["/token"][:0] = [slow, (400, {"error": "authorization_pending"}), slow, broken]
    waited: list[float] = []
    script.device["interval"] = 2
    assert sign_in(script.url, lambda _: None, wait=waited.append) == "mtr_x"
    assert waited == [2, 7, 7, 12, 24]


def test_no_secret_goes_where_others_can_read_it(script: Script) -> None:
    for name in ("device_authorization_endpoint", "token_endpoint"):
        for url in ("http://idp.example.com/x", "ftp://127.0.0.1/x", "file:///etc/passwd", "https:///x", "http://[::1"):
            script.answers["/api/v1/sign-in"] = [(200, {"oidc": {**script.oidc, name: url}})]
            with pytest.raises(InvalidArgument, match="no address"):
                sign_in(script.url, lambda _: None, wait=lambda _: None)
    with pytest.raises(InvalidArgument, match="no address"):
        sign_in("http://skills.example.com", lambda _: None)


def test_a_person_is_sent_to_no_other_kind_of_address(script: Script) -> None:
    for url in ("javascript:alert(1)", "http://evil.example.com", "vscode://x", "data:,x"):
        for name in ("verification_uri", "verification_uri_complete"):
            script.answers["/device"] = [(200, {**script.device, name: url})]
            with pytest.raises(InvalidArgument, match="no address"):
                sign_in(script.url, lambda _: None, wait=lambda _: None)


def test_a_terminal_shows_codes_without_their_control_characters(script: Script) -> None:
    script.device["user_code"] = "AB\x1b[2JCD\n\u202e"
    codes: list[DeviceCode] = []
    sign_in(script.url, codes.append, wait=lambda _: None)
    assert codes[0].user_code.isprintable() and "\x1b" not in codes[0].user_code


def test_redirects_are_not_followed(script: Script) -> None:
    script.answers["/elsewhere"] = [(200, {"token": "mtr_evil"})]
    for path in ("/api/v1/sign-in", "/device", "/token", "/api/v1/sign-in/exchange"):
        kept = script.answers[path]
        script.answers[path] = [(307, {})]
        with pytest.raises((SourceUnavailable, NotPermitted)):
            sign_in(script.url, lambda _: None, wait=lambda _: None)
        script.answers[path] = kept
    assert "/elsewhere" not in script.asked


@pytest.mark.each("content", [b"", b"<html>", b"[]", b"null", b"{", b'{"a":' * 2000, b" " * 300_000, {}, {"oidc": []}])
def test_answers_that_are_none_are_problems_and_no_crashes(content: Any, script: Script) -> None:
    for path in ("/api/v1/sign-in", "/device", "/api/v1/sign-in/exchange"):
        kept = script.answers[path]
        script.answers[path] = [(200, content)]
        with pytest.raises((SourceUnavailable, InvalidArgument)):
            sign_in(script.url, lambda _: None, wait=lambda _: None)
        script.answers[path] = kept
