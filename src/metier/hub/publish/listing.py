"""The releases of a registry in the forms that clients ask for: each form is a choice of keys among their facts.

A static site writes these lists once, and a server gives them out as they are now. What those formats have no word for
(content digests, capabilities, versions, withdrawals) is in `extensions`, under a key of our own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from metier._lazy import dataclass
from metier.guard.signatures import SIGNATURE_FILE
from metier.hub.skill_files import package_of
from metier.hub.sources.plugin_manifest import AGENT_PLUGIN_SCHEMA
from metier.hub.sources.well_known import EXTENSION, OLD_SCHEMA, SCHEMA
from metier.library.skills_lock import computed_hash
from metier.scan.capabilities import infer
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from metier.hub.publish.release import Release
    from metier.skill.package import FileMode

Facts: TypeAlias = "Mapping[str, Any]"
"""All that a list says of a release; keys without a value are left out."""
INDEX, OLD_INDEX = ".well-known/agent-skills", ".well-known/skills"
RELEASE = ("version", "url", "digest", "content", "yanked")
"""The facts that an index tells of each version."""
_MANIFEST = ("name", "version", "description", "license", "keywords")
_EXTENSION = (
    *("version", "content", "license", "permissions", "requires", "compatibility", "provenance", "signature"),
    "computedHash",
)
_MAX_DESCRIPTION = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The releases of a registry, and whose it is."""

    name: str
    url: str
    """The address that it has; empty where nobody said."""
    description: str
    owner: Mapping[str, str]
    skills: Mapping[str, Sequence[Facts]]
    """The releases of each skill, the newest first."""

    @property
    def has_archives(self) -> bool:
        """Whether plugins are archives too, which clients fetch from an encrypted address alone."""
        return self.url.startswith("https://")

    @property
    def current(self) -> list[Facts]:
        """The newest release of each skill that was not yanked; none of a skill that has no other."""
        usable = ([one for one in releases if "yanked" not in one] for releases in self.skills.values())
        return [releases[0] for releases in usable if releases]


def release_facts(release: Release) -> dict[str, Any]:
    """The facts about a release that its files tell."""
    skill = release.skill
    return without_empty(
        {
            "name": release.name,
            "version": release.version,
            "description": _one_line(skill.description),
            "license": shown(skill.license or "", 200),
            "keywords": [shown(tag) for tag in skill.tags],
            "files": ["SKILL.md", *sorted(path for path in release.files if path != "SKILL.md")],
            "url": f"{release.name}/{release.label}.zip",
            "content": release.digest,
            "permissions": {
                "capabilities": list(infer(package_of(release.files)).names),
                "allowed-tools": None if skill.allowed_tools is None else list(skill.allowed_tools),
            },
            "requires": list(skill.requires),
            "compatibility": skill.compatibility,
            "signature": "oms" if SIGNATURE_FILE in release.files else None,
            "computedHash": computed_hash(release.files),
        }
    )


def plugin_files(release: Release, facts: Facts, author: str) -> dict[str, tuple[FileMode, bytes]]:
    """A release as a plugin, for Agent Plugins and for Claude Code."""
    manifest = {**select(facts, _MANIFEST), "author": {"name": author}}
    extensions = {EXTENSION: select(facts, _EXTENSION)}
    return {
        "plugin.json": ("file", as_json({"$schema": AGENT_PLUGIN_SCHEMA, **manifest, "extensions": extensions})),
        ".claude-plugin/plugin.json": ("file", as_json(manifest)),
        **{f"skills/{release.name}/{path}": file for path, file in release.files.items()},
    }


def index(listing: Listing, releases: Mapping[str, Sequence[Facts]] | None = None) -> dict[str, Any]:
    """The index of discovery 0.2.0, by default with all releases."""
    deprecated = {name: found[0]["deprecated"] for name, found in listing.skills.items() if "deprecated" in found[0]}
    given = listing.skills if releases is None else releases
    releases = {name: [select(one, RELEASE) for one in found] for name, found in given.items()}
    own = {"name": listing.name, "releases": releases, "deprecated": deprecated}
    entries = [
        {
            **select(one, ("name", "description", "url", "digest")),
            "type": "archive",
            "extensions": {EXTENSION: select(one, (*_EXTENSION, "deprecated"))},
        }
        for one in listing.current
    ]
    return {"$schema": SCHEMA, "skills": entries, "extensions": {EXTENSION: own}}


def old_index(listing: Listing) -> dict[str, Any]:
    """The index of discovery 0.1.0.

    Its clients look at no schema. Those of 0.2.0 pass over an index that has another one than theirs: without it, they
    would take from the index without digests what has the wrong digest in the other one.
    """
    entries = [select(one, ("name", "description", "files")) for one in listing.current]
    return {"$schema": OLD_SCHEMA, "skills": entries}


def marketplace(listing: Listing, source_of: Callable[[Facts], object]) -> dict[str, Any]:
    """The marketplace of Claude Code, in which the source of each plugin is as given."""
    return {
        "name": listing.name,
        "owner": listing.owner,
        "metadata": {"description": listing.description or f"Skills of {listing.name}"},
        "plugins": [{**select(one, _MANIFEST), "source": source_of(one)} for one in listing.current],
    }


def select(facts: Facts, keys: Iterable[str]) -> dict[str, Any]:
    """The facts under these keys, as far as there are any."""
    return {key: facts[key] for key in keys if key in facts}


def without_empty(facts: Facts) -> dict[str, Any]:
    """The facts that have a value."""
    return {key: value for key, value in facts.items() if value}


def as_json(value: object) -> bytes:
    """A file of JSON."""
    return json.dumps(value, indent=2).encode() + b"\n"


def _one_line(text: str) -> str:
    """A description in one line, of so many units of UTF-16 as clients in JavaScript count."""
    text = shown(" ".join(text.split()), _MAX_DESCRIPTION)
    return text.encode("utf-16-le", errors="replace")[: 2 * _MAX_DESCRIPTION].decode("utf-16-le", errors="ignore")
