"""A registry of APM (HTTP API v1): the versions of a package, and the archive of one of them.

The archive's digest, as the list of versions announces it, is the state; a version whose digest changed is another one.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, replace
from metier.errors import IntegrityFailed, InvalidArgument, SourceUnavailable
from metier.hub.sources.fetch import Resolved
from metier.hub.sources.http import ARCHIVE, HttpClient, is_digest, shown_url
from metier.hub.sources.layout import candidates_by_layout
from metier.hub.sources.tree import archive_tree
from metier.skill import shown
from metier.skill.skill_requirement import version_of
from metier.source.unpack import ArchiveLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Fetched, Transfer

_MAX_LIST = 8 * 1024 * 1024
_MAX_VERSIONS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    version: str
    digest: str
    published: str = ""
    yanked: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    client: HttpClient
    version: _Version


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The version that an address names, or the newest one that was not withdrawn."""
    chosen = _chosen(address, address.ref, transfer)
    revision = chosen.version.digest
    return Resolved(address=address, revision=revision, is_exact=address.ref == revision, data=chosen)


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skills in the archive of a version."""
    chosen = resolved.data
    if not isinstance(chosen, _Chosen):
        chosen = _chosen(resolved.address, resolved.revision, transfer)
    from urllib.parse import quote

    address, version = resolved.address, chosen.version
    url = f"{_package_url(address)}/versions/{quote(version.version, safe='')}/download"
    what = f"version {shown(version.version, 60)} of {_identity(address)}"
    most = ArchiveLimits().archive_bytes
    body = chosen.client.get(url, what, types=ARCHIVE, max_bytes=most, digest=version.digest).body
    found = candidates_by_layout(archive_tree(body), resolved)
    yield replace(
        found,
        candidates=[
            replace(
                one,
                package=one.package or _identity(address),
                version=one.version or version.version,
                yanked=version.yanked,
            )
            for one in found.candidates
        ],
        warnings=(*found.warnings, *chosen.client.warnings),
    )


def _chosen(address: SourceAddress, ref: str, transfer: Transfer) -> _Chosen:
    client = HttpClient(address.location, transfer)
    url = f"{_package_url(address)}/versions"
    data, _ = client.get_json(url, "the list of versions", max_bytes=_MAX_LIST)
    return _Chosen(client=client, version=_choice(_versions(data, url), ref, _identity(address)))


def _package_url(address: SourceAddress) -> str:
    """The address of a package below its registry: `BASE/v1/packages/OWNER/REPOSITORY`."""
    identity = _identity(address)
    return f"{address.location[: -len(identity) - 1]}/v1/packages/{identity}"


def _identity(address: SourceAddress) -> str:
    """The package: the last two segments of the address, or the last one where its slashes are written as %2F."""
    path = address.location.partition("://")[2].partition("/")[2]
    parts = path.split("/")
    if "%2f" in parts[-1].lower():
        return parts[-1]
    if len(parts) < 2 or not all(parts) or {".", ".."} & set(parts):
        raise InvalidArgument(
            f"{shown_url(address.location)} names no package of a registry.",
            hint="Write apm+https://HOST/BASE/OWNER/REPOSITORY, with @VERSION for another than the newest.",
        )
    return "/".join(parts[-2:])


def _versions(data: dict[str, Any], url: str) -> list[_Version]:
    listed = data.get("versions")
    if not isinstance(listed, list) or len(listed) > _MAX_VERSIONS:
        raise SourceUnavailable(
            f"{shown_url(url)} has no list of at most {_MAX_VERSIONS:,} versions.",
            hint="Ask whoever runs the registry.",
        )
    found: dict[str, _Version] = {}
    for one in listed:
        version, digest = (one.get("version"), one.get("digest")) if isinstance(one, dict) else ("", "")
        if not isinstance(version, str) or not 0 < len(version) <= 200 or not version.isprintable():
            continue
        if not isinstance(digest, str) or not is_digest(digest):
            continue
        published, yanked = one.get("published_at"), one.get("yanked")
        entry = _Version(
            version=version,
            digest=digest,
            published=published if isinstance(published, str) else "",
            yanked=shown(yanked, 200) if isinstance(yanked, str) else "withdrawn" if yanked else "",
        )
        if found.setdefault(version, entry).digest != digest:
            raise IntegrityFailed(
                f"{shown_url(url)} has two contents for version {shown(version, 60)}.",
                hint="Do not install it; ask whoever runs the registry.",
            )
    return list(found.values())


def _choice(versions: list[_Version], ref: str, package: str) -> _Version:
    by_digest = [one for one in versions if one.digest == ref]
    if by_digest:
        return by_digest[0]  # a lock names it; that it was withdrawn is told, and does not stop it
    wanted = [one for one in versions if one.version == ref] or [
        one for one in versions if ref and version_of(ref) is not None and version_of(one.version) == version_of(ref)
    ]
    found = [one for one in (wanted if ref else versions) if not one.yanked]
    if not found:
        names = ", ".join(shown(one.version, 40) for one in versions[:10] if not one.yanked)
        gone = next((f" It was withdrawn: {one.yanked}." for one in wanted), "")
        raise SourceUnavailable(
            f"{package} has no version {shown(ref, 80)!r}.{gone}" if ref else f"{package} is empty.",
            hint=f"There are {names}." if names else "Choose another package.",
        )
    return max(found, key=_age)


def _age(one: _Version) -> tuple[bool, Any, str]:
    """The order of versions: the highest number that is no trial version, or else the last one that was published."""
    number = version_of(one.version)
    return (number is not None and not number.is_prerelease, number or version_of("0.dev0"), one.published)
