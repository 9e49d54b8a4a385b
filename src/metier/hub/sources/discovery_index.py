"""The index by which a site announces skills: discovery v0.2.0 with digests, or v0.1.0 with lists of files.

An entry that cannot be used is left out, and a warning tells so. Versions, content digests, withdrawals and successors
are read from our own key in `extensions`, where a site has it.
"""

from __future__ import annotations

import json
from typing import Any

from metier._lazy import dataclass, field, replace
from metier.errors import MetierError, SourceUnavailable
from metier.hub.sources.fields import bounded_list, few, object_at, required_text, text_at
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
            if ref == one.state or (ref == one.version and not one.yanked):
                return replace(one, releases=self.releases, deprecated=self.deprecated)
        return None


def parse_index(data: dict[str, Any], url: str) -> tuple[list[IndexEntry], tuple[str, ...]]:
    """The entries of an index that lies at an address, and warnings about those that cannot be used."""
    try:
        skills = bounded_list(data, "skills", _MAX_ENTRIES)
    except ValueError as problem:
        raise SourceUnavailable(
            f"The index {shown_url(url)} cannot be used: {problem}.", hint="Ask whoever runs the site."
        ) from None
    schema = data.get("$schema")
    if schema not in (None, OLD_SCHEMA, SCHEMA):
        return [], (f"The index {shown_url(url)} is of another form ({shown(str(schema))}), and was not read.",)
    extension = object_at(data, "extensions", EXTENSION)
    if schema == SCHEMA:
        skills = [*skills, *_withdrawn(skills, extension)]
    entries: dict[str, IndexEntry] = {}
    doubles: set[str] = set()
    warnings: list[str] = []
    for number, written in enumerate(skills, 1):
        try:
            entry = _entry(written, url, extension) if schema == SCHEMA else _old_entry(written, url)
        except (MetierError, ValueError) as problem:
            name = text_at(written, "name", 80) or f"no. {number}"
            why = problem.message if isinstance(problem, MetierError) else f"{problem}."
            warnings.append(f"The entry {name} of the index was left out: {why}")
            continue
        if entries.setdefault(entry.name, entry) != entry:
            doubles.add(entry.name)
    warnings += [
        f"The entry {name} of the index was left out: it is there with two contents." for name in sorted(doubles)
    ]
    usable = [entry for entry in entries.values() if entry.name not in doubles]
    if not all(entry.state for entry in usable):
        warnings.insert(0, "The index is of v0.1.0 and announces no digests: nothing shows whether files are complete.")
    return usable, few(warnings)


def _withdrawn(skills: list[Any], extension: dict[str, Any]) -> list[dict[str, Any]]:
    """Entries for the skills of which all releases were yanked: no index announces them, but locks name them."""
    announced = {text_at(one, "name") for one in skills}
    return [
        {**object_at(one[0]), "name": name, "type": "archive", "extensions": {EXTENSION: one[0]}}
        for name, one in list(object_at(extension, "releases").items())[:_MAX_ENTRIES]
        if isinstance(one, list) and one and name not in announced and all(text_at(each, "yanked") for each in one)
    ]


def _entry(written: object, url: str, extension: dict[str, Any]) -> IndexEntry:
    name = _name(written)
    kind = object_at(written).get("type")
    if kind not in ("skill-md", "archive"):
        raise ValueError(f"its type {shown(str(kind), 40)!r} is not known")
    own = object_at(written, "extensions", EXTENSION)
    entry = _artifact(name, kind, url, written, own)
    listed = object_at(extension, "releases").get(name)
    releases = tuple(
        _artifact(name, "archive", url, one, one)
        for one in (listed[:_MAX_RELEASES] if isinstance(listed, list) else ())
    )
    contents = {(one.version, one.digest) for one in (entry, *releases) if one.version}
    if len(contents) != len({version for version, _ in contents}):
        raise ValueError("one of its versions is there with two contents")
    gone = object_at(extension, "deprecated", name) or object_at(own, "deprecated")
    yanked = next((one.yanked for one in releases if one.digest == entry.digest), "")
    return replace(entry, yanked=yanked, releases=releases, deprecated=deprecation(gone) if gone else "")


def deprecation(said: object) -> str:
    """The sentences about a skill that should not be used any more.

    >>> deprecation({"successor": "documents", "reason": "It is old."})
    'Deprecated. Use documents instead. It is old.'
    """
    successor, reason = (text_at(said, key) for key in ("successor", "reason"))
    return " ".join(filter(None, ("Deprecated.", f"Use {successor} instead." if successor else "", reason)))


def _name(written: object) -> str:
    return required_text(written, "name", is_valid_name, "its name is no name of a skill")


def _artifact(name: str, kind: str, url: str, fields: object, more: object) -> IndexEntry:
    content = object_at(more).get("content")
    digest = required_text(fields, "digest", is_digest, "it has no digest")
    return IndexEntry(
        name=name,
        type=kind,
        url=joined(url, required_text(fields, "url", bool, "it has no address")),
        digest=digest,
        about=text_at(fields, "description", 1_024),
        version=text_at(more, "version"),
        content=str(content) if is_digest(content) else "",
        yanked=text_at(more, "yanked"),
    )


def _old_entry(written: object, url: str) -> IndexEntry:
    name = _name(written)
    files = tuple(_listed(file) for file in bounded_list(written, "files", MAX_FILES))
    checked_listing(path for path, _ in files)
    if "SKILL.md" not in dict(files):
        raise ValueError("it lists no SKILL.md")
    return IndexEntry(name=name, type="files", url=joined(url, f"{name}/"), files=files)


def _listed(file: object) -> tuple[str, str]:
    """Path and digest of a file: a text, or an object as drafts of v0.2.0 had it."""
    if isinstance(file, str):
        return file, ""
    problem = "it lists something that is no file"
    return required_text(file, "path", bool, problem), required_text(file, "digest", is_digest, problem)
