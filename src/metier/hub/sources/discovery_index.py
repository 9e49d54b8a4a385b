"""The index by which a site announces skills: discovery v0.2.0 with digests, or v0.1.0 with lists of files.

An entry that cannot be used is left out, and a warning tells so. Versions, content digests, withdrawals and successors
are read from our own key in `extensions`, where a site has it.
"""

from __future__ import annotations

import json
from typing import Any

from metier._lazy import dataclass, field, replace
from metier.errors import MetierError, SourceUnavailable
from metier.hub.sources.fields import few
from metier.hub.sources.http import is_digest, joined, sha256_of, shown_url
from metier.skill import is_valid_name, shown
from metier.skill.package import MAX_FILES
from metier.source.unpack import checked_listing

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
OLD_SCHEMA = "https://schemas.agentskills.io/discovery/0.1.0/schema.json"
EXTENSION = "dev.metier"
MAX_INDEX = 8 * 1024 * 1024
_MAX_ENTRIES = 10_000
_MAX_RELEASES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """A skill that an index announces: one artifact with a digest (v0.2.0), or single files (v0.1.0)."""

    name: str
    type: str
    """`skill-md`, `archive`, or `files`."""
    url: str
    digest: str = ""
    """The digest of the artifact."""
    files: tuple[tuple[str, str], ...] = ()
    """Path and digest of each file; the digest is empty where none is announced."""
    about: str = field(default="", compare=False)
    """Its description, as the index has it."""
    version: str = ""
    content: str = ""
    """The digest of the files that come out of the artifact."""
    yanked: str = ""
    deprecated: str = ""
    """The reason why it should not be used any more, and what to use instead."""
    releases: tuple[IndexEntry, ...] = ()
    """All versions that there are, this one among them."""

    @property
    def state(self) -> str:
        """The digest of what is announced; empty where a part of it has none, so that only the files tell."""
        if self.digest or not all(digest for _, digest in self.files):
            return self.digest
        return sha256_of(json.dumps(sorted(self.files)).encode())

    def at(self, ref: str) -> IndexEntry | None:
        """The release of a version or of a digest; one that was yanked only by its digest, as locks name it."""
        for one in (self, *self.releases):
            if ref in ("", one.state) or (ref == one.version and not one.yanked):
                return replace(one, releases=self.releases)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryIndex:
    """The entries of an index that can be used, and what is to be said of the others."""

    entries: tuple[IndexEntry, ...] = ()
    warnings: tuple[str, ...] = ()


def parse_index(data: dict[str, Any], url: str) -> DiscoveryIndex:
    """The entries of an index that lies at an address."""
    skills, schema = data.get("skills"), data.get("$schema")
    if not isinstance(skills, list) or len(skills) > _MAX_ENTRIES:
        raise SourceUnavailable(
            f"{shown_url(url)} has no list of at most {_MAX_ENTRIES:,} skills.", hint="Ask whoever runs the site."
        )
    if schema not in (None, OLD_SCHEMA, SCHEMA):
        told = f"The index {shown_url(url)} is of another form ({shown(str(schema))}), and was not read."
        return DiscoveryIndex(warnings=(told,))
    extension = _extension(data)
    warnings: list[str] = []
    entries: dict[str, IndexEntry] = {}
    doubles: set[str] = set()
    for number, written in enumerate(skills, 1):
        named = shown(str(written.get("name")), 80) if isinstance(written, dict) else f"no. {number}"
        try:
            entry = _old_entry(written, url) if schema != SCHEMA else _entry(written, url, extension)
        except (MetierError, ValueError) as problem:
            told = problem.message if isinstance(problem, MetierError) else f"{problem}."
            warnings.append(f"The entry {named} of the index was left out: {told}")
            continue
        if entries.setdefault(entry.name, entry) != entry:
            doubles.add(entry.name)
    for name in sorted(doubles):
        del entries[name]
        warnings.append(f"The entry {name} of the index was left out: it is there with two contents.")
    if not all(entry.state for entry in entries.values()):
        warnings.insert(0, "The index is of v0.1.0 and announces no digests: nothing shows whether files are complete.")
    return DiscoveryIndex(entries=tuple(entries.values()), warnings=few(warnings))


def _name(written: object) -> str:
    name = _table(written).get("name")
    if not isinstance(name, str) or not is_valid_name(name):
        raise ValueError("its name is no name of a skill")
    return name


def _entry(written: object, url: str, extension: dict[str, Any]) -> IndexEntry:
    name, fields = _name(written), _table(written)
    kind = fields.get("type")
    if kind not in ("skill-md", "archive"):
        raise ValueError(f"its type {shown(str(kind), 40)!r} is not known")
    own = _extension(fields)
    gone = _table(_table(extension.get("deprecated")).get(name) or own.get("deprecated"))
    entry = replace(
        _artifact(name, kind, url, fields, own),
        deprecated=deprecation(gone) if gone else "",
    )
    listed = _table(extension.get("releases")).get(name)
    releases = [
        replace(_artifact(name, "archive", url, _table(one), _table(one)), deprecated=entry.deprecated)
        for one in (listed[:_MAX_RELEASES] if isinstance(listed, list) else ())
    ]
    contents = {(one.version, one.digest) for one in (entry, *releases) if one.version}
    if len(contents) != len({version for version, _ in contents}):
        raise ValueError("one of its versions is there with two contents")
    yanked = next((one.yanked for one in releases if one.digest == entry.digest), "")
    return replace(entry, yanked=yanked, releases=tuple(releases))


def deprecation(said: object) -> str:
    """The sentences about a skill that should not be used any more.

    >>> deprecation({"successor": "documents", "reason": "It is old."})
    'Deprecated. Use documents instead. It is old.'
    """
    successor, reason = (_text(_table(said), key) for key in ("successor", "reason"))
    return " ".join(filter(None, ("Deprecated.", f"Use {successor} instead." if successor else "", reason)))


def _artifact(name: str, kind: str, url: str, fields: dict[str, Any], more: dict[str, Any]) -> IndexEntry:
    where, digest, about = (fields.get(key) for key in ("url", "digest", "description"))
    content = more.get("content")
    if not isinstance(digest, str) or not is_digest(digest):
        raise ValueError("it has no digest")
    if not isinstance(where, str) or not where:
        raise ValueError("it has no address")
    return IndexEntry(
        name=name,
        type=kind,
        url=joined(url, where),
        digest=digest,
        about=shown(about, 1_024) if isinstance(about, str) else "",
        version=_text(more, "version"),
        content=content if isinstance(content, str) and is_digest(content) else "",
        yanked=_text(more, "yanked"),
    )


def _old_entry(written: object, url: str) -> IndexEntry:
    name, listed = _name(written), _table(written).get("files")
    if not isinstance(listed, list) or len(listed) > MAX_FILES:
        raise ValueError(f"it lists no files, or more than {MAX_FILES:,}")
    files = tuple(_listed(file) for file in listed)
    checked_listing(path for path, _ in files)
    if "SKILL.md" not in dict(files):
        raise ValueError("it lists no SKILL.md")
    return IndexEntry(name=name, type="files", url=joined(url, f"{name}/"), files=files)


def _listed(file: object) -> tuple[str, str]:
    """Path and digest of a file: a text, or an object as drafts of v0.2.0 had it."""
    path, digest = (file.get("path"), file.get("digest")) if isinstance(file, dict) else (file, "")
    if not isinstance(path, str) or (isinstance(file, dict) and not is_digest(digest)):
        raise ValueError("it lists something that is no file")
    return path, str(digest)


def _extension(fields: dict[str, Any]) -> dict[str, Any]:
    return _table(_table(fields.get("extensions")).get(EXTENSION))


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    return shown(value, 200) if isinstance(value, str) else ""
