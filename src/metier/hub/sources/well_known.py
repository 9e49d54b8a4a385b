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
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from metier._lazy import dataclass
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
    from metier.hub.sources.discovery_index import DiscoveryIndex, IndexEntry
    from metier.hub.sources.fetch import Transfer
    from metier.skill.package import Files

_FOLDERS = ("agent-skills", "skills")
"""Where an index lies, the newer one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    client: HttpClient
    entries: tuple[IndexEntry, ...]
    warnings: tuple[str, ...]
    revision: str


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The state of the index; empty where it announces no digests, so that only the files tell."""
    chosen = _chosen(address, address.ref, transfer)
    is_exact = bool(address.ref) and address.ref == chosen.revision
    return Resolved(
        address=address,
        revision=chosen.revision,
        is_exact=is_exact,
        data=chosen,
        parts={entry.name: entry.state for entry in chosen.entries},
        deprecated={entry.name: entry.deprecated for entry in chosen.entries if entry.deprecated},
    )


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skills of an index; each is downloaded when it is read."""
    chosen = resolved.data
    if not isinstance(chosen, _Chosen):
        chosen = _chosen(resolved.address, resolved.revision, transfer)
    yield Fetched(
        resolved=resolved,
        candidates=[_candidate(entry, chosen.client) for entry in chosen.entries],
        warnings=(*chosen.warnings, *chosen.client.warnings),
    )


def _chosen(address: SourceAddress, ref: str, transfer: Transfer) -> _Chosen:
    """The entries that an address means: all of them or one, as they are or of a version or digest."""
    client, index = _read_index(address, transfer)
    name = address.path
    entries = tuple(entry for entry in index.entries if name in ("", entry.name))
    if name and not entries:
        raise SkillNotFound(
            f"{shown_url(address.location)} has no skill {shown(name)!r}.", hint="Name the site alone to see them all."
        )
    revision = _state(entries, is_one=bool(name))
    if ref not in ("", revision):
        entries = tuple(found for entry in entries if (found := entry.at(ref)) is not None)
        if not entries:
            versions = [one.version for entry in index.entries if entry.name == name for one in entry.releases]
            raise SourceUnavailable(
                f"{shown_url(address.location)} has nothing of version {shown(ref, 80)!r}, or it was withdrawn.",
                hint=f"There are {', '.join(versions[:10])}." if any(versions) else "Leave the version out.",
            )
        revision = _state(entries, is_one=bool(name))
    return _Chosen(client=client, entries=entries, warnings=index.warnings, revision=revision)


def _state(entries: tuple[IndexEntry, ...], *, is_one: bool) -> str:
    states = sorted([entry.name, entry.type, entry.state] for entry in entries)
    if is_one or not all(entry.state for entry in entries):
        return entries[0].state if is_one else ""
    return sha256_of(json.dumps(states).encode())


def _read_index(address: SourceAddress, transfer: Transfer) -> tuple[HttpClient, DiscoveryIndex]:
    """The index of a site."""
    base = address.location
    client = HttpClient(base, transfer)
    missing: SourceUnavailable | None = None
    for place in _FOLDERS:
        url = f"{base}/.well-known/{place}/index.json"
        try:
            data, found = client.get_json(url, "an index of skills", max_bytes=MAX_INDEX)
        except SourceUnavailable as error:
            # Only where there is none is the other one looked for: it has no digests, and whoever damages the newer
            # one must not get what they want by that.
            if error.context.get("status") not in (403, 404, 410):
                raise
            missing = missing or error
            continue
        return client, parse_index(data, found.url)
    raise missing or SourceUnavailable(f"{shown_url(base)} announces no skills.", hint="Check the address.")


def _candidate(entry: IndexEntry, client: HttpClient) -> Candidate:
    files = functools.cache(functools.partial(_files, entry, client))
    notes = []
    if urlsplit(entry.url).netloc != urlsplit(client.origin).netloc:
        notes.append(f"Its files come from {shown(urlsplit(entry.url).netloc)}.")
    if entry.deprecated:
        notes.append(entry.deprecated)
    return Candidate(
        folder=entry.name,
        path=entry.name,
        skill_file=lambda: files()["SKILL.md"][1],
        files=files,
        about=entry.about,
        version=entry.version,
        yanked=entry.yanked,
        notes=tuple(notes),
    )


def _files(entry: IndexEntry, client: HttpClient) -> Files:
    """The files of a skill, verified by the digests of the index before anything is unpacked."""
    what = f"the skill {entry.name}"
    if entry.type == "skill-md":
        body = client.get(entry.url, what, types=MARKDOWN, max_bytes=MAX_SKILL_BYTES, digest=entry.digest).body
        found: Files = {"SKILL.md": ("file", body)}
    elif entry.type == "archive":
        most = ArchiveLimits().archive_bytes
        body = client.get(entry.url, what, types=ARCHIVE, max_bytes=most, digest=entry.digest).body
        tree = archive_tree(body)
        if "SKILL.md" not in tree.modes:
            raise SkillInvalid(f"The archive of {entry.name} has no SKILL.md at its root.", hint="Ask its author.")
        found = candidates_of(tree, folders=[""])[0].files()
    else:
        found = candidates_of(memory_tree(_downloaded(entry, client, what)), folders=[""])[0].files()
    name = read_frontmatter(found["SKILL.md"][1]).mapping.get("name")
    if isinstance(name, str) and name.strip() != entry.name:
        raise SkillInvalid(
            f"The entry {entry.name} of the index has the skill {shown(name)!r}.", hint="Ask whoever runs the site."
        )
    if entry.content and digest_of_files(found) != entry.content:
        raise IntegrityFailed(
            f"The files of {entry.name} are not those that the index announces.",
            hint="Do not install it; ask whoever runs the site.",
            expected=entry.content,
            actual=digest_of_files(found),
        )
    return found


def _downloaded(entry: IndexEntry, client: HttpClient, what: str) -> Files:
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
