"""Addresses of what is fetched over HTTP, and the names that policies know them by."""

from __future__ import annotations

import pytest

from metier.errors import InvalidArgument
from metier.hub.sources.address import parse_address

DIGEST = "0" * 64


@pytest.mark.each(
    ("text", "name", "ref", "path"),
    [
        ("https://example.com", "well-known:example.com", "", ""),
        ("https://Example.COM.:443/", "well-known:example.com", "", ""),
        ("https://example.com:8443/team", "well-known:example.com:8443/team", "", ""),
        ("https://example.com/.well-known/agent-skills/index.json", "well-known:example.com", "", ""),
        ("https://example.com/.well-known/agent-skills/pdf/SKILL.md", "well-known:example.com", "", "pdf"),
        ("https://example.com/team/.well-known/skills/pdf", "well-known:example.com/team", "", "pdf"),
        ("https://example.com?x=1#pdf", "well-known:example.com", "", "pdf"),
        ("https://bücher.example", "well-known:xn--bcher-kva.example", "", ""),
        ("http://127.0.0.1:8000", "well-known+http://127.0.0.1:8000", "", ""),
        ("http://[::1]:80", "well-known+http://[::1]", "", ""),
        ("https://EXAMPLE.com/Pdf.ZIP", "archive+https://example.com/Pdf.ZIP", "", ""),
        ("https://example.com/a.tar.gz?x=1", "archive+https://example.com/a.tar.gz?x=1", "", ""),
        (f"https://example.com/a.skill#sha256={DIGEST}", "archive+https://example.com/a.skill", f"sha256:{DIGEST}", ""),
        ("https://example.com/a.zip#skills/pdf", "archive+https://example.com/a.zip", "", "skills/pdf"),
        ("apm+https://Example.com/api/acme/skills@1.2", "apm+https://example.com/api/acme/skills", "1.2", ""),
    ],
)
def test_an_address_has_one_name(text: str, name: str, ref: str, path: str) -> None:
    address = parse_address(text)
    assert (address.name, address.ref, address.path) == (name, ref, path)
    again = parse_address(address.name)
    assert (again.kind, again.location) == (address.kind, address.location)


@pytest.mark.each(
    "text",
    [
        "https://user:secret@example.com",
        "https://user@example.com/a.zip",
        "archive+https://token@example.com/a",
        "apm+https://user:secret@example.com/acme/skills",
        "https://0x7f000001/",
        "https://127.1/a.zip",
        "https://exa mple.com",
        "https://[::1",
        "https:///a.zip",
        "https://example.com:0/a.zip",
        "https://example.com/.well-known/openid-configuration",
        "https://example.com/a.zip#../../x",
        "well-known:",
        "file:///srv/skills",
        "archive+file:///srv/a.zip",
        "ftp://example.com/a.zip",
    ],
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        parse_address(text)
    assert "secret@" not in raised.value.message
