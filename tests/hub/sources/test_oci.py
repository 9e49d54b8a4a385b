"""OCI registries as sources: artifacts and collections, and registries that lie about them."""

from __future__ import annotations

import base64
import json
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hub.sources.loopback import Site, answer, as_json, digest, serving, skill_text, tarred

from metier.errors import ArchiveRefused, IntegrityFailed, InvalidArgument, MetierError, SourceUnavailable
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Resolved, Transfer, fetch, resolve
from metier.hub.sources.oci import COLLECTION, CONFIG, CONTENT, INDEX, MANIFEST, SKILL
from metier.skill.package import Files

REPOSITORY = "/v2/acme/pdf"
QUICK = Transfer(seconds=5)


def address(site: Site, ref: str = ":1.0", name: str = "acme/pdf") -> str:
    return f"oci:{site.url.partition('://')[2]}/{name}{ref}"


def blob(site: Site, data: bytes) -> dict[str, Any]:
    """Serve a blob; returns its descriptor."""
    site.answers[f"{REPOSITORY}/blobs/{digest(data)}"] = answer(data)
    return {"digest": digest(data), "size": len(data)}


def manifest(site: Site, layer: bytes = b"", **changes: Any) -> dict[str, Any]:
    content = layer or tarred(("SKILL.md", skill_text()), ("references/a.md", b"More."))
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": SKILL,
        "config": {"mediaType": CONFIG, **blob(site, b"{}")},
        "layers": [{"mediaType": CONTENT, **blob(site, content)}],
        "annotations": {"io.agentskills.skill.name": "pdf", "org.opencontainers.image.version": "1.0"},
        **changes,
    }


def publish(site: Site, value: object, tag: str = "1.0") -> dict[str, Any]:
    """Serve a manifest under a tag and under its digest; returns its descriptor."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    site.answers[f"{REPOSITORY}/manifests/{tag}"] = answer(data, MANIFEST)
    site.answers[f"{REPOSITORY}/manifests/{digest(data)}"] = answer(data, MANIFEST)
    return {"digest": digest(data), "size": len(data)}


def files_of(resolved: Resolved) -> dict[str, Files]:
    with fetch(resolved, QUICK) as fetched:
        return {one.folder: one.files() for one in fetched.candidates}


def test_a_tag_is_resolved_by_one_request_to_the_digest_of_its_bytes(site: Site) -> None:
    found = publish(site, manifest(site))
    resolved = resolve(parse_address(address(site)), QUICK)
    assert (resolved.revision, resolved.is_exact) == (found["digest"], False)
    assert site.paths() == [f"{REPOSITORY}/manifests/1.0"]
    assert MANIFEST in site.requests[0][1]
    with fetch(resolved, QUICK) as fetched:
        [pdf] = fetched.candidates
        assert (pdf.folder, pdf.version) == ("pdf", "1.0")
        assert len(site.requests) == 1, "nothing is downloaded before it is asked for"
        assert pdf.files() == {"SKILL.md": ("file", skill_text()), "references/a.md": ("file", b"More.")}
        assert pdf.skill_file() == skill_text()
    assert len(site.requests) == 2


def test_without_a_tag_it_is_the_latest_and_a_digest_asks_nobody(site: Site) -> None:
    found = publish(site, manifest(site), "latest")
    assert resolve(parse_address(address(site, "")), QUICK).revision == found["digest"]
    site.requests.clear()
    exact = resolve(parse_address(address(site, f"@{found['digest']}")), QUICK)
    assert (exact.revision, exact.is_exact, site.requests) == (found["digest"], True, [])
    assert list(files_of(exact)) == ["pdf"]


def test_a_tag_that_is_not_there_is_named_with_what_to_write(site: Site) -> None:
    name = address(site, "")
    with pytest.raises(SourceUnavailable, match="has no tag 'latest'") as raised:
        resolve(parse_address(name), QUICK)
    assert f"{name}:1.2.0" in raised.value.hint


def test_a_skill_may_lie_in_a_folder_of_the_layer(site: Site) -> None:
    publish(site, manifest(site, tarred(("pdf/SKILL.md", skill_text()))))
    assert files_of(resolve(parse_address(address(site)), QUICK)) == {"pdf": {"SKILL.md": ("file", skill_text())}}


def test_an_artifact_of_before_artifact_types_is_known_by_its_config(site: Site) -> None:
    value = manifest(site)
    del value["artifactType"]
    publish(site, value)
    assert list(files_of(resolve(parse_address(address(site)), QUICK))) == ["pdf"]


def test_a_collection_has_its_skills_which_are_fetched_one_by_one(site: Site) -> None:
    members = []
    for name in ("pdf", "deploy"):
        layer = tarred(("SKILL.md", skill_text(name)))
        found = publish(site, manifest(site, layer, annotations={"io.agentskills.skill.name": name}), name)
        members.append({"artifactType": SKILL, **found, "annotations": {"io.agentskills.skill.name": name}})
    nested = {"artifactType": COLLECTION, "mediaType": INDEX, "digest": digest(b"itself"), "size": 10}
    publish(site, {"schemaVersion": 2, "artifactType": COLLECTION, "manifests": [*members, nested]})
    resolved = resolve(parse_address(address(site)), QUICK)
    with fetch(resolved, QUICK) as fetched:
        assert [one.folder for one in fetched.candidates] == ["pdf", "deploy"]
        assert len(site.requests) == 1
        assert fetched.candidates[1].files() == {"SKILL.md": ("file", skill_text("deploy"))}
    assert len(site.requests) == 3


def layered(*members: tarfile.TarInfo | tuple[str, bytes]) -> Callable[[Site], Any]:
    return lambda site: manifest(site, tarred(*members))


def described(**changes: Any) -> Callable[[Site], Any]:
    def made(site: Site) -> Any:
        value = manifest(site)
        value["layers"][0] |= changes
        return value

    return made


def other_layer(site: Site) -> Any:
    value = manifest(site)
    site.answers[f"{REPOSITORY}/blobs/{value['layers'][0]['digest']}"] = answer(tarred(("SKILL.md", b"evil")))
    return value


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def collection(*members: object) -> dict[str, Any]:
    return {"schemaVersion": 2, "artifactType": COLLECTION, "manifests": list(members)}


HOSTILE: dict[str, tuple[Callable[[Site], Any], type[MetierError], str]] = {
    "a layer with other bytes": (other_layer, IntegrityFailed, "not what was announced"),
    "a layer that is not there": (described(digest=digest(b"x")), SourceUnavailable, "404"),
    "a layer that is longer than its size": (described(size=10), SourceUnavailable, "more than 10 bytes"),
    "a layer that is shorter than its size": (described(size=10_000), SourceUnavailable, "its manifest says 10,000"),
    "a layer of a terabyte": (described(size=10**12), SourceUnavailable, "at most"),
    "a layer of nothing": (described(size=0), SourceUnavailable, "0 bytes"),
    "a layer of less than nothing": (described(size=-1), SourceUnavailable, "-1 bytes"),
    "a size that is a text": (described(size="10"), SourceUnavailable, "no sha256 and size"),
    "a digest of a weak kind": (described(digest="md5:abc"), SourceUnavailable, "no sha256 and size"),
    "a digest that is a path": (described(digest="sha256:../../x"), SourceUnavailable, "no sha256 and size"),
    "a layer of another kind": (described(mediaType="text/x"), SourceUnavailable, "its layer is text/x"),
    "an image": (
        lambda site: manifest(site, artifactType="application/vnd.oci.image.config.v1+json"),
        SourceUnavailable,
        "and no skill",
    ),
    "two layers": (lambda site: manifest(site, layers=[{}, {}]), SourceUnavailable, "exactly one layer"),
    "no layer": (lambda site: manifest(site, layers=[]), SourceUnavailable, "exactly one layer"),
    "a layer that is a list": (lambda site: manifest(site, layers=[[]]), SourceUnavailable, "exactly one layer"),
    "no archive": (lambda site: manifest(site, b"no archive"), ArchiveRefused, ""),
    "no skill in it": (layered(("README.md", b"")), SourceUnavailable, "has 0 skills"),
    "two skills in it": (
        layered(("a/SKILL.md", b""), ("b/SKILL.md", b"")),
        SourceUnavailable,
        "has 2 skills, and should have one",
    ),
    "traversal": (layered(("SKILL.md", b""), ("../evil", b"")), ArchiveRefused, ""),
    "an absolute path": (layered(("SKILL.md", b""), ("/evil", b"")), ArchiveRefused, ""),
    "a link out of it": (layered(("SKILL.md", b""), link("a", "/etc/passwd")), ArchiveRefused, ""),
    "a hard link out of it": (layered(("SKILL.md", b""), link("a", "../b", tarfile.LNKTYPE)), ArchiveRefused, ""),
    "a device": (layered(("SKILL.md", b""), link("a", "", tarfile.CHRTYPE)), ArchiveRefused, ""),
    "doubles by case": (layered(("SKILL.md", b""), ("Skill.md", b"")), ArchiveRefused, ""),
    "a bomb": (layered(("SKILL.md", b"\0" * 40_000_000)), ArchiveRefused, ""),
    "no manifest": (lambda _: b"<html>", SourceUnavailable, "no OCI manifest"),
    "a list": (lambda _: [], SourceUnavailable, "no OCI manifest"),
    "two readings": (lambda _: b'{"schemaVersion": 2, "schemaVersion": 2}', SourceUnavailable, "no OCI manifest"),
    "an old schema": (lambda site: manifest(site, schemaVersion=1), SourceUnavailable, "no OCI manifest"),
    "a manifest that is endless": (lambda _: b" " * 5_000_000, SourceUnavailable, "more than"),
    "a collection of too many": (lambda _: collection(*[{}] * 1_001), SourceUnavailable, "at most 1,000 manifests"),
    "a collection of nothing": (lambda _: collection({}), SourceUnavailable, "names a skill by no sha256"),
    "a collection that is no list": (
        lambda _: {"schemaVersion": 2, "artifactType": COLLECTION, "manifests": {}},
        SourceUnavailable,
        "no list",
    ),
    "a collection that hides another one": (
        lambda site: collection({"artifactType": SKILL, **publish(site, collection(), "inner")}),
        SourceUnavailable,
        "and no skill",
    ),
}


@pytest.mark.covers("A-34")
@pytest.mark.each("case", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_artifact_is_refused_and_nothing_is_written(
    site: Site, clean: Path, case: tuple[Callable[[Site], Any], type[MetierError], str]
) -> None:
    make, kind, message = case
    publish(site, make(site))
    with pytest.raises(kind) as caught:
        files_of(resolve(parse_address(address(site)), QUICK))
    assert message in caught.value.message, caught.value.message
    assert caught.value.hint
    assert list(clean.iterdir()) == []


def test_bytes_of_another_digest_are_refused_by_manifest_and_by_layer(site: Site) -> None:
    value = manifest(site)
    found = publish(site, value)
    exact = parse_address(address(site, f"@{found['digest']}"))
    evil = json.dumps(value, indent=1).encode()
    site.answers[f"{REPOSITORY}/manifests/{found['digest']}"] = answer(evil, MANIFEST)
    with pytest.raises(IntegrityFailed):
        files_of(resolve(exact, QUICK))
    publish(site, value)
    layer = value["layers"][0]
    site.answers[f"{REPOSITORY}/blobs/{layer['digest']}"] = answer(b"x" * layer["size"])
    with pytest.raises(IntegrityFailed):
        files_of(resolve(exact, QUICK))


def test_a_tag_that_moves_between_resolving_and_fetching_changes_nothing(site: Site) -> None:
    publish(site, manifest(site))
    resolved = resolve(parse_address(address(site)), QUICK)
    publish(site, manifest(site, tarred(("SKILL.md", b"evil"))))
    again = Resolved(address=resolved.address, revision=resolved.revision)
    assert files_of(again)["pdf"]["SKILL.md"] == ("file", skill_text())


def test_a_blob_may_come_from_another_host_which_gets_no_credentials(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = manifest(site)
    publish(site, value)
    path = f"{REPOSITORY}/blobs/{value['layers'][0]['digest']}"
    monkeypatch.setenv("METIER_REGISTRY_TOKENS", f"{site.url.partition('://')[2]}=secret")
    with serving() as other:
        other.answers["/blob"] = site.answers[path]
        site.answers[path] = answer(b"", status="307 Temporary Redirect", Location=f"{other.url}/blob")
        assert list(files_of(resolve(parse_address(address(site)), QUICK))) == ["pdf"]
        assert "secret" in site.requests[0][1]
        assert all("secret" not in head for _, head in other.requests)


@pytest.mark.each("to", ["file:///etc/passwd", "http://203.0.113.1/x", "ftp://example.com/x", "//\0"])
def test_a_blob_is_not_followed_to_files_and_to_plain_http_elsewhere(site: Site, to: str) -> None:
    value = manifest(site)
    publish(site, value)
    path = f"{REPOSITORY}/blobs/{value['layers'][0]['digest']}"
    site.answers[path] = answer(b"", status="302 Found", Location=to)
    with pytest.raises((SourceUnavailable, InvalidArgument)):
        files_of(resolve(parse_address(address(site)), QUICK))


def test_an_endless_blob_ends_at_its_size(site: Site) -> None:
    value = manifest(site)
    publish(site, value)

    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65_536)

    site.answers[f"{REPOSITORY}/blobs/{value['layers'][0]['digest']}"] = endless
    with pytest.raises(SourceUnavailable):
        files_of(resolve(parse_address(address(site)), QUICK))


def test_a_registry_that_trickles_ends_with_its_time(site: Site) -> None:
    def trickle(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not site.closing.wait(0.02):
            connection.sendall(b" ")

    site.answers[f"{REPOSITORY}/manifests/1.0"] = trickle
    with pytest.raises(SourceUnavailable, match="too long"):
        resolve(parse_address(address(site)), Transfer(seconds=0.2))


@pytest.mark.each(
    "text",
    [
        "oci:pdf",
        "oci:ghcr.io/Acme/pdf",
        "oci:ghcr.io/acme/../pdf",
        "oci:ghcr.io//pdf",
        "oci:user:secret@ghcr.io/acme/pdf",
        "oci:ghcr.io/acme/pdf:a b",
        "oci:-x/acme/pdf",
        "oci:ghcr.io/acme/pdf@sha256:abc",
        "oci:ghcr.io/acme/pdf@md5:abc",
    ],
)
def test_an_address_that_is_no_repository_asks_nobody(text: str) -> None:
    with pytest.raises(InvalidArgument):
        resolve(parse_address(text), Transfer(seconds=0.001))


def log_in(clean: Path, host: str, who: str = "ada:secret") -> None:
    """Credentials as `docker login` keeps them."""
    (clean / ".docker").mkdir()
    auth = base64.b64encode(who.encode()).decode()
    (clean / ".docker" / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))


def guarded(site: Site, wanted: str, challenge: str) -> None:
    """Let the manifest be given only to those who say the right word."""
    path = f"{REPOSITORY}/manifests/1.0"
    allowed = site.answers[path]
    assert isinstance(allowed, bytes)

    def ask(connection: socket.socket) -> None:
        is_known = f"Authorization: {wanted}\r\n" in site.requests[-1][1]
        denied = answer(b"", status="401 Unauthorized", WWW_Authenticate=challenge)
        connection.sendall(allowed if is_known else denied)

    site.answers[path] = ask


def test_a_token_is_fetched_with_the_credentials_of_docker(site: Site, clean: Path) -> None:
    log_in(clean, site.url.partition("://")[2])
    found = publish(site, manifest(site))
    guarded(site, "Bearer T", f'Bearer realm="{site.url}/token",service="registry"')
    site.answers["/token?service=registry"] = as_json({"token": "T"})
    assert resolve(parse_address(address(site)), QUICK).revision == found["digest"]
    assert "Basic YWRhOnNlY3JldA==" in site.requests[1][1]


def test_a_password_is_given_to_a_registry_that_asks_for_one(site: Site, clean: Path) -> None:
    log_in(clean, site.url.partition("://")[2])
    found = publish(site, manifest(site))
    guarded(site, "Basic YWRhOnNlY3JldA==", 'Basic realm="Registry Realm"')
    assert resolve(parse_address(address(site)), QUICK).revision == found["digest"]


def test_only_the_registry_itself_says_where_its_credentials_are_sent(site: Site, clean: Path) -> None:
    """It may send on to a place that anybody can write to."""
    log_in(clean, site.url.partition("://")[2])
    publish(site, manifest(site))
    path = f"{REPOSITORY}/manifests/1.0"
    with serving() as other:
        challenge = f'Bearer realm="{site.url}/stolen"'
        other.answers["/there"] = answer(b"", status="401 Unauthorized", WWW_Authenticate=challenge)
        site.answers[path] = answer(b"", status="307 Temporary Redirect", Location=f"{other.url}/there")
        with pytest.raises(SourceUnavailable):
            resolve(parse_address(address(site)), QUICK)
    assert site.paths() == [path]
    assert "Authorization" not in other.requests[0][1]


@pytest.mark.each(
    "challenge",
    [
        'Bearer realm="http://203.0.113.1/token"',
        'Bearer realm="file:///etc/passwd"',
        'Bearer realm="SITE/missing"',
        'Bearer realm="SITE/other"',
        'Bearer realm="SITE/big"',
        "Bearer",
        "Basic",
        "Nonsense \x00",
    ],
)
def test_a_registry_that_asks_for_more_than_is_here_is_refused_with_a_hint(site: Site, challenge: str) -> None:
    publish(site, manifest(site))
    guarded(site, "Bearer T", challenge.replace("SITE", site.url))
    site.answers["/other"] = as_json({"token": "a\r\nX-Evil: 1"})
    site.answers["/big"] = answer(b" " * 5_000_000)
    with pytest.raises(SourceUnavailable) as caught:
        resolve(parse_address(address(site)), QUICK)
    assert "docker login" in caught.value.hint
