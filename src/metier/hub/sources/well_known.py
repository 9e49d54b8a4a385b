"""Skills that a web site announces below `/.well-known/`: the discovery index v0.2.0, or v0.1.0 where there is none.

The state of a skill is the digest of its artifact, that of a site the digest of all of them: one request tells which of
its skills changed. Artifacts may lie on other hosts, because their digests, which are verified before anything is
unpacked, bind them to the index.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

from metier._lazy import replace
from metier.errors import IntegrityFailed, SkillInvalid, SkillNotFound, SourceUnavailable
from metier.hub.sources.discovery_index import MAX_INDEX, parse_index
from metier.hub.sources.fetch import Candidate, Fetched, Resolved
from metier.hub.sources.http import ARCHIVE, MARKDOWN, HttpClient, joined, sha256_of, shown_url
from metier.hub.sources.tree import archive_tree, candidates_of, memory_tree
from metier.skill import MAX_SKILL_BYTES, read_frontmatter, shown
from metier.skill.package import MAX_FILE_BYTES, digest_of_files
from metier.source.unpack import ArchiveLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.discovery_index import IndexEntry
    from metier.hub.sources.fetch import Transfer
    from metier.skill.package import Files

_FOLDERS = ("agent-skills", "skills")
"""Where an index lies, the newer one first."""


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The skills of an index, or the one that an address names, as they are or of a version or digest.

    The state is empty where no digests are announced, so that only the files tell.
    """
    client = HttpClient(address.location, transfer)
    listed, warnings = _read_index(address.location, client)
    entries = [entry for entry in listed if address.path in ("", entry.name)]
    if address.path and not entries:
        raise SkillNotFound(
            f"{shown_url(address.location)} has no skill {shown(address.path)!r}.",
            hint="Name the site alone to see them all.",
        )
    if address.ref not in ("", _state(entries, address)):
        entries = _entries_at(address, entries)
    revision = _state(entries, address)
    return Resolved(
        address=address,
        revision=revision,
        is_exact=bool(revision) and revision == address.ref,
        data=([_candidate(entry, client) for entry in entries], warnings),
        parts={entry.name: entry.state for entry in entries},
        deprecated={entry.name: entry.deprecated for entry in entries if entry.deprecated},
    )


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skills of an index; each is downloaded when it is read."""
    data = resolved.data or resolve(replace(resolved.address, ref=resolved.revision), transfer).data
    candidates, warnings = cast("tuple[list[Candidate], tuple[str, ...]]", data)
    yield Fetched(resolved=resolved, candidates=candidates, warnings=warnings)


def _read_index(site: str, client: HttpClient) -> tuple[list[IndexEntry], tuple[str, ...]]:
    missing: SourceUnavailable | None = None
    for folder in _FOLDERS:
        try:
            data, found = client.get_json(
                f"{site}/.well-known/{folder}/index.json", "an index of skills", max_bytes=MAX_INDEX
            )
        except SourceUnavailable as error:
            # Only where there is none is the other one looked for: it has no digests, and whoever damages the newer
            # one must not get what they want by that.
            if error.context.get("status") not in (403, 404, 410):
                raise
            missing = missing or error
            continue
        entries, warnings = parse_index(data, found.url)
        return entries, (*warnings, *found.warnings)
    raise missing or SourceUnavailable(f"{shown_url(site)} announces no skills.", hint="Check the address.")


def _entries_at(address: SourceAddress, entries: list[IndexEntry]) -> list[IndexEntry]:
    """The releases of a version or digest; raises `SourceUnavailable` where there are none."""
    found = [one for entry in entries if (one := entry.at(address.ref)) is not None]
    if not found:
        releases = [one for entry in entries for one in entry.releases]
        gone = next((f" It was withdrawn: {one.yanked}" for one in releases if one.version == address.ref), "")
        versions = dict.fromkeys(one.version for one in releases if one.version and not one.yanked)
        raise SourceUnavailable(
            f"{shown_url(address.location)} has no version {shown(address.ref, 80)!r}.{gone}",
            hint=f"There are {', '.join(list(versions)[:10])}." if versions else "Leave the version out.",
        )
    return found


def _state(entries: list[IndexEntry], address: SourceAddress) -> str:
    if address.path:
        return entries[0].state
    states = sorted([entry.name, entry.type, entry.state] for entry in entries)
    return sha256_of(json.dumps(states).encode()) if all(entry.state for entry in entries) else ""


def _candidate(entry: IndexEntry, client: HttpClient) -> Candidate:
    files = functools.cache(functools.partial(_files, entry, client))
    host = urlsplit(entry.url).netloc
    elsewhere = "" if host == urlsplit(client.origin).netloc else f"Its files come from {shown(host)}."
    return Candidate(
        folder=entry.name,
        path=entry.name,
        skill_file=lambda: files()["SKILL.md"][1],
        files=files,
        about=entry.about,
        version=entry.version,
        yanked=entry.yanked,
        notes=tuple(filter(None, (elsewhere, entry.deprecated))),
    )


def _files(entry: IndexEntry, client: HttpClient) -> Files:
    """The files of a skill, verified by the digests of the index before anything is unpacked."""
    what = f"the skill {entry.name}"
    if entry.type == "archive":
        most = ArchiveLimits().archive_bytes
        tree = archive_tree(client.get(entry.url, what, types=ARCHIVE, max_bytes=most, digest=entry.digest).body)
    elif entry.type == "skill-md":
        body = client.get(entry.url, what, types=MARKDOWN, max_bytes=MAX_SKILL_BYTES, digest=entry.digest).body
        tree = memory_tree({"SKILL.md": ("file", body)})
    else:
        tree = memory_tree(_single_files(entry, client, what))
    if "SKILL.md" not in tree.modes:
        raise SkillInvalid(f"The archive of {entry.name} has no SKILL.md at its root.", hint="Ask its author.")
    found = candidates_of(tree, folders=[""])[0].files()
    name = read_frontmatter(found["SKILL.md"][1]).mapping.get("name")
    if isinstance(name, str) and name.strip() != entry.name:
        raise SkillInvalid(
            f"The entry {entry.name} of the index has the skill {shown(name)!r}.", hint="Ask whoever runs the site."
        )
    actual = digest_of_files(found)
    if entry.content not in ("", actual):
        raise IntegrityFailed(
            f"The files of {entry.name} are not those that the index announces.",
            hint="Do not install it; ask whoever runs the site.",
            expected=entry.content,
            actual=actual,
        )
    return found


def _single_files(entry: IndexEntry, client: HttpClient, what: str) -> Files:
    # One limit of time and size for all files together, as for one archive.
    until = time.monotonic() + client.transfer.seconds
    left = min(client.transfer.max_bytes, ArchiveLimits().bytes)
    found: dict[str, Any] = {}
    for path, digest in entry.files:
        if left <= 0:
            raise SourceUnavailable(f"{what} has too many bytes.", hint="Ask its author for less.")
        most = min(left, MAX_FILE_BYTES)
        body = client.get(joined(entry.url, quote(path)), what, max_bytes=most, digest=digest, until=until).body
        left -= len(body)
        found[path] = ("file", body)
    return found
