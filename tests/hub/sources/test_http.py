"""Downloads: redirects, credentials, proxies, certificates, progress and errors."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hub.sources.loopback import Site, answer, serving

from metier.errors import InvalidArgument, SourceUnavailable
from metier.hub.sources.fetch import Transfer
from metier.hub.sources.http import HttpClient, joined

HELLO = answer(b"hello", "text/plain")


def get(url: str, path: str = "/a", transfer: Transfer | None = None) -> bytes:
    return HttpClient(url, transfer or Transfer()).get(url + path, "a file").body


def sent(site: Site, header: str) -> list[str]:
    """The values that requests had for a header, empty where they had none."""
    lines = [dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line) for _, head in site.requests]
    return [line.get(header, "") for line in lines]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 and skills.example, with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    today = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName(
        [x509.DNSName("skills.example"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + built.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def secure(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site with https whose certificate is believed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    # Other tests keep the first context that was made; here it must follow the variable.
    made = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", getattr(made, "__wrapped__", made))
    with serving(context=context) as site:
        yield site


def test_a_file_comes_over_https_as_it_is(secure: Site) -> None:
    secure.answers["/a"] = HELLO
    assert get(secure.url) == b"hello"
    assert sent(secure, "Accept-Encoding") == ["identity"]


def test_a_certificate_that_nobody_vouches_for_is_refused(secure: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    secure.answers["/a"] = HELLO
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(SourceUnavailable, match="self-signed"):
        get(secure.url)
    assert not secure.requests


def test_https_never_becomes_http(secure: Site, site: Site) -> None:
    site.answers["/a"] = HELLO
    secure.answers["/a"] = answer(status="302 Found", Location=f"{site.url}/a")
    with pytest.raises(SourceUnavailable, match="not followed"):
        get(secure.url)
    assert not site.requests


def test_five_redirects_are_followed(site: Site) -> None:
    for number in range(5):
        site.answers[f"/{number}"] = answer(status="307 Temporary Redirect", Location=str(number + 1))
    site.answers["/5"] = HELLO
    assert get(site.url, "/0") == b"hello"


def test_policy_is_asked_about_every_place_that_a_redirect_leads_to(site: Site) -> None:
    asked: list[str] = []
    transfer = Transfer(permit=lambda one, is_way=False: asked.append(f"{one.name} {is_way}"))
    place = site.url.replace("127.0.0.1", "[0:0::1]")
    site.answers["/a"] = answer(status="302 Found", Location="/evil/b?key=1")
    site.answers["/evil/b?key=1"] = answer(status="302 Found", Location=f"{place}/c")
    with contextlib.suppress(SourceUnavailable):
        HttpClient(site.url, transfer).get(f"{site.url}/a", "a file")
    assert f"archive+{site.url}/evil/b True" in asked
    assert f"archive+{place.replace('0:0::', '::')}/c True" in asked


@pytest.mark.each("url", ["http://example.com/a", "http://192.168.0.1/a", "http://127.0.0.1.example.com/a"])
def test_plain_http_is_for_this_machine_alone(url: str) -> None:
    with pytest.raises(InvalidArgument, match="in the open"):
        get(url, "")


@pytest.mark.each(
    "url",
    [
        "ftp://example.com/a",
        "file:///etc/passwd",
        "https://",
        "https://ex ample.com/a",
        "https://example.com:99999/a",
        "https://[::1/a",
        "https://exa\x00mple.com/",
        "https://0x7f.1/a",
        "//example.com/a",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument):
        get(url, "")


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidArgument) as raised:
        get("https://user:secret@example.com/a", "")
    assert "secret" not in str(raised.value)


@pytest.mark.each(
    ("base", "reference", "expected"),
    [
        ("https://a.example/x/index.json", "../y.zip", "https://a.example/y.zip"),
        ("https://a.example/x/index.json", "//b.example/y.zip", "https://b.example/y.zip"),
        ("https://a.example/x/index.json", "/y.zip?a=1", "https://a.example/y.zip?a=1"),
        ("http://localhost/x", "https://b.example/y", "https://b.example/y"),
        ("https://a.example/x", "HTTPS://b.example/y", "https://b.example/y"),
    ],
)
def test_addresses_are_relative_to_where_they_are_named(base: str, reference: str, expected: str) -> None:
    assert joined(base, reference) == expected


def test_a_token_goes_to_its_host_alone(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METIER_REGISTRY_TOKENS", "other.example=wrong 127.0.0.1=s3cret 127.0.0.2=theirs")
    with serving("127.0.0.2") as other:
        other.answers["/b"] = HELLO
        site.answers["/a"] = answer(status="302 Found", Location=f"{other.url}/b")
        found = HttpClient(site.url, Transfer()).get(f"{site.url}/a", "a file")
        assert found.body == b"hello"
        assert sent(site, "Authorization") == ["Bearer s3cret"]
        assert sent(other, "Authorization") == [""], "not even its own, because nobody asked for that host"
    assert "127.0.0.2" in found.warnings[0]


def test_a_token_is_for_one_port_where_it_names_one(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.answers["/a"] = HELLO
    monkeypatch.setenv("METIER_REGISTRY_TOKENS", "127.0.0.1:1=s3cret")
    get(site.url)
    monkeypatch.setenv("METIER_REGISTRY_TOKENS", site.url.removeprefix("http://") + "=s3cret")
    get(site.url)
    assert sent(site, "Authorization") == ["", "Bearer s3cret"]


@pytest.mark.each(
    ("text", "expected"),
    [
        ("machine 127.0.0.1 login ada password s3cret", "Basic YWRhOnMzY3JldA=="),
        ("machine localhost login ada password s3cret", ""),
        ("default login ada password s3cret", ""),
        ("machine 127.0.0.1 login", ""),
    ],
)
def test_credentials_come_from_netrc_for_exactly_that_host(clean: Path, site: Site, text: str, expected: str) -> None:
    site.answers["/a"] = HELLO
    (clean / ".netrc").write_text(text)
    (clean / ".netrc").chmod(0o600)
    get(site.url)
    assert sent(site, "Authorization")[-1] == expected


def test_tokens_that_name_no_host_are_an_error(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METIER_REGISTRY_TOKENS", "s3cret")
    with pytest.raises(InvalidArgument, match="METIER_REGISTRY_TOKENS") as raised:
        get(site.url)
    assert "s3cret" not in str(raised.value)


def test_a_query_is_sent_and_not_shown(site: Site) -> None:
    with pytest.raises(SourceUnavailable) as raised:
        get(site.url, "/a?key=s3cret")
    assert site.paths() == ["/a?key=s3cret"]
    assert "s3cret" not in str(raised.value)


@pytest.mark.each(
    ("status", "kind", "body", "says"),
    [
        ("409 Conflict", "application/problem+json", b'{"title":"Taken","detail":"1.0 is there"}', r"409 \(Taken: 1.0"),
        ("403 Forbidden", "application/json", b'{"title":["no text"]}', "answered 403"),
        ("500 Oops", "application/problem+json", b"{", "answered 500"),
        ("500 Oops", "text/html", b"<script>alert(1)</script>", "answered 500"),
        ("206 Partial Content", "text/plain", b"hel", "answered 206"),
        ("304 Not Modified", "text/plain", b"", "answered 304"),
        ("302 Found", "text/plain", b"", "answered 302"),
    ],
)
def test_an_error_tells_the_status_and_the_problem(site: Site, status: str, kind: str, body: bytes, says: str) -> None:
    site.answers["/a"] = answer(body, kind, status)
    with pytest.raises(SourceUnavailable, match=says) as raised:
        get(site.url)
    assert "<script>" not in raised.value.message


def test_a_missing_token_is_what_the_hint_names(site: Site) -> None:
    site.answers["/a"] = answer(b"", status="401 Unauthorized")
    with pytest.raises(SourceUnavailable) as raised:
        get(site.url)
    assert "METIER_REGISTRY_TOKENS" in str(raised.value.hint)


def test_progress_is_told_with_the_length_that_is_declared(site: Site) -> None:
    told: list[tuple[str, int, int | None]] = []
    site.answers["/a"] = answer(b"x" * 100_000)
    get(site.url, transfer=Transfer(progress=lambda *what: told.append(what)))
    assert told[-1] == ("a file", 100_000, 100_000)
    assert len(told) > 1


def test_a_server_that_is_not_there_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(SourceUnavailable, match="refused"):
            get(f"http://127.0.0.1:{free.getsockname()[1]}")


def test_a_server_that_keeps_the_connection_open_has_answered_all_the_same(site: Site) -> None:
    def keep_open(connection: socket.socket) -> None:
        connection.sendall(HELLO)
        site.closing.wait(10)

    site.answers["/a"] = keep_open
    assert get(site.url, transfer=Transfer(seconds=0.3)) == b"hello"


def test_the_usual_port_is_no_part_of_an_origin() -> None:
    assert HttpClient("https://Example.com:443/a", Transfer()).origin == "https://example.com"


def test_a_proxy_of_the_environment_is_asked_for_the_host(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", site.url.replace("http://", "http://ada:s3cret@"))
    site.answers["skills.example:443"] = answer(b"", status="407 Proxy Authentication Required")
    with pytest.raises(SourceUnavailable, match=r"the proxy .* answered 407"):
        get("https://skills.example")
    assert sent(site, "Proxy-Authorization") == ["Basic YWRhOnMzY3JldA=="]


def test_a_file_comes_through_a_proxy_and_the_proxy_sees_nothing_of_it(
    secure: Site, site: Site, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside: list[bytes] = []

    def tunnel(connection: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with context.wrap_socket(connection, server_side=True) as other:
            inside.append(other.recv(65_536))
            other.sendall(HELLO)

    monkeypatch.setenv("https_proxy", site.url)
    monkeypatch.setenv("METIER_REGISTRY_TOKENS", "skills.example=s3cret")
    site.answers["skills.example:443"] = tunnel
    assert get("https://skills.example") == b"hello"
    assert b"Authorization: Bearer s3cret" in inside[0]
    assert "s3cret" not in site.requests[0][1]


def test_a_name_of_this_machine_that_leads_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: elsewhere)
    with pytest.raises(SourceUnavailable, match="only with this machine"):
        get("http://localhost")


def test_no_proxy_stands_before_this_machine(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://192.0.2.1:9")
    monkeypatch.setenv("all_proxy", "http://192.0.2.1:9")
    site.answers["/a"] = HELLO
    assert get(site.url) == b"hello"


def test_a_proxy_of_another_kind_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://user:s3cret@proxy.example:1080")
    with pytest.raises(InvalidArgument, match=r"proxy\.example:1080") as raised:
        get("https://skills.example")
    assert "s3cret" not in str(raised.value)
