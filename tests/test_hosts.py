"""A list of hosts means the hosts that a reader of it would expect, and names lead nowhere private."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier._hosts import (
    HostList,
    canonical_host,
    checked_hosts,
    is_address,
    is_public_address,
    split_authority,
)
from metier.errors import InvalidArgument


@pytest.mark.each(
    ("entry", "canonical"),
    [
        ("example.com", "example.com"),
        ("EXAMPLE.com.", "example.com"),
        ("*.Example.com", "*.example.com"),
        ("example.com:8443", "example.com:8443"),
        ("*.example.com:1", "*.example.com:1"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER。example", "xn--bcher-kva.example"),
        ("my_bucket.example.com", "my_bucket.example.com"),
        ("localhost", "localhost"),
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1:80", "10.0.0.1:80"),
        ("127.0.0.1.", "127.0.0.1"),
        ("::1", "[::1]"),
        ("[0::0:1]:443", "[::1]:443"),
        ("1.example", "1.example"),
    ],
)
def test_entries_are_kept_in_one_form(entry: str, canonical: str) -> None:
    assert checked_hosts([entry]) == (canonical,)


@pytest.mark.each(
    "entry",
    [
        "", " ", ".", "..", "*", "*.", "**", "*.*.com", "a.*.com", "*example.com", "example.*", "https://example.com",
        "http://example.com/", "example.com/path", "//example.com", "example.com:", "example.com:0",
        "example.com:65536", "example.com:443:443", "example.com:https", "example.com:-1", "example.com:٣", "a b.com",
        " example.com", "example.com\n", "exa\0mple.com", "user@example.com", "example..com", ".example.com",
        "-example.com", "example-.com", "example.com?x", "example.com#x", "exa%6dple.com", "a" * 64 + ".com",
        "a." * 200 + "com", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "1.2.3.4.5", "*.1",
        "*.127.0.0.1", "256.1.1.1", "[::1", "::1]", "[::1%eth0]", "fe80::1%1", "[example.com]", "*.[::1]", "0.0.0.0",
        "::", "224.0.0.1", "faß.example", "\ud800.com", None, 5, b"example.com",
    ],
)  # fmt: skip
def test_what_is_no_host_is_refused_and_named(entry: Any) -> None:
    with pytest.raises(InvalidArgument) as raised:
        checked_hosts(["fine.example", entry])
    assert raised.value.hint
    assert len(raised.value.message) < 600


def test_a_text_is_no_list() -> None:
    for hosts in ("example.com", b"example.com"):
        with pytest.raises(InvalidArgument):
            checked_hosts(hosts)  # type: ignore[arg-type]


def test_a_list_is_bounded_and_names_nobody_twice() -> None:
    assert checked_hosts(["a.example", "A.example."]) == ("a.example",)
    with pytest.raises(InvalidArgument, match="too many"):
        checked_hosts([f"{at}.example" for at in range(257)])


@pytest.mark.each(
    ("entry", "host", "port", "match"),
    [
        ("example.com", "example.com", 443, "listed"),
        ("example.com", "example.com", 80, "port"),
        ("example.com:80", "example.com", 80, "listed"),
        ("example.com:80", "example.com", 443, "port"),
        ("example.com", "www.example.com", 443, "not-listed"),
        ("example.com", "example.com.evil.org", 443, "not-listed"),
        ("*.example.com", "www.example.com", 443, "listed"),
        ("*.example.com", "a.b.example.com", 443, "listed"),
        ("*.example.com", "example.com", 443, "not-listed"),
        ("*.example.com", "evilexample.com", 443, "not-listed"),
        ("*.example.com:8443", "www.example.com", 443, "port"),
        ("10.0.0.1", "10.0.0.1", 443, "listed"),
        ("10.0.0.1", "10.0.0.10", 443, "not-listed"),
        ("127.0.0.1", "::ffff:7f00:1", 443, "not-listed"),
        ("::1", "::1", 443, "listed"),
    ],
)
def test_an_entry_covers_exactly_what_it_says(entry: str, host: str, port: int, match: str) -> None:
    assert HostList([entry]).match(host, port, {443}) == match


def test_any_of_several_entries_is_enough() -> None:
    hosts = HostList(["example.com:8080", "*.example.com", "example.com"])
    assert hosts.match("example.com", 8080, {443}) == hosts.match("example.com", 443, {443}) == "listed"


def test_an_empty_list_is_nobody() -> None:
    assert HostList([]).match("example.com", 443, {443}) == "not-listed"


@given(st.text(max_size=300))
def test_any_text_is_a_host_in_its_one_form_or_refused(text: str) -> None:
    try:
        host = canonical_host(text)
    except ValueError:
        return
    assert canonical_host(f"[{host}]" if ":" in host else host) == host
    assert host == host.lower()
    assert host.isascii()
    assert not set(host) & set("/@%?# \\\r\n\t*[]")


@given(st.text(max_size=60))
def test_any_text_is_an_authority_or_refused(text: str) -> None:
    try:
        _, port = split_authority(text)
    except ValueError:
        return
    assert port is None or 0 < port < 65_536


@given(st.from_regex(r"[0-9xa-f.]{1,20}", fullmatch=True))
def test_what_a_resolver_could_take_for_an_address_has_one_form(text: str) -> None:
    try:
        host = canonical_host(text)
    except ValueError:
        return
    if is_address(host):
        assert host == text.removesuffix(".")
    else:
        assert not host.rpartition(".")[2].isdigit()


@pytest.mark.each(
    "address",
    [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.254", "127.0.0.1", "127.255.255.254",
        "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1",
        "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.255", "240.0.0.1",
        "255.255.255.255", "168.63.129.16", "::", "::1", "::7f00:1", "fe80::1", "fe80::1%lo", "fc00::1",
        "fd00:ec2::254", "fec0::1",
        "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::10.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2002:808:808::1", "2001::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "2001:20::1", "3fff::1", "100::1", "5f00::1", "4000::1",
        "", "example.com", "127.1", "1.1.1.1 ", "0x7f.1",
    ],
)  # fmt: skip
def test_no_name_leads_to_a_private_address(address: str) -> None:
    assert not is_public_address(address)


@pytest.mark.each(
    "address",
    [
        "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.255.255", "172.32.0.1", "193.0.0.1",
        "223.255.255.255", "2606:4700:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
    ],
)  # fmt: skip
def test_a_name_leads_to_the_open_internet(address: str) -> None:
    assert is_public_address(address)


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("unshare"), reason="needs a network of its own")
def test_an_address_of_this_machine_is_not_the_open_internet() -> None:
    script = """
import fcntl, socket, struct
from metier._hosts import is_public_address
lo = struct.pack("16sH2s4s8s", b"lo", socket.AF_INET, bytes(2), socket.inet_aton("8.8.4.4"), bytes(8))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh22s", b"lo", 1, bytes(22)))
    before = is_public_address("8.8.4.4")
    fcntl.ioctl(s, 0x8916, lo)
print(before, is_public_address("8.8.4.4"), is_public_address("::ffff:8.8.4.4"))
"""
    unshare = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("there are no user namespaces here")
    done = subprocess.run([*unshare, sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True False False\n", "")
