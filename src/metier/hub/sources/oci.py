"""An OCI registry as a source: skills as artifacts, and collections of them.

An artifact is a manifest with one layer, a gzipped tar of the skill; a collection is an index of such manifests. A tag
means the digest of the bytes that the registry gives for it, whatever it calls them, and all else hangs on that digest.
"""

from __future__ import annotations

import contextlib
import functools
from posixpath import basename
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.errors import SourceUnavailable
from metier.hub.sources.fetch import Candidate, Fetched, Resolved
from metier.hub.sources.http import is_digest, sha256_of
from metier.hub.sources.oci_registry import MAX_MANIFEST_BYTES, OciRepository, read_manifest
from metier.hub.sources.tree import archive_tree, candidates_of
from metier.skill import is_valid_name, shown
from metier.source.unpack import ArchiveLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Transfer

SKILL = "application/vnd.agentskills.skill.v1"
CONFIG = "application/vnd.agentskills.skill.config.v1+json"
CONTENT = "application/vnd.agentskills.skill.content.v1.tar+gzip"
COLLECTION = "application/vnd.agentskills.collection.v1"
NAME = "io.agentskills.skill.name"
TITLE, VERSION = "org.opencontainers.image.title", "org.opencontainers.image.version"
_LATEST = "latest"
_MAX_SKILLS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Descriptor:
    """The digest and the size of something, as a manifest names it."""

    digest: str
    size: int
    annotations: dict[str, str]

    @classmethod
    def read(cls, value: Any, what: str, most: int) -> _Descriptor:
        """A descriptor; raises `SourceUnavailable` for one that names nothing, or too much."""
        if isinstance(value, dict) and is_digest(value.get("digest")) and isinstance(value.get("size"), int):
            if not 0 < value["size"] <= most:
                raise _unusable(f"{what} has {value['size']:,} bytes, and at most {most:,} are taken")
            return cls(digest=value["digest"], size=value["size"], annotations=_annotations(value))
        raise _unusable(f"it names {what} by no sha256 and size")


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The digest of the manifest that a tag means now; `@sha256:...` is exact, and asks nobody."""
    repository = OciRepository(address.location, transfer)
    if is_digest(address.ref):
        return Resolved(address=address, revision=address.ref, is_exact=True)
    data = repository.manifest(address.ref or _LATEST)
    return Resolved(address=address, revision=sha256_of(data), data=data)


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skill of an artifact, or the skills of a collection, each of which is fetched when its files are read."""
    repository = OciRepository(resolved.address.location, transfer)
    data = resolved.data if isinstance(resolved.data, bytes) else repository.manifest(resolved.revision)
    manifest = read_manifest(data)
    fallback = basename(resolved.address.location)
    if manifest.get("artifactType") == COLLECTION:
        members = manifest.get("manifests")
        if not isinstance(members, list) or len(members) > _MAX_SKILLS:
            raise _unusable(f"it is no list of at most {_MAX_SKILLS:,} skills")
        # A collection in a collection is not looked into, so that none can hold itself.
        skills = [one for one in members if isinstance(one, dict) and one.get("artifactType") in (SKILL, None)]
        candidates = [_member(repository, one, number) for number, one in enumerate(skills)]
    else:
        candidates = [_artifact(repository, manifest, fallback)]
    yield Fetched(resolved=resolved, candidates=candidates)


def _member(repository: OciRepository, value: Any, number: int) -> Candidate:
    found = _Descriptor.read(value, "a skill", MAX_MANIFEST_BYTES)
    name = _name(found.annotations, f"skill-{number + 1}")

    @functools.cache
    def artifact() -> Candidate:
        data = repository.manifest(found.digest, max_bytes=found.size)
        return _artifact(repository, read_manifest(data), name)

    return Candidate(
        folder=name,
        path=name,
        skill_file=lambda: artifact().skill_file(),
        files=lambda: artifact().files(),
        version=found.annotations.get(VERSION, ""),
    )


def _artifact(repository: OciRepository, manifest: dict[str, Any], fallback: str) -> Candidate:
    """The skill of a manifest, whose layer is downloaded when its files are read."""
    config, layers = manifest.get("config"), manifest.get("layers")
    kind = manifest.get("artifactType") or (config.get("mediaType") if isinstance(config, dict) else "")
    if kind not in (SKILL, CONFIG):
        raise _unusable(f"it is {shown(str(kind), 100) or 'an image'}, and no skill")
    if not isinstance(layers, list) or len(layers) != 1 or not isinstance(layers[0], dict):
        raise _unusable("a skill has exactly one layer")
    if layers[0].get("mediaType") != CONTENT:
        raise _unusable(f"its layer is {shown(str(layers[0].get('mediaType')), 100)}")
    layer = _Descriptor.read(layers[0], "its layer", ArchiveLimits().archive_bytes)
    annotations = _annotations(manifest)
    name = _name(annotations, fallback)

    @functools.cache
    def inner() -> Candidate:
        tree = archive_tree(repository.blob(layer.digest, layer.size, shown(name)))
        found = candidates_of(tree)
        if len(found) != 1:
            raise _unusable(f"its layer has {len(found):,} skills, and should have one")
        return found[0]

    return Candidate(
        folder=name,
        path="",
        skill_file=lambda: inner().skill_file(),
        files=lambda: inner().files(),
        version=annotations.get(VERSION, ""),
    )


def _annotations(value: dict[str, Any]) -> dict[str, str]:
    found = value.get("annotations")
    if not isinstance(found, dict):
        return {}
    return {str(name): text for name, text in found.items() if isinstance(text, str) and len(text) <= 1_000}


def _name(annotations: dict[str, str], fallback: str) -> str:
    given = annotations.get(NAME) or annotations.get(TITLE) or fallback
    return given if is_valid_name(given) else fallback


def _unusable(why: str) -> SourceUnavailable:
    return SourceUnavailable(f"The registry's manifest cannot be used: {why}.", hint="Ask whoever published it.")
