"""The registry of a server as the command line uses it: a person's token, and requests that are safe to send again."""

from __future__ import annotations

import http
from typing import TYPE_CHECKING, Any

from metier._json_object import text_at
from metier._lazy import replace
from metier.errors import InvalidArgument, ServerRefused, SkillExists, SkillInvalid
from metier.guard.node.connection import ServerConnection
from metier.hub.publish.pack import pack
from metier.hub.publish.release import read_release
from metier.hub.registry.namespaces import DEFAULT
from metier.skill import is_valid_name, shown
from metier.skill.skill_requirement import version_of

if TYPE_CHECKING:
    import os

    from metier.hub.publish.release import Release

_SECONDS = 120.0
"""The longest wait for a content to be sent, and looked at by the scanner."""


class RegistryServer:
    """The registry of one server, and who uses it."""

    def __init__(self, url: str, token: str) -> None:
        self._connection = ServerConnection(url, token)
        self.url = self._connection.url

    def publish(
        self, release: Release, namespace: str, *, reason: str = "", accept_findings: str = "", submit: bool = False
    ) -> dict[str, Any]:
        """Publish a release in a namespace, or submit it for review; returns the server's answer."""
        self._connection.request(
            "PUT", f"/api/v1/contents/{release.digest}", data=pack(release.files, "tar.gz"), seconds=_SECONDS
        )
        body = {"digest": release.digest, "version": release.version, "reason": reason}
        body |= {} if submit else {"accept_findings": accept_findings}
        kind = "submissions" if submit else "packages"
        return self._connection.request("POST", f"/api/v1/{kind}/{namespace}", body, seconds=_SECONDS).json

    def deploy(
        self, release: Release, namespace: str, *, reason: str = "", accept_findings: str = ""
    ) -> dict[str, Any]:
        """Deploy a release to all nodes of the server, and publish it first where it is not; returns the answer.

        Without a version of its own it gets the next whole number, or the one that its content has there.
        """
        release = release if release.version else self._numbered(release, namespace)
        path = f"/api/v1/packages/{namespace}/{release.name}/{release.version}"
        try:
            published = self._connection.request("GET", path).json
        except ServerRefused as error:
            if error.context.get("status") != http.HTTPStatus.NOT_FOUND:
                raise
            published = self.publish(release, namespace, reason=reason, accept_findings=accept_findings)
        if published.get("digest") != release.digest:
            raise SkillExists(
                f"{release.label} is published with another content, and a version never changes.",
                hint="Give it a new version.",
                name=release.name,
            )
        body = {"namespace": namespace, "version": release.version}
        body |= {"reason": reason, "accept_findings": accept_findings}
        return self._connection.request("PUT", f"/api/v1/deployments/{release.name}", body, seconds=_SECONDS).json

    def _numbered(self, release: Release, namespace: str) -> Release:
        try:
            found = self._connection.request("GET", f"/api/v1/packages/{namespace}/{release.name}?limit=200").json
        except ServerRefused as error:
            if error.context.get("status") != http.HTTPStatus.NOT_FOUND:
                raise
            found = {}
        known = {text_at(one, "version"): text_at(one, "digest") for one in found.get("items", ())}
        same = next((version for version, digest in known.items() if digest == release.digest), "")
        numbers = [number.major for number in map(version_of, known) if number is not None]
        return replace(release, version=same or str(max(numbers, default=0) + 1))


def read_versioned(path: str | os.PathLike[str], key: str = "") -> Release:
    """The release in a folder, signed by the private key in a file; raises `SkillInvalid` without a version."""
    release = read_release(path, key=key)
    if not release.version:
        raise SkillInvalid(
            f"{shown(release.name)!r} has no version, and what was published never changes.",
            hint="Write `version: 1.0.0` below `metadata:` in its SKILL.md.",
        )
    return release


def split_namespace(url: str) -> tuple[str, str]:
    """The address of a server, and the namespace that may stand behind it.

    >>> split_namespace("https://skills.example.com/acme"), split_namespace("https://skills.example.com")
    (('https://skills.example.com', 'acme'), ('https://skills.example.com', 'default'))
    """
    scheme, _, rest = url.rstrip("/").partition("://")
    host, _, namespace = rest.partition("/")
    if namespace and not is_valid_name(namespace):
        raise InvalidArgument(f"{shown(url, 300)!r} names no namespace.", hint="Write https://HOST/NAMESPACE.")
    return f"{scheme}://{host}", namespace or DEFAULT
