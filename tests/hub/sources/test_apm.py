"""Packages of a registry of APM."""

from __future__ import annotations

import pytest
from tests.hub.sources.loopback import Site, answer, as_json, digest, skill_text, tarred

from metier.errors import InvalidArgument, SourceUnavailable
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Resolved, fetch, resolve

BASE = "/api/apm/team"


def package(version: str) -> bytes:
    return tarred(("apm.yml", b"name: skills"), (".apm/skills/pdf/SKILL.md", skill_text(body=f"Version {version}.")))


def publish(site: Site, *versions: str, identity: str = "acme/skills", **fields: object) -> None:
    path = f"{BASE}/v1/packages/{identity}/versions"
    listed = [
        {"version": one, "digest": digest(package(one)), "published_at": f"2026-01-{n:02}", **fields}
        for n, one in enumerate(versions, 1)
    ]
    site.answers[path] = as_json({"package": identity, "versions": listed})
    for one in versions:
        site.answers[f"{path}/{one}/download"] = answer(package(one), "application/gzip")


def resolved(site: Site, ref: str = "", identity: str = "acme/skills") -> Resolved:
    return resolve(parse_address(f"apm+{site.url}{BASE}/{identity}{'@' if ref else ''}{ref}"))


@pytest.mark.each(
    ("versions", "ref", "expected"),
    [
        (("1.0.0", "1.10.0", "1.9.0"), "", "1.10.0"),
        (("1.0.0", "2.0.0-rc.1"), "", "1.0.0"),
        (("2.0.0-rc.1", "2.0.0-rc.2"), "", "2.0.0-rc.2"),
        (("v1.0", "v0.9"), "", "v1.0"),
        (("stable", "main"), "", "main"),
        (("main", "1.0.0"), "", "1.0.0"),
        (("1.0.0", "1.2.0"), "1.0.0", "1.0.0"),
        (("1.0.0", "1.2.0"), "1.0", "1.0.0"),
        (("1.0.0", "main"), "main", "main"),
    ],
)
def test_the_version_that_is_named_or_the_newest_is_chosen(
    site: Site, versions: tuple[str, ...], ref: str, expected: str
) -> None:
    publish(site, *versions)
    assert resolved(site, ref).revision == digest(package(expected))


def test_a_skill_has_the_package_and_version_that_it_came_in(site: Site) -> None:
    publish(site, "1.0.0", "1.1.0")
    with fetch(resolved(site)) as found:
        (candidate,) = found.candidates
    assert (candidate.path, candidate.package, candidate.version) == (".apm/skills/pdf", "acme/skills", "1.1.0")
    assert candidate.skill_file() == skill_text(body="Version 1.1.0.")
    assert [path.rpartition("/")[2] for path in site.paths()] == ["versions", "download"]


def test_one_request_tells_the_state(site: Site) -> None:
    publish(site, "1.0.0", "1.1.0")
    resolved(site)
    assert len(site.requests) == 1


@pytest.mark.covers("A-37")
def test_a_version_that_was_withdrawn_is_not_chosen_but_stays_for_locks(site: Site) -> None:
    publish(site, "1.0.0", yanked="It deletes files.")
    for ref in ("", "1.0.0"):
        with pytest.raises(SourceUnavailable, match="It deletes files" if ref else "Every version .* It deletes files"):
            resolved(site, ref)
    address = parse_address(f"apm+{site.url}{BASE}/acme/skills")
    with fetch(Resolved(address=address, revision=digest(package("1.0.0")))) as found:
        assert found.candidates[0].yanked == "It deletes files."


def test_a_version_that_is_not_there_is_told_with_those_that_are(site: Site) -> None:
    publish(site, "1.0.0", "1.1.0")
    with pytest.raises(SourceUnavailable, match=r"no version '3'") as raised:
        resolved(site, "3")
    assert raised.value.hint == "There are 1.0.0, 1.1.0."


def test_a_package_of_another_host_is_one_segment(site: Site) -> None:
    publish(site, "1.0.0", identity="gitlab.example%2Facme%2Fskills")
    assert resolved(site, identity="gitlab.example%2Facme%2Fskills").revision


@pytest.mark.each(
    "address", ["apm+https://example.com", "apm+https://example.com/acme", "apm+https://example.com/../x"]
)
def test_an_address_without_a_package_is_refused(address: str) -> None:
    with pytest.raises(InvalidArgument, match="no package"):
        resolve(parse_address(address))


def test_a_package_that_is_not_there_is_told_with_the_reason(site: Site) -> None:
    site.answers[f"{BASE}/v1/packages/acme/skills/versions"] = answer(
        b'{"title":"Package not found","status":404}', "application/problem+json", "404 Not Found"
    )
    with pytest.raises(SourceUnavailable, match=r"404 \(Package not found\)"):
        resolved(site)
