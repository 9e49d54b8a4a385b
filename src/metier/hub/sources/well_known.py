"""Skills that a web site announces below `/.well-known/`: the discovery index v0.2.0, or v0.1.0 where there is none.

The state of a skill is the digest of its artifact, that of a site the digest of all of them: one request tells which of
its skills changed. Artifacts may lie on other hosts, because their digests, which are verified before anything is
unpacked, bind them to the index. An index of v0.1.0 only lists the files of each skill, without digests.

An entry that cannot be used is left out, and a warning tells so. Versions, content digests, withdrawals and successors
are read from our own key in `extensions`, where a site has it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode, urlsplit

from metier._lazy import dataclass, field, replace
from metier.errors import IntegrityFailed, MetierError, SkillInvalid, SkillNotFound, SourceUnavailable
from metier.hub.sources.connection import shown_url
from metier.hub.sources.fetch import Candidate, Fetched, Resolved
from metier.hub.sources.fields import bounded_list, few, object_at, refused, required_text, text_at
from metier.hub.sources.http import MARKDOWN, HttpClient, joined, sha256_of
from metier.hub.sources.tree import archive_tree, candidates_of, memory_tree
from metier.skill import MAX_SKILL_BYTES, is_valid_name, read_frontmatter, shown
from metier.skill.package import MAX_FILE_BYTES, MAX_FILES, digest_of_files, is_digest
from metier.source.unpack import ArchiveLimits, checked_listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Transfer
    from metier.skill.package import Files

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
OLD_SCHEMA = "https://schemas.agentskills.io/discovery/0.1.0/schema.json"
EXTENSION = "dev.metier"
_FOLDERS = ("agent-skills", "skills")
"""Where an index lies, the newer one first."""
_MAX_ENTRIES = 10_000
_MAX_RELEASES = 1_000
_TWO_CONTENTS = "one of its versions is there with two contents"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A skill that an index announces: one artifact with a digest (v0.2.0), or single files (v0.1.0)."""

    name: str
    type: str
    """`skill-md`, `archive`, or `files`."""
    url: str
    digest: str = ""
    """The digest of the artifact."""
    files: tuple[str, ...] = ()
    about: str = field(default="", compare=False)
    """Its description, as the index has it."""
    version: str = ""
    content: str = ""
    """The digest of the files that come out of the artifact."""
    yanked: str = ""
    deprecated: str = ""
    """The reason why it should not be used any more, and what to use instead."""
    releases: tuple[_Entry, ...] = ()
    """All versions that there are, this one among them."""

    def at(self, ref: str) -> _Entry | None:
        """The release of a version or of a digest; one that was yanked only by its digest, as locks name it."""
        for one in (self, *self.releases):
            if ref == one.digest or (ref == one.version and not one.yanked):
                return replace(one, releases=self.releases, deprecated=self.deprecated)
        return None


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The skills of an index, or the one that an address names, as they are or of a version or digest.

    The state is empty where no digests are announced, so that only the files tell.
    """
    client = HttpClient(address.location, transfer)
    listed, warnings = _read_index(address.location, client, address.path)
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
        parts={entry.name: entry.digest for entry in entries},
        versions={entry.name: entry.version for entry in entries},
        deprecated={entry.name: entry.deprecated for entry in entries if entry.deprecated},
        yanked={one.digest: one.yanked for entry in entries for one in entry.releases if one.yanked},
    )


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skills of an index; each is downloaded when it is read."""
    data = resolved.data or resolve(replace(resolved.address, ref=resolved.revision), transfer).data
    candidates, warnings = cast("tuple[list[Candidate], tuple[str, ...]]", data)
    yield Fetched(resolved=resolved, candidates=candidates, warnings=warnings)


def _state(entries: list[_Entry], address: SourceAddress) -> str:
    if address.path:
        return entries[0].digest
    states = sorted([entry.name, entry.type, entry.digest] for entry in entries)
    return sha256_of(json.dumps(states).encode()) if all(entry.digest for entry in entries) else ""


def _entries_at(address: SourceAddress, entries: list[_Entry]) -> list[_Entry]:
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


def _read_index(site: str, client: HttpClient, name: str = "") -> tuple[list[_Entry], tuple[str, ...]]:
    """The entries of a site's index, and warnings.

    A server that is asked for one skill names all of its releases, which an index of very many skills cannot; any other
    site passes over the question.
    """
    missing: SourceUnavailable | None = None
    question = f"?{urlencode({'skill': name})}" if name else ""
    for folder in _FOLDERS:
        try:
            data, found = client.get_json(f"{site}/.well-known/{folder}/index.json{question}", "an index of skills")
        except SourceUnavailable as error:
            # Only where there is none is the other one looked for: it has no digests, and whoever damages the newer
            # one must not get what they want by that.
            if error.context.get("status") not in (403, 404, 410):
                raise
            missing = missing or error
            continue
        entries, warnings = _parsed_index(data, found.url)
        return entries, (*few(warnings), *found.warnings)
    raise missing or SourceUnavailable(f"{shown_url(site)} announces no skills.", hint="Check the address.")


def _parsed_index(data: dict[str, Any], url: str) -> tuple[list[_Entry], list[str]]:
    with refused(f"The index {shown_url(url)}"):
        skills = bounded_list(data, "skills", _MAX_ENTRIES)
    schema = data.get("$schema")
    if schema not in (None, OLD_SCHEMA, SCHEMA):
        return [], [f"The index {shown_url(url)} is of another form ({shown(str(schema))}), and was not read."]
    extension = object_at(data, "extensions", EXTENSION)
    if schema == SCHEMA:
        skills = [*skills, *_withdrawn(skills, extension)]
    releases = functools.cache(functools.partial(_releases, url, extension))  # a name may be there ten thousand times
    entries: dict[str, _Entry] = {}
    doubles: set[str] = set()
    warnings: list[str] = []
    for number, written in enumerate(skills, 1):
        try:
            entry = _entry(written, url, extension, releases) if schema == SCHEMA else _old_entry(written, url)
        except (MetierError, ValueError) as problem:
            name = text_at(written, "name", 80) or f"no. {number}"
            why = problem.message if isinstance(problem, MetierError) else f"{problem}."
            warnings.append(f"The entry {name} of the index was left out: {why}")
            continue
        if entries.setdefault(entry.name, entry) != entry:
            doubles.add(entry.name)
    for name in sorted(doubles):
        del entries[name]
        warnings.append(f"The entry {name} of the index was left out: it is there with two contents.")
    if not all(entry.digest for entry in entries.values()):
        warnings.insert(0, "The index is of v0.1.0 and announces no digests: nothing shows whether files are complete.")
    return list(entries.values()), warnings


def _withdrawn(skills: list[Any], extension: dict[str, Any]) -> list[dict[str, Any]]:
    """Entries for the skills of which all releases were yanked: no index announces them, but locks name them."""
    announced = {text_at(one, "name") for one in skills}
    return [
        {**object_at(one[0]), "name": name, "type": "archive", "extensions": {EXTENSION: one[0]}}
        for name, one in list(object_at(extension, "releases").items())[:_MAX_ENTRIES]
        if isinstance(one, list) and one and name not in announced and all(text_at(each, "yanked") for each in one)
    ]


def _releases(url: str, extension: dict[str, Any], name: str) -> tuple[_Entry, ...] | MetierError | ValueError:
    """The releases of a skill, or why they cannot be used."""
    listed = object_at(extension, "releases").get(name)
    listed = listed[:_MAX_RELEASES] if isinstance(listed, list) else ()
    try:
        found = tuple(_artifact(name, "archive", url, one, one) for one in listed)
    except (MetierError, ValueError) as problem:
        return problem
    contents = {(one.version, one.digest) for one in found if one.version}
    return found if len(contents) == len({version for version, _ in contents}) else ValueError(_TWO_CONTENTS)


def _entry(
    written: object,
    url: str,
    extension: dict[str, Any],
    releases_of: Callable[[str], tuple[_Entry, ...] | MetierError | ValueError],
) -> _Entry:
    name = _name(written)
    kind = object_at(written).get("type")
    if kind not in ("skill-md", "archive"):
        raise ValueError(f"its type {shown(str(kind), 40)!r} is not known")
    own = object_at(written, "extensions", EXTENSION)
    entry = _artifact(name, kind, url, written, own)
    releases = releases_of(name)
    if isinstance(releases, Exception):
        raise releases.with_traceback(None)
    if entry.version and any(one.version == entry.version and one.digest != entry.digest for one in releases):
        raise ValueError(_TWO_CONTENTS)
    gone = object_at(extension, "deprecated", name) or object_at(own, "deprecated")
    yanked = next((one.yanked for one in releases if one.digest == entry.digest), "")
    return replace(entry, yanked=yanked, releases=releases, deprecated=deprecation(gone) if gone else "")


def _old_entry(written: object, url: str) -> _Entry:
    name, files = _name(written), bounded_list(written, "files", MAX_FILES)
    if "SKILL.md" not in files or not all(isinstance(path, str) for path in files):
        raise ValueError("it lists no SKILL.md, or something that is no file")
    checked_listing(files)
    return _Entry(name=name, type="files", url=joined(url, f"{name}/"), files=tuple(files))


def _name(written: object) -> str:
    return required_text(written, "name", is_valid_name, "its name is no name of a skill")


def _artifact(name: str, kind: str, url: str, fields: object, more: object) -> _Entry:
    content = object_at(more).get("content")
    digest = required_text(fields, "digest", is_digest, "it has no digest")
    return _Entry(
        name=name,
        type=kind,
        url=joined(url, required_text(fields, "url", bool, "it has no address")),
        digest=digest,
        about=text_at(fields, "description", 1_024),
        version=text_at(more, "version"),
        content=str(content) if is_digest(content) else "",
        yanked=text_at(more, "yanked"),
    )


def deprecation(notice: object) -> str:
    """The sentences about a skill that should not be used any more.

    >>> deprecation({"successor": "documents", "reason": "It is old."})
    'Deprecated. Use documents instead. It is old.'
    """
    successor, reason = (text_at(notice, key) for key in ("successor", "reason"))
    return " ".join(filter(None, ("Deprecated.", f"Use {successor} instead." if successor else "", reason)))


def _candidate(entry: _Entry, client: HttpClient) -> Candidate:
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


def _files(entry: _Entry, client: HttpClient) -> Files:
    """The files of a skill, verified by the digests of the index before anything is unpacked."""
    what = f"the skill {entry.name}"
    if entry.type == "archive":
        tree = archive_tree(client.get_archive(entry.url, what, entry.digest).body)
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


def _single_files(entry: _Entry, client: HttpClient, what: str) -> Files:
    # One limit of time and size for all files together, as for one archive.
    until = time.monotonic() + client.transfer.seconds
    left = min(client.transfer.max_bytes, ArchiveLimits().bytes)
    found: dict[str, Any] = {}
    for path in entry.files:
        if left <= 0:
            raise SourceUnavailable(f"{what} has too many bytes.", hint="Ask its author for less.")
        body = client.get(joined(entry.url, quote(path)), what, max_bytes=min(left, MAX_FILE_BYTES), until=until).body
        left -= len(body)
        found[path] = ("file", body)
    return found
