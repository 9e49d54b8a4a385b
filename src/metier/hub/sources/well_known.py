"""Skills that a web site announces below `/.well-known/`: the discovery index v0.2.0, or v0.1.0 where there is none.

The state of a site is the digest of all that its index announces, so that one request tells whether anything changed.
An entry may lead to another host only with a digest, which is verified before anything is unpacked.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from metier._lazy import dataclass, field
from metier.errors import MetierError, SkillInvalid, SkillNotFound, SourceUnavailable
from metier.hub.sources.fetch import Candidate, Fetched, Resolved
from metier.hub.sources.http import ARCHIVE, MARKDOWN, HttpClient, is_digest, joined, shown_url
from metier.hub.sources.tree import MemoryTree, archive_tree, candidates_of
from metier.skill import MAX_SKILL_BYTES, is_valid_name, read_frontmatter, shown
from metier.skill.package import MAX_FILE_BYTES, MAX_FILES
from metier.source.unpack import ArchiveLimits, checked_listing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Transfer
    from metier.skill.package import Files

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_FOLDERS = ("agent-skills", "skills")
"""Where an index lies, the newer one first."""
_MAX_INDEX = 8 * 1024 * 1024
_MAX_ENTRIES = 10_000
_MAX_WARNINGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A skill of an index: one artifact with a digest (v0.2.0), or single files (v0.1.0)."""

    name: str
    type: str
    url: str
    digest: str = ""
    files: tuple[tuple[str, str], ...] = ()
    """Path and digest of each; the digest is empty where none is announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    client: HttpClient
    entries: tuple[_Entry, ...] = ()
    warnings: tuple[str, ...] = field(default=(), compare=False)


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The state of the index; empty where it announces no digests, so that only the files tell."""
    index = _read_index(address, transfer)
    state = [[entry.name, entry.type, entry.url, entry.digest, entry.files] for entry in index.entries]
    is_verified = all(entry.digest or all(digest for _, digest in entry.files) for entry in index.entries)
    text = json.dumps(sorted(state), separators=(",", ":"))
    revision = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" if is_verified else ""
    return Resolved(address=address, revision=revision, data=index)


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skills of an index; each is downloaded when it is read."""
    index = resolved.data if isinstance(resolved.data, _Index) else _read_index(resolved.address, transfer)
    yield Fetched(
        resolved=resolved,
        candidates=[_candidate(entry, index.client) for entry in index.entries],
        warnings=(*index.warnings, *index.client.warnings),
    )


def _read_index(address: SourceAddress, transfer: Transfer) -> _Index:
    base, marker, below = address.location.partition("/.well-known/")
    folder, _, name = below.strip("/").partition("/")
    if marker and folder not in _FOLDERS:
        raise SourceUnavailable(f"{shown_url(address.location)} is no index of skills.", hint="Name the site alone.")
    wanted = address.path or name.removesuffix("index.json").strip("/")
    client = HttpClient(base, transfer)
    missing: SourceUnavailable | None = None
    for place in (folder,) if marker else _FOLDERS:
        url = f"{base.rstrip('/')}/.well-known/{place}/index.json"
        try:
            data, found = client.get_json(url, "an index of skills", max_bytes=_MAX_INDEX)
        except SourceUnavailable as error:
            if error.context.get("status") not in (403, 404, 410):
                raise
            missing = missing or error
            continue
        index = _parsed(data, found.url, client)
        if wanted and not any(entry.name == wanted for entry in index.entries):
            raise SkillNotFound(
                f"{shown_url(url)} has no skill {shown(wanted)!r}.", hint="Name the site alone to see all of them."
            )
        chosen = tuple(entry for entry in index.entries if wanted in ("", entry.name))
        return _Index(client=client, entries=chosen, warnings=index.warnings)
    raise missing or SourceUnavailable(f"{shown_url(base)} announces no skills.", hint="Check the address.")


def _parsed(data: dict[str, Any], url: str, client: HttpClient) -> _Index:
    skills, schema = data.get("skills"), data.get("$schema")
    if not isinstance(skills, list) or len(skills) > _MAX_ENTRIES:
        raise SourceUnavailable(
            f"{shown_url(url)} has no list of at most {_MAX_ENTRIES:,} skills.", hint="Ask whoever runs the site."
        )
    if schema not in (None, SCHEMA):
        told = f"The index {shown_url(url)} is of another form ({shown(str(schema))}), and was not read."
        return _Index(client=client, warnings=(told,))
    warnings: list[str] = []
    entries: dict[str, _Entry] = {}
    doubles: set[str] = set()
    for number, written in enumerate(skills, 1):
        named = shown(str(written.get("name")), 80) if isinstance(written, dict) else f"no. {number}"
        try:
            entry = _entry(written, url, is_old=schema is None)
        except (MetierError, ValueError) as problem:
            told = problem.message if isinstance(problem, MetierError) else f"{problem}."
            warnings.append(f"The entry {named} of the index was left out: {told}")
            continue
        if entries.setdefault(entry.name, entry) != entry:
            doubles.add(entry.name)
    for name in sorted(doubles):
        del entries[name]
        warnings.append(f"The entry {name} of the index was left out: it is there with two contents.")
    if any(not digest for entry in entries.values() for _, digest in entry.files):
        warnings.insert(0, "The index is of v0.1.0 and announces no digests: nothing shows whether files are complete.")
    if len(warnings) > _MAX_WARNINGS:
        warnings[_MAX_WARNINGS:] = [f"{len(warnings) - _MAX_WARNINGS} more were left out."]
    return _Index(client=client, entries=tuple(entries.values()), warnings=tuple(warnings))


def _entry(written: object, url: str, *, is_old: bool) -> _Entry:
    if not isinstance(written, dict):
        raise ValueError("it is no object")
    name = written.get("name")
    if not isinstance(name, str) or not is_valid_name(name):
        raise ValueError("its name is no name of a skill")
    if is_old:
        files = tuple(_listed(file) for file in _list(written.get("files")))
        checked_listing(path for path, _ in files)
        if "SKILL.md" not in dict(files) or len(files) > MAX_FILES:
            raise ValueError(f"it lists no SKILL.md, or more than {MAX_FILES:,} files")
        return _Entry(name=name, type="files", url=joined(url, f"{name}/"), files=files)
    kind, where, digest = written.get("type"), written.get("url"), written.get("digest")
    if kind not in ("skill-md", "archive"):
        raise ValueError(f"its type {shown(str(kind), 40)!r} is not known")
    if not isinstance(digest, str) or not is_digest(digest):
        raise ValueError("it has no digest")
    if not isinstance(where, str) or not where:
        raise ValueError("it has no address")
    return _Entry(name=name, type=kind, url=joined(url, where), digest=digest)


def _listed(file: object) -> tuple[str, str]:
    """Path and digest of a file: a text, or an object as drafts of v0.2.0 had it."""
    path, digest = (file.get("path"), file.get("digest")) if isinstance(file, dict) else (file, "")
    if not isinstance(path, str) or (isinstance(file, dict) and not is_digest(digest)):
        raise ValueError("it lists something that is no file")
    return path, str(digest)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError("it lists no files")
    return value


def _candidate(entry: _Entry, client: HttpClient) -> Candidate:
    files = functools.cache(functools.partial(_files, entry, client))
    origins = {urlsplit(url).netloc for url in (entry.url, client.origin)}
    notes = (f"Its files come from {shown(urlsplit(entry.url).netloc)}.",) if len(origins) > 1 else ()
    return Candidate(
        folder=entry.name, path=entry.name, skill_file=lambda: files()["SKILL.md"][1], files=files, notes=notes
    )


def _files(entry: _Entry, client: HttpClient) -> Files:
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
        found = candidates_of(MemoryTree(_downloaded(entry, client, what)), folders=[""])[0].files()
    name = read_frontmatter(found["SKILL.md"][1]).mapping.get("name")
    if isinstance(name, str) and name.strip() != entry.name:
        raise SkillInvalid(
            f"The entry {entry.name} of the index has the skill {shown(name)!r}.", hint="Ask whoever runs the site."
        )
    return found


def _downloaded(entry: _Entry, client: HttpClient, what: str) -> Files:
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
