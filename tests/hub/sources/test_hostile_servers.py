"""Servers and archives that lie: each gets a clear error, through the same two functions that `metier add` calls.

A case is a function that prepares a site and returns the address that somebody adds; behind it, the error and a part of
what it says.
"""

from __future__ import annotations

import gzip
import io
import itertools
import socket
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.hub.sources.loopback import Site, answer, as_json, digest, serving, skill_text, tarred, zipped

from metier.errors import ArchiveRefused, IntegrityFailed, MetierError, SkillInvalid, SourceUnavailable
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Transfer, fetch, resolve

ARCHIVE = zipped({"pdf/SKILL.md": skill_text(), "pdf/more.md": b"More." * 1_000})
SMALL = Transfer(max_bytes=200_000)
QUICK = Transfer(max_bytes=200_000, seconds=0.3)
SLOW = "took too long"
Case = Callable[[Site], str]


def read_all(url: str, transfer: Transfer = SMALL) -> None:
    with fetch(resolve(parse_address(url), transfer), transfer) as found:
        for candidate in found.candidates:
            candidate.skill_file()
            candidate.files()


def served(given: bytes | Callable[[socket.socket], None], path: str = "/pdf.zip") -> Case:
    """A site that gives this answer for an archive."""

    def prepare(site: Site) -> str:
        site.answers[path] = given
        return site.url + path

    return prepare


def archived(data: bytes, suffix: str = ".zip") -> Case:
    return served(answer(data), f"/pdf{suffix}")


def indexed(text: bytes) -> Case:
    def prepare(site: Site) -> str:
        site.answers[INDEX] = text if text.startswith(b"HTTP/") else answer(text, "application/json")
        return site.url

    return prepare


def redirected(*places: str) -> Case:
    """A chain of redirects, of which a place without a scheme is one of the same site."""

    def prepare(site: Site) -> str:
        for number, place in enumerate(places):
            site.answers[f"/{number}.zip"] = answer(status="302 Found", Location=place)
        site.answers["/end.zip"] = answer(ARCHIVE)
        return f"{site.url}/0.zip"

    return prepare


def versions(*listed: object, download: bytes = ARCHIVE) -> Case:
    """A registry of APM with these versions, all of which have one archive."""

    def prepare(site: Site) -> str:
        base = "/api/v1/packages/acme/skills/versions"
        site.answers[base] = as_json({"package": "acme/skills", "versions": listed})
        for one in listed:
            if isinstance(one, dict):
                site.answers[f"{base}/{one.get('version')}/download"] = answer(download, "application/zip")
        return f"apm+{site.url}/api/acme/skills"

    return prepare


def endless(first: bytes, pieces: Iterable[bytes]) -> Case:
    """Send pieces until the other side has enough."""

    def send(connection: socket.socket) -> None:
        connection.sendall(first)
        for piece in pieces:
            connection.sendall(piece)

    return served(send)


def trickled(first: bytes, piece: bytes) -> Case:
    """Send a piece every few milliseconds, always within any limit for a single read."""

    def prepare(site: Site) -> str:
        def send(connection: socket.socket) -> None:
            connection.sendall(first)
            while not site.closing.wait(0.02):
                connection.sendall(piece)

        site.answers["/pdf.zip"] = send
        return f"{site.url}/pdf.zip"

    return prepare


INDEX = "/.well-known/agent-skills/index.json"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SERVERS: list[tuple[str, Case, type[MetierError], str]] = [
    (
        "declares more than it sends",
        served(answer(ARCHIVE, Content_Length=len(ARCHIVE) + 1)),
        SourceUnavailable,
        "another length",
    ),
    (
        "declares less than it sends",
        served(answer(ARCHIVE, Content_Length=len(ARCHIVE) - 1)),
        SourceUnavailable,
        "another length",
    ),
    (
        "declares two lengths",
        served(HEAD + b"Content-Length: 5\r\nContent-Length: 9\r\n\r\nhello"),
        SourceUnavailable,
        "two ways",
    ),
    ("declares a length below nothing", served(answer(ARCHIVE, Content_Length=-1)), SourceUnavailable, "two ways"),
    (
        "declares a length that is no number",
        served(answer(ARCHIVE, Content_Length="many")),
        SourceUnavailable,
        "two ways",
    ),
    (
        "declares a length and chunks",
        served(answer(b"0\r\n\r\n", Transfer_Encoding="chunked")),
        SourceUnavailable,
        "two ways",
    ),
    ("declares 100 GB", served(answer(ARCHIVE, Content_Length=10**11)), SourceUnavailable, "more than 200,000 bytes"),
    (
        "sends without end and declares nothing",
        endless(HEAD + b"\r\n", itertools.repeat(b"x" * 65_536)),
        SourceUnavailable,
        "more than 200,000 bytes",
    ),
    (
        "sends chunks without end",
        endless(CHUNKED, itertools.repeat(b"ffff\r\n" + b"x" * 65_535 + b"\r\n")),
        SourceUnavailable,
        "more than",
    ),
    ("sends chunks of no length that is a number", served(CHUNKED + b"hello\r\n"), SourceUnavailable, "no proper HTTP"),
    (
        "sends a chunk of a length below nothing",
        endless(CHUNKED + b"-1\r\n", itertools.repeat(b"x" * 65_536)),
        SourceUnavailable,
        "was not fetched",
    ),
    ("cuts off its chunks", served(CHUNKED + b"ff\r\nabc"), SourceUnavailable, "no proper HTTP"),
    (
        "sends trailers without end",
        endless(CHUNKED + b"0\r\n", itertools.repeat(b"x: y\r\n" * 9_999)),
        SourceUnavailable,
        "more than it may|no proper HTTP",
    ),
    (
        "sends headers without end",
        endless(HEAD, (f"x-{n}: y\r\n".encode() for n in itertools.count())),
        SourceUnavailable,
        "no proper HTTP",
    ),
    (
        "sends one header without end",
        endless(HEAD + b"x: ", itertools.repeat(b"y" * 65_536)),
        SourceUnavailable,
        "was not fetched",
    ),
    (
        "says to go on without end",
        endless(b"", itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 999)),
        SourceUnavailable,
        "more than it may|no proper HTTP",
    ),
    ("speaks another protocol", served(b"SSH-2.0-OpenSSH_9.6\r\n"), SourceUnavailable, "no proper HTTP"),
    ("says nothing at all", served(b""), SourceUnavailable, "no proper HTTP"),
    ("never ends its headers", trickled(HEAD, b"x: y\r\n"), SourceUnavailable, SLOW),
    ("trickles its body", trickled(HEAD + b"Content-Length: 100000\r\n\r\n", b"x"), SourceUnavailable, SLOW),
    ("trickles chunks", trickled(CHUNKED, b"1\r\nx\r\n"), SourceUnavailable, SLOW),
    ("sends a page as an archive", served(answer(b"<html>Log in", "text/html")), SourceUnavailable, "text/html"),
    ("calls a page an archive", served(answer(b"<html>Log in", "application/zip")), ArchiveRefused, "no known kind"),
    (
        "encodes what was to be plain",
        indexed(answer(gzip.compress(b"{}"), "application/json", Content_Encoding="gzip")),
        SourceUnavailable,
        "not asked for",
    ),
    ("redirects to a file", redirected("file:///etc/passwd"), SourceUnavailable, "not followed"),
    ("redirects to FTP", redirected("ftp://127.0.0.1/pdf.zip"), SourceUnavailable, "not followed"),
    ("redirects to data", redirected("data:application/zip,UEsDBA"), SourceUnavailable, "not followed"),
    ("redirects to plain http elsewhere", redirected("http://192.0.2.1/pdf.zip"), SourceUnavailable, "not followed"),
    ("redirects to itself", redirected("/0.zip"), SourceUnavailable, "more than 5 times"),
    (
        "redirects six times",
        redirected("/1.zip", "/2.zip", "/3.zip", "/4.zip", "/5.zip", "/end.zip"),
        SourceUnavailable,
        "more than 5 times",
    ),
    ("redirects to nowhere", redirected("https:///pdf.zip"), SourceUnavailable, "not followed"),
    (
        "redirects with a password",
        redirected("http://user:secret@127.0.0.1/pdf.zip"),
        SourceUnavailable,
        "not followed",
    ),
    ("redirects with an escape", redirected("/\x1b[2J\x07.zip"), SourceUnavailable, "not followed"),
    (
        "has another digest than the address",
        lambda site: archived(ARCHIVE)(site) + f"#sha256={'0' * 64}",
        IntegrityFailed,
        "SHA-256",
    ),
    (
        "has an index of 100 MB",
        indexed(HEAD.replace(b"zip", b"json") + b"Content-Length: 104857600\r\n\r\n"),
        SourceUnavailable,
        "more than",
    ),
    (
        "has an index of 60,000 levels",
        indexed(b'{"skills":' + b"[" * 60_000 + b"]" * 60_000 + b"}"),
        SourceUnavailable,
        "no JSON",
    ),
    ("has an index of two readings", indexed(b'{"skills":[],"skills":[1]}'), SourceUnavailable, "no JSON"),
    ("has an index that is a list", indexed(b"[]"), SourceUnavailable, "no JSON"),
    ("has an index that is cut off", indexed(b'{"skills":[{"name":"pdf"'), SourceUnavailable, "no JSON"),
    (
        "has an index with a number of 100,000 digits",
        indexed(b'{"skills":' + b"9" * 100_000 + b"}"),
        SourceUnavailable,
        "no list",
    ),
    ("has an index with no list", indexed(b'{"skills":{"pdf":{}}}'), SourceUnavailable, "no list"),
    (
        "has two contents for one version",
        versions({"version": "1.0", "digest": digest(b"a")}, {"version": "1.0", "digest": digest(b"b")}),
        IntegrityFailed,
        "two contents",
    ),
    (
        "has another archive than its list of versions says",
        versions({"version": "1.0", "digest": digest(b"a")}),
        IntegrityFailed,
        "SHA-256",
    ),
    (
        "has versions without digests",
        versions({"version": "1.0"}, {"version": "1.1", "digest": "sha1:abc"}, "1.2"),
        SourceUnavailable,
        "is empty",
    ),
    (
        "has only versions that were withdrawn",
        versions({"version": "1.0", "digest": digest(ARCHIVE), "yanked": True}),
        SourceUnavailable,
        "was withdrawn: no reason is given",
    ),
    (
        "describes its error with escapes",
        served(
            answer(
                b'{"title":"Gone\\u001b[2J","detail":"' + b"x" * 9_000 + b'"}', "application/problem+json", "410 Gone"
            )
        ),
        SourceUnavailable,
        "Gone\\\\x1b",
    ),
]


@pytest.mark.each(("what", "case", "error", "says"), SERVERS)
def test_a_server_that_lies_gets_an_error_and_nothing_is_written(
    clean: Path, site: Site, what: str, case: Case, error: type[MetierError], says: str
) -> None:
    with pytest.raises(error, match=says) as raised:
        read_all(case(site), QUICK if says == SLOW else SMALL)
    assert len(raised.value.message) < 1_000, what
    assert raised.value.message.isprintable()
    assert raised.value.hint
    assert not list(clean.iterdir())


def test_an_index_of_a_million_entries_is_refused(site: Site) -> None:
    entries = b'{"skills":[' + b",".join([b"{}"] * 1_000_000) + b"]}"
    with pytest.raises(SourceUnavailable, match="at most 10,000"):
        read_all(indexed(entries)(site), Transfer())


@pytest.mark.parametrize("place", ["http://127.0.0.1:{port}/end.zip", "http://localhost:{port}/end.zip"])
def test_a_public_source_leads_to_no_private_address(site: Site, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setattr("metier.hub.sources.http.is_public_address", lambda address: address == "127.0.0.2")
    site.answers["/end.zip"] = answer(ARCHIVE)
    with serving("127.0.0.2") as public:
        public.answers["/0.zip"] = answer(status="302 Found", Location=place.format(port=site.url.rpartition(":")[2]))
        with pytest.raises(SourceUnavailable, match="public source may not lead to a private address"):
            read_all(f"{public.url}/0.zip")
        assert not site.requests
        entry = public.entry("pdf", skill_text(), "skill-md") | {"url": f"{site.url}/end.zip"}
        public.index(entry)
        with pytest.raises(SourceUnavailable, match="public source may not lead to a private address"):
            read_all(public.url)
    assert not site.requests


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


def zip_member(name: str, mode: int, data: bytes = b"x") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("SKILL.md", skill_text())
        info = zipfile.ZipInfo(name)
        info.create_system, info.external_attr = 3, mode << 16
        archive.writestr(info, data)
    return file.getvalue()


def renamed(data: bytes, old: bytes, new: bytes) -> bytes:
    """An archive whose own list of members has another name than the members have."""
    at = data.rindex(old)
    return data[:at] + new + data[at + len(old) :]


GOOD = ("SKILL.md", skill_text())
ARCHIVES: list[tuple[str, bytes | Callable[[], bytes], str]] = [
    ("climbs out, as a tar", tarred(GOOD, ("../x", b"x")), ".tar.gz"),
    ("climbs out, as a zip", zipped(dict([GOOD, ("../x", b"x")])), ".zip"),
    ("climbs out, as a skill", zipped(dict([GOOD, ("a/../../x", b"x")])), ".skill"),
    ("climbs out with other slashes", tarred(GOOD, ("..\\x", b"x")), ".tgz"),
    ("has an absolute path", tarred(GOOD, ("/etc/x", b"x")), ".tar.gz"),
    ("has a drive", tarred(GOOD, ("C:\\x", b"x")), ".tar.gz"),
    ("has a drive, as a zip", zipped(dict([GOOD, ("C:\\x", b"x")])), ".zip"),
    ("links out", tarred(GOOD, member("x", tarfile.SYMTYPE, "../../x")), ".tar.gz"),
    ("links to an absolute path", tarred(GOOD, member("x", tarfile.SYMTYPE, "/etc/passwd")), ".tar.gz"),
    ("links out, as a zip", zip_member("x", stat.S_IFLNK | 0o777, b"/etc/passwd"), ".zip"),
    ("has a hard link out", tarred(GOOD, member("x", tarfile.LNKTYPE, "/etc/passwd")), ".tar.gz"),
    ("writes through a link", tarred(GOOD, member("a", tarfile.SYMTYPE, "/tmp"), ("a/x", b"x")), ".tar.gz"),
    ("has a pipe", tarred(GOOD, member("x", tarfile.FIFOTYPE)), ".tar.gz"),
    ("has a device", tarred(GOOD, member("x", tarfile.CHRTYPE)), ".tar.gz"),
    ("has a socket, as a zip", zip_member("x", stat.S_IFSOCK | 0o644), ".zip"),
    ("has a double in other case", tarred(GOOD, ("Skill.md", b"x")), ".tar.gz"),
    ("has a double in Unicode", zipped(dict([GOOD, ("\u00e9", b"x"), ("e\u0301", b"x")])), ".zip"),
    ("has a file where a folder is", tarred(GOOD, ("a", b"x"), ("a/b", b"x")), ".tar.gz"),
    ("has a name of a device", tarred(GOOD, ("nul.md", b"x")), ".tar.gz"),
    ("is a bomb", lambda: tarred(GOOD, ("zeros", b"\0" * 3_000_000)), ".tar.gz"),
    ("is a bomb, as a zip", lambda: zipped(dict([GOOD, ("zeros", b"\0" * 3_000_000)])), ".zip"),
    ("has 10,001 files", lambda: tarred(GOOD, *[(f"f{n}", b"") for n in range(10_000)]), ".tar.gz"),
    ("is cut off, as a tar", tarred(GOOD, ("x", bytes(range(256)) * 50))[:-40], ".tar.gz"),
    ("is cut off within a file", gzip.compress(gzip.decompress(tarred(GOOD, ("x", b"x" * 4_000)))[:2_000]), ".tar.gz"),
    ("is cut off, as a zip", zipped(dict([GOOD]))[:-10], ".zip"),
    ("differs from its listing", renamed(zipped(dict([GOOD, ("aaaa", b"x")])), b"aaaa", b"bbbb"), ".zip"),
    (
        "has another size than listed",
        zipped(dict([GOOD])).replace(struct.pack("<L", len(GOOD[1])), b"\1\0\0\0"),
        ".zip",
    ),
    ("has a file behind its end", tarred(GOOD) + tarred(("x", b"x")), ".tar.gz"),
    ("is empty", b"", ".zip"),
]


@pytest.mark.covers("A-34")
@pytest.mark.each(("what", "data", "suffix"), ARCHIVES)
def test_a_hostile_archive_is_refused_from_every_kind_of_server(
    clean: Path, site: Site, what: str, data: bytes | Callable[[], bytes], suffix: str
) -> None:
    data = data() if callable(data) else data
    site.index(site.entry("pdf", data))
    registry = versions({"version": "1.0", "digest": digest(data)}, download=data)(site)
    for address in (archived(data, suffix)(site), site.url, registry):
        with pytest.raises(ArchiveRefused) as raised:
            read_all(address, Transfer())
        assert raised.value.hint, what
        assert raised.value.message.isprintable()
    assert not list(clean.iterdir())


def test_a_file_that_would_run_as_another_user_is_a_plain_file(site: Site) -> None:
    url = archived(tarred(GOOD, member("x", mode=0o4755)), ".tar.gz")(site)
    with fetch(resolve(parse_address(url))) as found:
        assert found.candidates[0].files()["x"] == ("exec", b"")


def test_an_archive_that_is_another_skill_than_announced_is_refused(site: Site) -> None:
    site.index(site.entry("pdf", zipped({"SKILL.md": skill_text("deploy")})))
    with pytest.raises(SkillInvalid):
        read_all(site.url)


def test_the_tables_have_the_cases_that_are_promised() -> None:
    assert len(SERVERS) + len(ARCHIVES) >= 60
