"""Sign-in by an OpenID provider: whose ID token counts, which role it gives, and the session of the browser."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from joserfc.jwk import RSAKey
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


def test_another_group_is_another_role_at_the_next_sign_in(
    api: Api, browser: TestClient, provider: ProviderProcess
) -> None:
    sign_in(browser, provider)
    before = browser.cookies["metier_session"]
    provider.has("ada", groups=["admins"])
    sign_in(TestClient(api.app, base_url=PAGE, follow_redirects=False), provider)
    # The session that is under way has the new role too: it is that of the person.
    assert browser.get("/api/v1/session").json()["roles"] == ["admin"]
    assert browser.cookies["metier_session"] == before


def test_who_is_in_no_group_of_the_settings_is_refused_on_record(
    api: Api, browser: TestClient, provider: ProviderProcess
) -> None:
    provider.has("ada", groups=["staff"])
    assert problem_of(sign_in(browser, provider)) == (403, "sign-in-refused")
    assert "metier_session" not in browser.cookies
    assert api.scope.people.get("ada@example.com") is None
    refused = api.scope.audit.search(type="person.refused", limit=1)[0]
    assert refused["decision"] == "deny" and "ada@example.com" in refused["reason"]


def test_a_group_decides_about_the_tenant_and_leaving_it_ends_the_sessions_there(
    api: Api, browser: TestClient, provider: ProviderProcess
) -> None:
    provider.has("root", groups=["acme-admins"])
    provider.has("ada", groups=["acme"])
    sign_in(TestClient(api.app, base_url=PAGE, follow_redirects=False), provider, "root")
    sign_in(browser, provider)
    assert browser.get("/api/v1/session").json()["tenant"] == "acme"
    provider.has("ada", groups=["reviewers"])
    elsewhere = TestClient(api.app, base_url=PAGE, follow_redirects=False)
    sign_in(elsewhere, provider)
    assert elsewhere.get("/api/v1/session").json()["tenant"] == ""
    assert browser.get("/api/v1/session").status_code == 401
    provider.has("ada", groups=[])
    sign_in(browser, provider)
    assert elsewhere.get("/api/v1/session").status_code == 401


def test_a_tenant_begins_with_an_admin_and_keeps_one(api: Api, browser: TestClient, provider: ProviderProcess) -> None:
    provider.has("root", groups=["acme"])
    assert problem_of(sign_in(browser, provider, "root")) == (422, "invalid-argument")
    provider.has("root", groups=["acme-admins"])
    assert sign_in(browser, provider, "root").status_code == 303
    provider.has("root", groups=["acme"])
    assert problem_of(sign_in(browser, provider, "root")) == (403, "not-permitted")
    assert browser.get("/api/v1/session").json()["roles"] == ["admin"]
    [refused] = api.store.of("acme").audit.search(type="person.refused")
    assert "only admin" in refused["reason"]


def test_a_claim_may_lie_in_another_claim(api: Api, provider: ProviderProcess) -> None:
    oidc = api.context.settings.oidc
    assert oidc is not None
    mapping = oidc.roles[0].model_copy(update={"claim": "realm_access.roles"})
    server = Api(api.store, ServerSettings(oidc=oidc.model_copy(update={"roles": (mapping,)})))
    provider.alter({"realm_access": {"roles": ["admins"]}})
    browser = TestClient(server.app, base_url=PAGE, follow_redirects=False)
    sign_in(browser, provider)
    assert browser.get("/api/v1/session").json()["roles"] == ["admin"]


WRONG: list[tuple[str, Callable[[int], dict[str, Any]], dict[str, Any]]] = [
    ("expired", lambda now: {"exp": now - 90}, {}),
    ("from the future", lambda now: {"iat": now + 90, "exp": now + 900}, {}),
    ("not valid yet", lambda now: {"nbf": now + 90}, {}),
    ("without an end", lambda _: {"exp": None}, {}),
    ("an end that is no time", lambda _: {"exp": "never"}, {}),
    ("wrong audience", lambda _: {"aud": "another-client"}, {}),
    ("two audiences and no party", lambda _: {"aud": ["metier", "another-client"]}, {}),
    ("wrong party", lambda _: {"azp": "another-client"}, {}),
    ("no audience", lambda _: {"aud": None}, {}),
    ("wrong nonce", lambda _: {"nonce": "of another sign-in"}, {}),
    ("no nonce", lambda _: {"nonce": None}, {}),
    ("wrong issuer", lambda _: {"iss": "https://accounts.example.com"}, {}),
    ("an issuer that is a list", lambda _: {"iss": ["https://accounts.example.com"]}, {}),
    ("nobody", lambda _: {"sub": None}, {}),
    ("another access token", lambda _: {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, {}),
    ("unsigned", lambda _: {}, {"alg": "none"}),
    ("signed with what is public", lambda _: {}, {"alg": "HS256"}),
    ("an access token", lambda _: {}, {"typ": "at+jwt"}),
    ("a key that is not published", lambda _: {}, {"kid": "unknown"}),
    ("critical extension", lambda _: {}, {"crit": ["urn:example"], "urn:example": 1}),
    ("without a name", lambda _: {"email": ""}, {}),
    ("address not verified", lambda _: {"email_verified": False}, {}),
    ("a name that is a list", lambda _: {"email": ["ada@example.com"]}, {}),
    ("a name that means the program", lambda _: {"email": "policy"}, {}),
    ("the name of a node", lambda _: {"email": "node"}, {}),
]


@pytest.mark.each(("why", "claims", "header"), WRONG)
def test_an_id_token_that_is_not_as_it_must_be_does_not_count(
    why: str,
    claims: Callable[[int], dict[str, Any]],
    header: dict[str, Any],
    api: Api,
    browser: TestClient,
    provider: ProviderProcess,
) -> None:
    people = api.scope.people.all()
    provider.alter(claims(int(time.time())), **header)
    status, _ = problem_of(sign_in(browser, provider))
    assert status in (403, 422), why
    assert "metier_session" not in browser.cookies
    assert api.scope.people.all() == people


def test_clocks_may_differ_by_a_minute(browser: TestClient, provider: ProviderProcess) -> None:
    now = int(time.time())
    provider.alter({"exp": now - 30, "iat": now + 30})
    assert sign_in(browser, provider).status_code == 303


def test_a_token_that_another_key_signed_under_the_same_id_does_not_count(
    browser: TestClient, provider: ProviderProcess
) -> None:
    key = RSAKey.generate_key(2048)
    for header in ({}, {"jwk": key.as_dict(private=False)}):  # some programs take the key that a token brings along
        provider.alter_signed_by(key.as_dict(private=True), **header)
        assert problem_of(sign_in(browser, provider)) == (403, "sign-in-refused")


@pytest.mark.parametrize("keep", [True, False])
def test_keys_may_be_rotated_at_any_time(keep: bool, browser: TestClient, provider: ProviderProcess) -> None:
    assert sign_in(browser, provider).status_code == 303
    provider.rotate(keep=keep)
    assert sign_in(browser, provider).status_code == 303


def test_keys_of_other_kinds_beside_the_right_one_are_passed_over(
    browser: TestClient, provider: ProviderProcess
) -> None:
    strange = {"kty": "AKP", "alg": "ML-DSA-65", "kid": "later", "pub": "AA"}
    provider.publish(strange, {"kty": "EC", "crv": "P-256"}, {"kty": "RSA", "n": 5, "e": []}, {}, None, "key", [1])
    assert sign_in(browser, provider).status_code == 303


def test_tokens_with_unknown_keys_have_the_keys_fetched_a_few_times_only(
    browser: TestClient, provider: ProviderProcess
) -> None:
    sign_in(browser, provider)
    fetched = provider.fetches("/jwks")
    provider.alter(None, kid="unknown")
    for _ in range(9):
        sign_in(browser, provider)
    assert 0 < provider.fetches("/jwks") - fetched <= 5


def test_a_sign_in_is_finished_once_and_by_the_browser_that_began_it(
    api: Api, browser: TestClient, provider: ProviderProcess
) -> None:
    begun = browser.get("/api/v1/sign-in/oidc")
    cookie = begun.cookies["metier_sign_in"]
    back = provider.sign_in(begun.headers["location"], "ada")
    victim = TestClient(api.app, base_url=PAGE, follow_redirects=False)
    assert problem_of(victim.get(back)) == (403, "sign-in-refused")
    victim.get("/api/v1/sign-in/oidc")  # with an attempt of its own, too
    assert problem_of(victim.get(back)) == (403, "sign-in-refused")
    assert browser.get(back).status_code == 303
    browser.cookies.set("metier_sign_in", cookie, domain="localhost.local", path="/")
    assert problem_of(browser.get(back)) == (403, "sign-in-refused")


@pytest.mark.each("query", ["", "?state=x&code=y", "?error=access_denied&state=x", "?state=%00&code=%00", "?code=x"])
def test_an_answer_that_nobody_asked_for_is_refused(query: str, browser: TestClient) -> None:
    for cookie in ("", "x", "gAAAAABinvalid", "\u00fc"):
        headers = [(b"cookie", f"metier_sign_in={cookie}".encode())]
        answer = browser.get(f"/api/v1/sign-in/callback{query}", headers=headers)
        assert problem_of(answer) == (403, "sign-in-refused")


def test_a_sign_in_that_the_person_broke_off_says_so(browser: TestClient, provider: ProviderProcess) -> None:
    location = browser.get("/api/v1/sign-in/oidc").headers["location"]
    state = parse_qs(urlsplit(location).query)["state"][0]
    answer = browser.get("/api/v1/sign-in/callback", params={"error": "access_denied", "state": state})
    assert problem_of(answer) == (403, "sign-in-refused") and "access_denied" in answer.json()["detail"]


def test_the_answer_of_another_provider_is_refused(browser: TestClient, provider: ProviderProcess) -> None:
    for issuer in ("https://evil.example.com", ""):
        back = provider.sign_in(browser.get("/api/v1/sign-in/oidc").headers["location"], "ada")
        parts = urlsplit(back)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert query["iss"] == provider.issuer
        assert problem_of(browser.get(parts.path, params={**query, "iss": issuer})) == (403, "sign-in-refused")


@pytest.mark.each(
    "target",
    [
        *(
            "https://evil.test",
            "//evil.test",
            "/\\evil.test",
            "\\\\evil.test",
            "/\t/evil.test",
            "javascript:alert(1)",
            "",
        ),
        *("evil.test", "/ok\r\nSet-Cookie: a=b", " /x", "/\u2028", "@evil.test", ".evil.test", "/" + "a" * 3000),
    ],
)
def test_a_sign_in_leads_to_no_page_of_others(target: str, browser: TestClient) -> None:
    answer = browser.get("/api/v1/sign-in/oidc", params={"return_to": target})
    assert problem_of(answer) == (422, "invalid-request")


@pytest.mark.each("target", ["/", "/a//evil.test", "/%2f%2fevil.test", "/..//evil.test", "/@evil.test"])
def test_a_sign_in_leads_to_every_page_of_ours(target: str, browser: TestClient, provider: ProviderProcess) -> None:
    assert sign_in(browser, provider, return_to=target).headers["location"] == f"{PAGE}{target}"


def test_a_session_that_was_planted_in_a_browser_ends_with_its_sign_in(
    api: Api, browser: TestClient, provider: ProviderProcess
) -> None:
    planted = api.tokens["viewer"]
    browser.cookies.set("metier_session", planted, domain="localhost.local", path="/")
    assert browser.get("/api/v1/session").json()["name"] == "viewer"
    sign_in(browser, provider)
    assert browser.get("/api/v1/session").json()["name"] == "ada@example.com"
    assert api.store.by_token(planted) is None


def test_what_a_browser_changes_comes_from_our_own_page(
    api: Api, browser: TestClient, provider: ProviderProcess
) -> None:
    sign_in(browser, provider)
    token = browser.get("/api/v1/session").json()["csrf_token"]
    another = TestClient(api.app, base_url=PAGE, follow_redirects=False)
    sign_in(another, provider)
    foreign = another.get("/api/v1/session").json()["csrf_token"]
    right = {"Origin": PAGE, "X-CSRF-Token": token}
    wrong = [
        {},
        {"Origin": PAGE},
        {"X-CSRF-Token": token},
        *(
            {**right, "Origin": origin}
            for origin in ("null", "http://localhost:81", "https://localhost", "http://evil.test", "")
        ),
        *({**right, "X-CSRF-Token": sent} for sent in ("", foreign, token.upper(), token[:-1])),
    ]
    for headers in wrong:
        assert problem_of(browser.delete("/api/v1/session", headers=headers)) == (403, "foreign-page"), headers
    assert browser.delete("/api/v1/session", headers=right).status_code == 204
    assert "metier_session" not in browser.cookies
    assert another.get("/api/v1/session").status_code == 200


def test_to_sign_out_is_the_end_of_the_session_for_every_copy_of_the_cookie(
    api: Api, browser: TestClient, provider: ProviderProcess
) -> None:
    sign_in(browser, provider)
    secret = browser.cookies["metier_session"]
    answer = browser.delete("/api/v1/session", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 204
    assert api.store.by_token(secret) is None


def test_nobody_signs_in_over_plain_http_except_on_this_machine(api: Api) -> None:
    browser = TestClient(api.app, base_url="http://skills.example.com", follow_redirects=False)
    body = {"id_token": "x"}
    for answer in (
        browser.get("/api/v1/sign-in/oidc"),
        browser.get("/api/v1/sign-in/callback"),
        browser.post("/api/v1/sign-in/exchange", json=body),
    ):
        assert problem_of(answer) == (403, "insecure-sign-in")


def test_behind_a_proxy_with_tls_cookies_travel_over_tls_alone(api: Api, settings: ServerSettings) -> None:
    public = ServerSettings.model_validate({**settings.model_dump(), "public_url": "https://skills.example.com"})
    server = Api(api.store, public)
    browser = TestClient(server.app, base_url="http://10.0.0.5:8400", follow_redirects=False)
    begun = browser.get("/api/v1/sign-in/oidc")
    asked = parse_qs(urlsplit(begun.headers["location"]).query)
    assert asked["redirect_uri"] == ["https://skills.example.com/api/v1/sign-in/callback"]
    assert asked["code_challenge_method"] == ["S256"]
    assert begun.headers["set-cookie"].startswith("__Host-metier_sign_in=")
    assert "Secure" in begun.headers["set-cookie"] and "Path=/;" in begun.headers["set-cookie"]
    # Another host of the domain could have set a cookie without the prefix.
    planted = {"Cookie": f"metier_session={api.tokens['viewer']}"}
    assert browser.get("/api/v1/session", headers=planted).status_code == 401
    own = {"Cookie": f"__Host-metier_session={api.tokens['viewer']}"}
    token = browser.get("/api/v1/session", headers=own).json()["csrf_token"]
    page = {**own, "X-CSRF-Token": token}
    for origin, status in (("http://10.0.0.5:8400", 403), ("https://skills.example.com", 204)):
        assert browser.delete("/api/v1/session", headers={**page, "Origin": origin}).status_code == status


def test_the_cookie_of_an_attempt_tells_nothing(browser: TestClient) -> None:
    begun = browser.get("/api/v1/sign-in/oidc")
    asked = parse_qs(urlsplit(begun.headers["location"]).query)
    cookie = begun.cookies["metier_sign_in"]
    content = base64.urlsafe_b64decode(cookie.strip('"'))
    for secret in (asked["state"][0], asked["nonce"][0], "return_to"):
        assert secret.encode() not in content and secret not in cookie


def test_a_client_with_a_secret_reads_it_from_its_file(api: Api, tmp_path: Path, provider: ProviderProcess) -> None:
    file = tmp_path / "secret"
    file.write_text("a secret of the web client\n")
    oidc = {"issuer": provider.issuer, "client_id": "metier-secret", "client_secret_file": file, "roles": ROLES}
    server = Api(api.store, ServerSettings.model_validate({"oidc": oidc}))
    browser = TestClient(server.app, base_url=PAGE, follow_redirects=False)
    assert sign_in(browser, provider).status_code == 303
    # No command line could keep that secret.
    assert browser.get("/api/v1/sign-in").json()["oidc"]["client_id"] == ""
    file.write_text("another")
    assert problem_of(sign_in(browser, provider)) == (403, "sign-in-refused")
    file.unlink()
    assert problem_of(browser.get("/api/v1/sign-in/oidc")) == (502, "provider-unavailable")


def test_claims_that_the_provider_gives_only_when_asked_are_asked_for(api: Api) -> None:
    with running(conform=True) as provider:
        provider.has("ada", groups=["reviewers"])
        oidc = {"issuer": provider.issuer, "client_id": "metier", "roles": ROLES}
        server = Api(api.store, ServerSettings.model_validate({"oidc": oidc}))
        browser = TestClient(server.app, base_url=PAGE, follow_redirects=False)
        assert sign_in(browser, provider).status_code == 303
        assert browser.get("/api/v1/session").json()["roles"] == ["reviewer"]
        provider.alter({"sub": "root"})
        assert problem_of(sign_in(browser, provider)) == (403, "sign-in-refused")


def test_a_provider_that_is_not_there_is_a_problem_of_its_own(api: Api, provider: ProviderProcess) -> None:
    with running() as gone:
        issuer = gone.issuer
    for wrong in (issuer, f"{provider.issuer}/elsewhere", provider.issuer.replace("127.0.0.1", "localhost")):
        oidc = {"issuer": wrong, "client_id": "metier", "roles": ROLES}
        server = Api(api.store, ServerSettings.model_validate({"oidc": oidc}))
        browser = TestClient(server.app, base_url=PAGE, follow_redirects=False)
        for path in ("/api/v1/sign-in", "/api/v1/sign-in/oidc"):
            assert problem_of(browser.get(path)) == (502, "provider-unavailable")


def test_without_a_provider_there_are_tokens(api: Api) -> None:
    browser = TestClient(Api(api.store, ServerSettings()).app, base_url=PAGE, follow_redirects=False)
    assert browser.get("/api/v1/sign-in").json() == {"methods": ["token"], "oidc": None}
    assert problem_of(browser.get("/api/v1/sign-in/oidc")) == (404, "no-provider")
    assert problem_of(browser.post("/api/v1/sign-in/exchange", json={"id_token": "x"})) == (404, "no-provider")


ALGORITHMS: list[object] = [["RS256"], {}, None, "rs256", "RS256 ", "", 256, "A256KW", "dir"]
KEY_IDS: list[object] = [{}, [], 5, None, "../../dev/null", "x" * 9000]
HEADERS: list[object] = [
    *({"alg": one} for one in ALGORITHMS),
    *({"alg": "RS256", "kid": one} for one in KEY_IDS),
    {"alg": "RS256", "crit": "x"},
    {"alg": "RS256", "crit": ["b64"], "b64": False},
    {"alg": "RS256", "jku": "http://127.0.0.1:1/jwks"},
    {"alg": "HS256", "jwk": {"kty": "oct", "k": "AA"}},
    {"alg": "RS256", "enc": "A256GCM", "zip": "DEF"},
    [[]],
    "RS256",
]


class TestExchange:
    """The proof of a command line, exchanged for a token."""

    def test_it_is_worth_a_token_of_the_person(self, api: Api, browser: TestClient, provider: ProviderProcess) -> None:
        answer = browser.post("/api/v1/sign-in/exchange", json=provider.prove_on_device("ada"))
        assert answer.status_code == 201
        found = api.store.by_token(answer.json()["token"])
        assert found is not None and found[1].title == "user ada@example.com: reviewer"
        [token] = [one for one in api.scope.people.tokens() if one.person == "ada@example.com"]
        assert (token.label, token.expires_at) == ("command line", answer.json()["expires_at"])

    def test_it_counts_once_however_its_signature_is_written(
        self, browser: TestClient, provider: ProviderProcess
    ) -> None:
        proof = provider.prove_on_device("ada")
        assert browser.post("/api/v1/sign-in/exchange", json=proof).status_code == 201
        token = proof["id_token"]
        for again in (token, f"{token}=", f"{token}==", f"{token[:-1]}{'B' if token[-1] == 'A' else 'A'}", f"{token}A"):
            answer = browser.post("/api/v1/sign-in/exchange", json={**proof, "id_token": again})
            assert problem_of(answer) == (403, "sign-in-refused"), again

    def test_it_counts_once_for_two_who_send_it_at_once(self, browser: TestClient, provider: ProviderProcess) -> None:
        proof = provider.prove_on_device("ada")
        with ThreadPoolExecutor(4) as pool:
            sent = [pool.submit(browser.post, "/api/v1/sign-in/exchange", json=proof) for _ in range(4)]
        assert sorted(one.result().status_code for one in sent) == [201, 403, 403, 403]

    def test_the_proof_of_another_program_or_of_a_browser_counts_for_nothing(
        self, browser: TestClient, provider: ProviderProcess
    ) -> None:
        wrong: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({"aud": "metier"}, {}),
            ({"aud": "metier", "azp": "metier-cli"}, {}),
            ({"nonce": "of a browser"}, {}),
            ({"exp": int(time.time()) - 90}, {}),
            ({"iat": int(time.time()) - 720}, {}),
            ({"iss": "https://accounts.example.com"}, {}),
            ({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, {}),
            ({}, {"alg": "none"}),
            ({}, {"alg": "HS256"}),
        ]
        for claims, header in wrong:
            provider.alter(claims, **header)
            answer = browser.post("/api/v1/sign-in/exchange", json=provider.prove_on_device("ada"))
            assert problem_of(answer) == (403, "sign-in-refused"), (claims, header)

    @pytest.mark.each(
        "token", ["x", "..", "a.b.c", "e30.e30.", "\0", "ü.ü.ü", "." * 30_000, "eyJhbGciOiJub25lIn0.e30."]
    )
    def test_what_is_no_token_is_refused(self, token: str, browser: TestClient) -> None:
        answer = browser.post("/api/v1/sign-in/exchange", json={"id_token": token})
        assert problem_of(answer) == (403, "sign-in-refused")

    @pytest.mark.each("header", HEADERS)
    def test_no_header_makes_a_signature_right(self, header: Any, browser: TestClient) -> None:
        parts = (json.dumps(header).encode(), b'{"sub": "ada", "iss": "x"}', b"signature")
        assert exchanging(browser, parts) == (403, "sign-in-refused")

    def test_a_header_without_end_is_refused_as_well(self, browser: TestClient) -> None:
        for header in (b"[" * 20_000, b'{"a":' * 4_000, b'{"alg": ' + b"9" * 9_000 + b"}"):
            assert exchanging(browser, (header, b"{}", b"signature")) == (403, "sign-in-refused")

    def test_people_leave_by_their_groups_from_command_lines_too(
        self, api: Api, browser: TestClient, provider: ProviderProcess
    ) -> None:
        token = browser.post("/api/v1/sign-in/exchange", json=provider.prove_on_device("ada")).json()["token"]
        provider.has("ada", groups=["staff"])
        answer = browser.post("/api/v1/sign-in/exchange", json=provider.prove_on_device("ada"))
        assert problem_of(answer) == (403, "sign-in-refused")
        assert api.store.by_token(token) is None


def test_the_settings_of_the_page_about_it_are_settings() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/sign-in.md").read_text("utf-8")
    found = ServerSettings.model_validate(yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0]))
    assert found.is_secure and found.oidc is not None
    assert [one.claim for one in found.oidc.roles] == ["groups", "realm_access.roles", "groups", "groups"]


def exchanging(browser: TestClient, parts: Sequence[bytes]) -> tuple[int, str]:
    """The problem of a command line that sends a token of these parts."""
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    return problem_of(browser.post("/api/v1/sign-in/exchange", json={"id_token": token}))


def problem_of(answer: Any) -> tuple[int, str]:
    """The status and the code of a problem."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["code"]
