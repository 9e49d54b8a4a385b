"""A repository of an OCI registry: its manifests and blobs, verified by their digests before anybody looks inside."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from metier._extras import optional
from metier._hosts import is_local
from metier._lazy import pattern
from metier.errors import InvalidArgument, SourceUnavailable
from metier.hub.sources.http import HttpClient, check_digest, is_digest
from metier.skill import shown
from metier.store.canonical_json import parse_strict

if TYPE_CHECKING:
    from metier.hub.sources.fetch import Transfer

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
"""The size of manifests that registries have to accept."""
_HOST = pattern(r"[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,5})?|\[[0-9a-fA-F:]+\](:\d{1,5})?")
_NAME = pattern(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = pattern(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PIECE = 64 * 1024


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

    def manifest(self, reference: str, *, max_bytes: int = MAX_MANIFEST_BYTES) -> bytes:
        """The manifest of a tag, or of a digest, which it is then checked against."""
        digest = reference if is_digest(reference) else ""
        if not digest and not _TAG.fullmatch(reference):
            raise InvalidArgument(f"{shown(reference)!r} is no tag.", hint="Write a tag, or a digest as sha256:...")
        return self._get(f"manifests/{reference}", f"the manifest {shown(reference, 80)}", max_bytes, digest)

    def blob(self, digest: str, size: int, what: str) -> bytes:
        """A blob that a manifest names, with exactly the size and the digest that it says."""
        data = self._get(f"blobs/{digest}", what, size, digest)
        if len(data) != size:
            raise SourceUnavailable(
                f"{shown(what)} has {len(data):,} bytes, and its manifest says {size:,}.",
                hint="Ask whoever published it.",
            )
        return data

    def _get(self, path: str, what: str, most: int, digest: str) -> bytes:
        url = f"{self.address}/v2/{self.name}/{path}"
        try:
            found = self._client.get(url, what, max_bytes=most)
        except SourceUnavailable as error:
            challenge = error.context.get("challenge")
            if error.context.get("status") != 401 or not challenge or self._client.authorization:
                raise
            self._client.authorization = authorization(self, str(challenge))
            found = self._client.get(url, what, max_bytes=most)
        check_digest(what, found.body, digest)
        return found.body


def read_manifest(data: bytes) -> dict[str, Any]:
    """A manifest or index as plain data; raises `SourceUnavailable` for anything else."""
    found = parse_strict(data.decode("utf-8", "replace"))
    if found is None or found.get("schemaVersion") != 2:
        raise SourceUnavailable("The registry has no OCI manifest there.", hint="Check the address.")
    return found


def authorization(repository: OciRepository, challenge: str) -> str:
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
            if not url.startswith("https://") and not (
                repository.is_local and url.startswith(f"{repository.address}/")
            ):
                raise requests.exceptions.InvalidURL(f"{url[:200]} is not spoken with")
            response = super().send(request, **(options | {"timeout": 60, "stream": True}))
            body, until = b"", time.monotonic() + repository.transfer.seconds
            with response:
                while piece := response.raw.read1(_PIECE, decode_content=True):
                    body += piece
                    if len(body) > MAX_MANIFEST_BYTES or time.monotonic() > until:
                        raise requests.exceptions.ContentDecodingError("it sends more, or longer, than it may")
            response._content, response._content_consumed = body, True
            return response

    class _Registry(oras.provider.Registry):  # type: ignore[misc]
        def do_request(self, *arguments: Any, **options: Any) -> requests.Response:
            # Without the library's retries, which wait for minutes.
            answer: requests.Response = oras.provider.Registry.do_request.__wrapped__(self, *arguments, **options)
            return answer

    oras.logger.setup_logger(quiet=True)
    registry = _Registry(hostname=repository.host, insecure=repository.is_local, auth_backend=auth_backend)
    registry.session = registry.auth.session = _BoundedSession()
    registry.auth.load_configs(registry.get_container(f"{repository.host}/{repository.name}"))
    return registry
