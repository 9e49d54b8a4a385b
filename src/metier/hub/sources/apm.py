"""A registry of APM (HTTP API v1): the versions of a package, and the archive of one of them.

The archive's digest, as the list of versions announces it, is the state; a version whose digest changed is another one.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote

from metier._lazy import replace
from metier.errors import IntegrityFailed, InvalidArgument, SourceUnavailable
from metier.hub.sources.connection import shown_url
from metier.hub.sources.fetch import Resolved
from metier.hub.sources.fields import bounded_list, object_at, refused, required_text, text_at
from metier.hub.sources.http import HttpClient
from metier.hub.sources.layout import candidates_by_layout
from metier.hub.sources.tree import archive_tree
from metier.skill import shown
from metier.skill.package import is_digest
from metier.skill.skill_requirement import version_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Fetched, Transfer

_MAX_VERSIONS = 10_000


class _Version(NamedTuple):
    version: str
    digest: str
    published: str
    yanked: str


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The version that an address names, or the newest one that was not withdrawn."""
    package = _identity(address)
    client = HttpClient(address.location, transfer)
    url = f"{address.location.removesuffix(package)}v1/packages/{package}/versions"
    data, listing = client.get_json(url, "the list of versions")
    versions = _versions(data, url)
    chosen = _choice(versions, address.ref, package)
    return Resolved(
        address=address,
        revision=chosen.digest,
        is_exact=address.ref == chosen.digest,
        data=(client, url, chosen, listing.warnings),
        yanked={one.digest: one.yanked for one in versions if one.yanked},
    )


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skills in the archive of a version."""
    data = resolved.data or resolve(replace(resolved.address, ref=resolved.revision), transfer).data
    client, url, chosen, warnings = cast("tuple[HttpClient, str, _Version, tuple[str, ...]]", data)
    package = _identity(resolved.address)
    what = f"version {shown(chosen.version, 60)} of {package}"
    archive = client.get_archive(f"{url}/{quote(chosen.version, safe='')}/download", what, chosen.digest)
    found = candidates_by_layout(archive_tree(archive.body), resolved)
    candidates = [
        replace(one, package=one.package or package, version=one.version or chosen.version, yanked=chosen.yanked)
        for one in found.candidates
    ]
    yield replace(found, candidates=candidates, warnings=(*found.warnings, *warnings, *archive.warnings))


def _identity(address: SourceAddress) -> str:
    """The package: the last two segments of the address, or the last one where its slashes are written as %2F."""
    parts = address.location.partition("://")[2].partition("/")[2].split("/")
    if "%2f" in parts[-1].lower():
        return parts[-1]
    if len(parts) < 2 or not all(parts) or {".", ".."} & set(parts):
        raise InvalidArgument(
            f"{shown_url(address.location)} names no package of a registry.",
            hint="Write apm+https://HOST/BASE/OWNER/REPOSITORY, with @VERSION for another than the newest.",
        )
    return "/".join(parts[-2:])


def _versions(data: dict[str, Any], url: str) -> list[_Version]:
    with refused(shown_url(url)):
        listed = bounded_list(data, "versions", _MAX_VERSIONS)
    found: dict[str, _Version] = {}
    for one in listed:
        with contextlib.suppress(ValueError):  # one without a name or digest is no version
            version = required_text(one, "version", lambda text: text.isprintable() and 0 < len(text) <= 200, "")
            digest = required_text(one, "digest", is_digest, "")
            yanked = text_at(one, "yanked") or ("no reason is given." if object_at(one).get("yanked") else "")
            entry = found.setdefault(version, _Version(version, digest, text_at(one, "published_at"), yanked))
            if entry.digest != digest:
                raise IntegrityFailed(
                    f"{shown_url(url)} has two contents for version {shown(version, 60)}.",
                    hint="Do not install it; ask whoever runs the registry.",
                )
    return list(found.values())


def _choice(versions: list[_Version], ref: str, package: str) -> _Version:
    for one in versions:
        if one.digest == ref:
            return one  # a lock names it; that it was withdrawn is told, and does not stop it
    wanted = [one for one in versions if ref in ("", one.version)] or [
        one for one in versions if version_of(ref) is not None and version_of(one.version) == version_of(ref)
    ]
    found = [one for one in wanted if not one.yanked]
    if not found:
        names = ", ".join(shown(one.version, 40) for one in versions[:10] if not one.yanked)
        gone = f"was withdrawn: {wanted[0].yanked}" if wanted else ""
        every = f"Every version of {package} {gone}" if gone else f"{package} is empty."
        raise SourceUnavailable(
            f"{package} has no version {shown(ref, 80)!r}.{gone and f' It {gone}'}" if ref else every,
            hint=f"There are {names}." if names else "Choose another package.",
        )
    return max(found, key=_age)


def _age(one: _Version) -> tuple[bool, Any, str]:
    """The order of versions: the highest number that is no trial version, or else the last one that was published."""
    number = version_of(one.version)
    return (number is not None and not number.is_prerelease, number or version_of("0.dev0"), one.published)
