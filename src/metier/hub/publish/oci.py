"""Skills that are published to an OCI registry, as artifacts that other clients install too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from metier.errors import SkillExists, SourceUnavailable
from metier.hub.publish.pack import pack
from metier.hub.sources import oci
from metier.hub.sources.http import sha256_of
from metier.skill import shown

if TYPE_CHECKING:
    from metier.hub.publish.release import Release
    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Transfer
    from metier.hub.sources.oci import OciRepository

_DESCRIPTION = "org.opencontainers.image.description"


def push_skill(release: Release, target: SourceAddress, transfer: Transfer, *, dry_run: bool = False) -> str:
    """Publish a release under the tag of an address, or that of its version; the digest of its manifest.

    The same content always gives the same digest. Raises `SkillExists` where the tag names other content already.
    """
    skill, version = release.skill, release.version
    # A tag has no plus sign; other tools write an underscore in place of it as well.
    tag = target.ref or version.replace("+", "_")
    repository = oci.OciRepository(target.location, transfer)
    about = {"name": skill.name, "version": version, "description": skill.description}
    more = {"schemaVersion": "1", "license": skill.license, "compatibility": skill.compatibility}
    layer, config = pack(release.files, "tar.gz"), _bytes({**about, **more})
    annotations = {oci.NAME: skill.name, oci.TITLE: skill.name, oci.VERSION: version, _DESCRIPTION: skill.description}
    manifest = _bytes(
        {
            "schemaVersion": 2,
            "mediaType": oci.MANIFEST,
            "artifactType": oci.SKILL,
            "config": _descriptor(config, oci.CONFIG),
            "layers": [_descriptor(layer, oci.CONTENT)],
            "annotations": annotations,
        }
    )
    digest = sha256_of(manifest)
    there = _digest_there(repository, tag)
    if there and there != digest:
        raise SkillExists(
            f"{shown(target.location, 200)}:{shown(tag)} is there already, with other content.",
            hint="What was published never changes: give the skill a new version.",
            name=skill.name,
        )
    if not there and not dry_run:
        _upload(repository, tag, manifest, (config, layer))
        if _digest_there(repository, tag) != digest:
            raise SourceUnavailable(
                f"{shown(target.location, 200)}:{shown(tag)} is not what was sent.",
                hint="Somebody else may have published it in the same moment; look there.",
            )
    return digest


def _bytes(value: dict[str, Any]) -> bytes:
    filled = {key: one for key, one in value.items() if one}
    return json.dumps(filled, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _descriptor(data: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": sha256_of(data), "size": len(data)}


def _digest_there(repository: OciRepository, tag: str) -> str:
    """The digest of what a tag names; empty where it names nothing."""
    try:
        return sha256_of(repository.manifest(tag))
    except SourceUnavailable as error:
        if error.context.get("status") == 404:
            return ""
        raise


def _upload(repository: OciRepository, tag: str, manifest: bytes, blobs: tuple[bytes, ...]) -> None:
    registry = oci.oras_registry(repository)
    base = f"{repository.address}/v2/{repository.name}"

    def send(method: str, url: str, data: bytes = b"", kind: str = "application/octet-stream") -> str:
        answer = registry.do_request(url, method, data=data, headers={"Content-Type": kind})
        if answer.status_code not in (200, 201, 202):
            raise ValueError(f"it answered {answer.status_code}")
        return urljoin(url, str(answer.headers.get("Location", "")))

    try:
        for data in blobs:
            place = send("POST", f"{base}/blobs/uploads/")
            send("PUT", f"{place}{'&' if '?' in place else '?'}digest={sha256_of(data)}", data)
        send("PUT", f"{base}/manifests/{tag}", manifest, oci.MANIFEST)
    except (OSError, ValueError) as error:  # those of requests and of oras are among them
        raise SourceUnavailable(
            f"{shown(repository.host)} did not take the skill: {shown(str(error), 200)}.",
            hint=f"Check the address, and log in: `docker login {repository.host}`.",
        ) from None
