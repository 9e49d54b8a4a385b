"""An OCI registry as a source: skills as artifacts, and collections of them.

An artifact is a manifest with one layer, a gzipped tar of the skill; a collection is an index of such manifests. A tag
means the digest of the bytes that the registry gives for it, whatever it calls them, and all else hangs on that digest:
manifests and layers are verified before anybody looks inside.
"""

from __future__ import annotations

import contextlib
import functools
import time
from posixpath import basename
from typing import TYPE_CHECKING, Any

from metier._extras import optional
from metier._hosts import is_local
from metier._lazy import pattern
from metier.errors import InvalidArgument, SourceUnavailable
from metier.hub.sources.fetch import Candidate, Fetched, Resolved
from metier.hub.sources.fields import bounded_list, object_at, refused, text_at
from metier.hub.sources.http import HttpClient, sha256_of
from metier.hub.sources.tree import archive_tree, candidates_of
from metier.skill import is_valid_name, shown
from metier.skill.package import is_digest
from metier.source.unpack import ArchiveLimits
from metier.store.canonical_json import parse_strict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Transfer

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
SKILL = "application/vnd.agentskills.skill.v1"
CONFIG = "application/vnd.agentskills.skill.config.v1+json"
CONTENT = "application/vnd.agentskills.skill.content.v1.tar+gzip"
COLLECTION = "application/vnd.agentskills.collection.v1"
NAME = "io.agentskills.skill.name"
TITLE, VERSION = "org.opencontainers.image.title", "org.opencontainers.image.version"

_MAX_MANIFEST_BYTES = 4 * 1024 * 1024
"""The size of manifests that registries have to accept."""
_MAX_SKILLS = 1_000
_PIECE = 64 * 1024
_LATEST = "latest"
_MANIFEST = "The registry's manifest"
_HOST = pattern(r"[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,5})?|\[[0-9a-fA-F:]+\](:\d{1,5})?")
_NAME = pattern(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = pattern(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The digest of the manifest that a tag means now; `@sha256:...` is exact, and asks nobody."""
    repository = OciRepository(address.location, transfer)
    if is_digest(address.ref):
        return Resolved(address=address, revision=address.ref, is_exact=True)
    tag = address.ref or _LATEST
    try:
        data = repository.manifest(tag)
    except SourceUnavailable as error:
        if error.context.get("status") != 404:
            raise
        name = shown(address.location, 200)
        raise SourceUnavailable(
            f"oci:{name} has no tag {shown(tag, 80)!r}, or is not there.",
            hint=f"Name a version that was published there, such as oci:{name}:1.2.0.",
            status=404,
        ) from None
    return Resolved(address=address, revision=sha256_of(data), data=data)


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skill of an artifact, or the skills of a collection, each of which is fetched when its files are read."""
    repository = OciRepository(resolved.address.location, transfer)
    data = resolved.data if isinstance(resolved.data, bytes) else repository.manifest(resolved.revision)
    with refused(_MANIFEST):
        manifest = _read_manifest(data)
        if manifest.get("artifactType") == COLLECTION:
            members = bounded_list(manifest, "manifests", _MAX_SKILLS)
            # A collection in a collection is not looked into, so that none can hold itself.
            skills = [one for one in members if isinstance(one, dict) and one.get("artifactType") in (SKILL, None)]
            candidates = [_member(repository, one, number) for number, one in enumerate(skills, 1)]
        else:
            candidates = [_artifact(repository, manifest, basename(resolved.address.location))]
    yield Fetched(resolved=resolved, candidates=candidates)


def _member(repository: OciRepository, value: dict[str, Any], number: int) -> Candidate:
    """A skill of a collection, whose manifest is downloaded when its files are read."""
    digest, size = _descriptor(value, "a skill", _MAX_MANIFEST_BYTES)
    name = _name(value, f"skill-{number}")

    def read() -> Candidate:
        return _artifact(repository, _read_manifest(repository.manifest(digest, max_bytes=size)), name)

    return _unread(read, name, name, value)


def _artifact(repository: OciRepository, manifest: dict[str, Any], fallback: str) -> Candidate:
    """The skill of a manifest, whose layer is downloaded when its files are read."""
    kind = manifest.get("artifactType") or object_at(manifest, "config").get("mediaType")
    if kind not in (SKILL, CONFIG):
        raise ValueError(f"it is {shown(str(kind or 'an image'), 100)}, and no skill")
    layers = manifest.get("layers")
    if not isinstance(layers, list) or len(layers) != 1 or not isinstance(layers[0], dict):
        raise ValueError("a skill has exactly one layer")
    if layers[0].get("mediaType") != CONTENT:
        raise ValueError(f"its layer is {shown(str(layers[0].get('mediaType')), 100)}")
    digest, size = _descriptor(layers[0], "its layer", ArchiveLimits().archive_bytes)
    name = _name(manifest, fallback)

    def read() -> Candidate:
        data = repository.blob(digest, size, shown(name))
        if len(data) != size:
            raise ValueError(f"its layer has {len(data):,} bytes, and its manifest says {size:,}")
        found = candidates_of(archive_tree(data))
        if len(found) != 1:
            raise ValueError(f"its layer has {len(found):,} skills, and should have one")
        return found[0]

    return _unread(read, name, "", manifest)


def _unread(read: Callable[[], Candidate], name: str, path: str, described: dict[str, Any]) -> Candidate:
    """A skill that is downloaded once, and when its files are read; a manifest or descriptor describes it."""

    @functools.cache
    def downloaded() -> Candidate:
        with refused(_MANIFEST):
            return read()

    return Candidate(
        folder=name,
        path=path,
        skill_file=lambda: downloaded().skill_file(),
        files=lambda: downloaded().files(),
        version=text_at(object_at(described, "annotations"), VERSION),
    )


def _descriptor(value: dict[str, Any], what: str, most: int) -> tuple[str, int]:
    """The digest and the size of something, as a manifest names it."""
    digest, size = value.get("digest"), value.get("size")
    if not is_digest(digest) or not isinstance(size, int):
        raise ValueError(f"it names {what} by no sha256 and size")
    if not 0 < size <= most:
        raise ValueError(f"{what} has {size:,} bytes, and at most {most:,} are taken")
    return str(digest), size


def _name(described: dict[str, Any], fallback: str) -> str:
    annotations = object_at(described, "annotations")
    given = text_at(annotations, NAME) or text_at(annotations, TITLE)
    return given if is_valid_name(given) else fallback


def _read_manifest(data: bytes) -> dict[str, Any]:
    found = parse_strict(data.decode("utf-8", "replace"))
    if found is None or found.get("schemaVersion") != 2:
        raise ValueError("it is no OCI manifest")
    return found


class OciRepository:
    """A repository, such as `ghcr.io/acme/skills/pdf`; http is spoken only with this machine itself."""

    def __init__(self, location: str, transfer: Transfer) -> None:
        self.host, _, self.name = location.partition("/")
        self.transfer = transfer
        if not _HOST.fullmatch(self.host) or not _NAME.fullmatch(self.name) or len(self.name) > 255:
            raise InvalidArgument(
                f"{shown(location, 200)!r} is no repository of a registry.",
                hint="Write it as oci:ghcr.io/acme/pdf:1.2.0.",
            )
        self.is_local = is_local(self.host)
        self.address = f"{'http' if self.is_local else 'https'}://{self.host}"
        self._client = HttpClient(self.address, transfer, accept=f"{MANIFEST}, {INDEX}")

    def manifest(self, reference: str, *, max_bytes: int = _MAX_MANIFEST_BYTES) -> bytes:
        """The manifest of a tag, or of a digest, which it is then checked against."""
        digest = reference if is_digest(reference) else ""
        if not digest and not _TAG.fullmatch(reference):
            raise InvalidArgument(f"{shown(reference)!r} is no tag.", hint="Write a tag, or a digest as sha256:...")
        return self._get(f"manifests/{reference}", f"the manifest {shown(reference, 80)}", max_bytes, digest)

    def blob(self, digest: str, size: int, what: str) -> bytes:
        """The blob of a digest, of at most so many bytes."""
        return self._get(f"blobs/{digest}", what, size, digest)

    def _get(self, path: str, what: str, most: int, digest: str) -> bytes:
        get = functools.partial(
            self._client.get, f"{self.address}/v2/{self.name}/{path}", what, max_bytes=most, digest=digest
        )
        try:
            return get().body
        except SourceUnavailable as error:
            challenge = error.context.get("challenge")
            if error.context.get("status") != 401 or not challenge or self._client.authorization:
                raise
            self._client.authorization = _authorization(self, str(challenge))
        return get().body


def _authorization(repository: OciRepository, challenge: str) -> str:
    """The value of `Authorization` that a registry asks for, by the credentials of docker's config.json."""
    registry = oras_registry(repository, "basic" if challenge.lower().startswith("basic") else "token")
    import requests

    asked = requests.Response()
    asked.headers["Www-Authenticate"] = challenge
    try:
        headers, _ = registry.auth.authenticate_request(asked, {})
        value = str(headers.get("Authorization", ""))
    except Exception:  # of many kinds, for answers of strangers
        value = ""
    if not value.isascii() or not value.isprintable() or not value:
        raise SourceUnavailable(
            f"{shown(repository.host)} asks for credentials, and takes none that are here.",
            hint=f"Log in: `docker login {repository.host}`.",
            status=401,
        )
    return value


def oras_registry(repository: OciRepository, auth_backend: str = "token") -> Any:
    """The registry as the library `oras` knows it, with the user's credentials; every answer to it is bounded."""
    with optional("Registries that ask for credentials, and publishing to one,", "oras", extra="oci"):
        import oras.logger
        import oras.provider
        import requests

    class _BoundedSession(requests.Session):
        """Speaks only https, and http with this machine; reads no answer for ever."""

        def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
            # Also what a redirect or the address of a token service leads to comes through here.
            url = str(request.url)
            is_here = repository.is_local and url.startswith(f"{repository.address}/")
            if not url.startswith("https://") and not is_here:
                raise requests.exceptions.InvalidURL(f"{url[:200]} is not spoken with")
            response = super().send(request, **(options | {"timeout": 60, "stream": True}))
            body, until = b"", time.monotonic() + repository.transfer.seconds
            with response:
                while piece := response.raw.read1(_PIECE, decode_content=True):
                    body += piece
                    if len(body) > _MAX_MANIFEST_BYTES or time.monotonic() > until:
                        raise requests.exceptions.ContentDecodingError("it sends more, or longer, than it may")
            response._content, response._content_consumed = body, True
            return response

    oras.logger.setup_logger(quiet=True)
    registry = oras.provider.Registry(hostname=repository.host, insecure=repository.is_local, auth_backend=auth_backend)
    registry.session = registry.auth.session = _BoundedSession()
    # Without the library's retries, which wait for minutes.
    registry.do_request = functools.partial(oras.provider.Registry.do_request.__wrapped__, registry)
    registry.auth.load_configs(registry.get_container(f"{repository.host}/{repository.name}"))
    return registry
