"""Archives, of files and of servers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.hub.sources.loopback import Site, answer, digest, serving, skill_text, tarred, zipped

from metier._json_object import read_plain
from metier.errors import ArchiveRefused, IntegrityFailed, InvalidArgument
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Resolved, fetch, resolve

FILES = {"repo-main/README.md": b"x", "repo-main/skills/pdf/SKILL.md": skill_text(), "repo-main/skills/pdf/a.md": b"a"}


@pytest.mark.each(
    ("name", "data"),
    [
        ("a.zip", zipped(FILES)),
        ("a.skill", zipped(FILES)),
        ("a.tar.gz", tarred(*FILES.items())),
        ("A.TGZ", tarred(*FILES.items())),
    ],
)
def test_skills_lie_anywhere_in_an_archive(site: Site, name: str, data: bytes) -> None:
    site.answers[f"/{name}"] = answer(data)
    address = parse_address(f"{site.url}/{name}")
    resolved = resolve(address)
    assert (address.kind, resolved.revision, resolved.is_exact) == ("archive", digest(data), False)
    with fetch(resolved) as found:
        assert [one.path for one in found.candidates] == ["repo-main/skills/pdf"]
        assert sorted(found.candidates[0].files()) == ["SKILL.md", "a.md"]


@pytest.mark.each("is_open", [False, True])
def test_nobody_waits_at_a_pipe(tmp_path: Path, is_open: bool) -> None:
    pipe = tmp_path / f"{is_open}.zip"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR) if is_open else None
    with pytest.raises(ArchiveRefused, match="no known kind"), fetch(resolve(parse_address(str(pipe)))):
        pass
    assert read_plain(str(pipe), most=10) == b""
    if writer is not None:
        os.close(writer)


def test_an_archive_is_downloaded_once(site: Site) -> None:
    site.answers["/a.zip"] = answer(zipped(FILES))
    with fetch(resolve(parse_address(f"{site.url}/a.zip"))) as found:
        found.candidates[0].files()
    assert site.paths() == ["/a.zip"]


def test_a_digest_in_the_address_makes_it_exact(site: Site) -> None:
    data = zipped(FILES)
    site.answers["/a.zip?x=1"] = answer(data)
    address = parse_address(f"{site.url}/a.zip?x=1#sha256={digest(data)[7:].upper()}&subdirectory=repo-main")
    assert (address.ref, address.path) == (digest(data), "repo-main")
    assert resolve(address).is_exact
    site.answers["/a.zip?x=1"] = answer(zipped({"SKILL.md": skill_text()}))
    with pytest.raises(IntegrityFailed):
        resolve(address)


def test_a_state_that_is_locked_is_fetched_again_by_its_digest(site: Site) -> None:
    site.answers["/a.zip"] = answer(zipped(FILES))
    before = resolve(parse_address(f"{site.url}/a.zip"))
    with fetch(Resolved(address=before.address, revision=before.revision)) as found:
        assert len(found.candidates) == 1
    site.answers["/a.zip"] = answer(zipped({"SKILL.md": skill_text()}))
    with (
        pytest.raises(IntegrityFailed),
        fetch(Resolved(address=before.address, revision=before.revision)),
    ):
        pass


def test_a_file_of_this_machine_is_held_to_a_digest_too(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped(FILES))
    assert resolve(parse_address(str(tmp_path / "a.zip"), ref=digest(zipped(FILES)))).is_exact
    with pytest.raises(IntegrityFailed):
        resolve(parse_address(str(tmp_path / "a.zip"), ref=digest(b"")))


def test_an_archive_has_no_branches(site: Site) -> None:
    with pytest.raises(InvalidArgument, match="'main'"):
        resolve(parse_address(f"{site.url}/a.zip", ref="main"))
    assert not site.requests


def test_the_host_that_an_archive_came_from_in_the_end_is_told(site: Site) -> None:
    with serving("127.0.0.2") as other:
        other.answers["/b.zip"] = answer(zipped(FILES))
        site.answers["/a.zip"] = answer(status="302 Found", Location=f"{other.url}/b.zip")
        with fetch(resolve(parse_address(f"{site.url}/a.zip"))) as found:
            assert "127.0.0.2" in found.warnings[0]


def test_compression_that_a_server_calls_an_encoding_is_part_of_the_archive(site: Site) -> None:
    data = tarred(*FILES.items())
    site.answers["/a.tar.gz"] = answer(data, "application/x-tar", Content_Encoding="gzip")
    assert resolve(parse_address(f"{site.url}/a.tar.gz")).revision == digest(data)


@pytest.mark.each(
    "text",
    [
        "https://example.com/a.zip",
        "archive+https://example.com/a",
        "https://example.com",
        "well-known:example.com:8443/team",
        "http://localhost:80",
        "apm+https://example.com/api/acme/skills",
    ],
)
def test_the_name_of_a_source_is_an_address_of_it(text: str) -> None:
    address = parse_address(text)
    assert parse_address(address.name) == address
