"""A registry as a static site, for any web server: one content in every form that clients look for.

- `/.well-known/agent-skills/index.json` (discovery 0.2.0) with an archive of each release,
- `/.well-known/skills/index.json` (0.1.0) with the files of the newest,
- `/.claude-plugin/marketplace.json` for Claude Code, with plugins below `/plugins`, which are Agent Plugins 1.0 too,
- `/marketplace.json`, the same with archives, for a site whose address is known,
- `/index.html` for people.

Each form is a choice of keys among the facts of a release. What those formats have no word for (content digests,
capabilities, versions, withdrawals) is in `extensions`, under a key of our own.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from metier._lazy import dataclass
from metier.errors import IntegrityFailed, InvalidArgument
from metier.guard import Actor, Guard
from metier.guard.signatures import SIGNATURE_FILE
from metier.hub.publish.pack import pack
from metier.hub.publish.registry_folder import RegistryFolder
from metier.hub.publish.release import judge_release, record_made
from metier.hub.publish.site_folder import SiteFolder
from metier.hub.publish.site_page import page
from metier.hub.skill_files import package_of
from metier.hub.sources.http import sha256_of
from metier.hub.sources.plugin_manifest import AGENT_PLUGIN_SCHEMA
from metier.hub.sources.well_known import EXTENSION, OLD_SCHEMA, SCHEMA
from metier.library.skills_lock import computed_hash
from metier.scan.capabilities import infer
from metier.skill import shown
from metier.skill.names import slug

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from metier.hub.publish.release import Release
    from metier.skill.package import FileMode

Facts: TypeAlias = "Mapping[str, Any]"
"""All that a site says of a release; keys without a value are left out."""
INDEX, OLD_INDEX = ".well-known/agent-skills", ".well-known/skills"
_MANIFEST = ("name", "version", "description", "license", "keywords")
_RELEASE = ("version", "url", "digest", "content", "yanked")
_EXTENSION = (
    *("version", "content", "license", "permissions", "requires", "compatibility", "provenance", "signature"),
    "computedHash",
)
_MAX_DESCRIPTION = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltSite:
    """The result of a build."""

    path: str
    name: str
    url: str
    """The address that it will have; empty where nobody said."""
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


def build_site(
    source: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    url: str = "",
    accept_findings: str = "",
    by: tuple[Guard, Actor] | None = None,
) -> BuiltSite:
    """Write the static site of a registry's folder; whoever looks meanwhile finds the site of before, whole.

    Every release passes strict validation, the scanner and the rules of policy for `publish`. Raises `IntegrityFailed`
    where a version has another content than it had in the site of before.
    """
    folder, site, by = RegistryFolder(source), SiteFolder(to), by or (Guard(), Actor())
    record = folder.record()
    url = (url or record.get("url", "")).rstrip("/")
    if url and not url.startswith(("https://", "http://")):
        raise InvalidArgument(f"{shown(url)!r} is no address of a site.", hint="Write https://skills.example.com.")
    skills: dict[str, list[Facts]] = {}
    own_name = record.get("name") or slug(os.path.basename(folder.path)) or "skills"
    description = record.get("description", "")
    owner = _without_empty({"name": record.get("owner") or own_name, "email": record.get("email")})
    built = BuiltSite(path=site.path, name=own_name, url=url, description=description, owner=owner, skills=skills)
    notes: list[str] = []
    with site.replacing() as (before, digests):
        for name, versions in folder.skills().items():
            skills[name] = []
            for version in versions:
                release = folder.read(name, version)
                published = record["published"].get(name, {}).get(release.version, {})
                _require_unchanged(release, published.get("digest"), before.get(release.label))
                judged = judge_release(release, f"dir:{site.path}", *by, accept_findings=accept_findings)
                if not judged.decision.is_allowed:
                    refused = {"skill": name, "new_digest": release.digest, "reason": judged.decision.reason}
                    record_made("registry.refused", by, path=site.path, rule=judged.decision.rule, **refused)
                    raise judged.decision.as_error()
                notes += [f"{release.label}: {note}" for note in judged.notes(accept_findings)]
                archive = pack(release.files)
                facts = {**_facts(release, published, record), "digest": sha256_of(archive)}
                site.write(f"{INDEX}/{facts['url']}", archive)
                if "yanked" not in facts and all("yanked" in newer for newer in skills[name]):
                    _write_files(site, release, facts, built)
                skills[name].append(facts)
                digests |= {release.label: release.digest} if release.version else {}
        if not skills:
            raise InvalidArgument(
                f"There is no skill in {shown(folder.path, 300)}.", hint="Each lies in NAME/ or NAME/VERSION/."
            )
        _write_lists(site, built)
    reason = f"Built from {folder.path}, with {sum(map(len, skills.values()))} releases."
    record_made("registry.built", by, path=site.path, reason=reason, notes=tuple(notes[:100]))
    return built


def _require_unchanged(release: Release, *known: str | None) -> None:
    """Raise `IntegrityFailed` where a release is not the one that was published, or built, under its version."""
    for digest in known:
        if digest not in (None, release.digest):
            raise IntegrityFailed(
                f"{shown(release.label)} was published with another content: {shown(str(digest))}.",
                hint="A version never changes: bring that content back, and publish the change under a new one.",
            )


def _facts(release: Release, published: Mapping[str, str], record: Mapping[str, Any]) -> Facts:
    skill = release.skill
    return _without_empty(
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
            "provenance": {key: published[key] for key in ("at", "by") if key in published},
            "signature": "oms" if SIGNATURE_FILE in release.files else None,
            "computedHash": computed_hash(release.files),
            "yanked": record["yanked"].get(release.name, {}).get(release.version),
            "deprecated": record["deprecated"].get(release.name),
        }
    )


def _write_files(site: SiteFolder, release: Release, facts: Facts, built: BuiltSite) -> None:
    """Write a release as files, for 0.1.0, and as a plugin, for Agent Plugins and for Claude Code."""
    manifest = {**_select(facts, _MANIFEST), "author": {"name": built.owner["name"]}}
    extensions = {EXTENSION: _select(facts, _EXTENSION)}
    plugin: dict[str, tuple[FileMode, bytes]] = {
        "plugin.json": ("file", _json({"$schema": AGENT_PLUGIN_SCHEMA, **manifest, "extensions": extensions})),
        ".claude-plugin/plugin.json": ("file", _json(manifest)),
    }
    for path, (mode, data) in release.files.items():
        site.write(f"{OLD_INDEX}/{release.name}/{path}", data)
        plugin[f"skills/{release.name}/{path}"] = (mode, data)
    for path, (mode, data) in plugin.items():
        site.write(f"plugins/{release.name}/{path}", data, executable=mode == "exec")
    if built.has_archives:
        site.write(f"plugins/{release.label}.zip", pack(plugin))


def _write_lists(site: SiteFolder, built: BuiltSite) -> None:
    """Write what lists all skills."""

    def archive_of(one: Facts) -> dict[str, str]:
        path = f"plugins/{os.path.basename(one['url'])}"
        return {"source": "archive", "url": f"{built.url}/{path}", "sha256": site.written[path]}

    deprecated = {name: found[0]["deprecated"] for name, found in built.skills.items() if "deprecated" in found[0]}
    releases = {name: [_select(one, _RELEASE) for one in found] for name, found in built.skills.items()}
    own = {"name": built.name, "releases": releases, "deprecated": deprecated}
    entries = [
        {
            **_select(one, ("name", "description", "url", "digest")),
            "type": "archive",
            "extensions": {EXTENSION: _select(one, (*_EXTENSION, "deprecated"))},
        }
        for one in built.current
    ]
    # Clients of 0.1.0 look at no schema. Those of 0.2.0 pass over an index that has another one than theirs: without
    # it, they would take from the index without digests what has the wrong digest in the other one.
    old_entries = [_select(one, ("name", "description", "files")) for one in built.current]
    lists = {
        f"{INDEX}/index.json": {"$schema": SCHEMA, "skills": entries, "extensions": {EXTENSION: own}},
        f"{OLD_INDEX}/index.json": {"$schema": OLD_SCHEMA, "skills": old_entries},
        ".claude-plugin/marketplace.json": _marketplace(built, lambda one: f"./plugins/{one['name']}"),
        **({"marketplace.json": _marketplace(built, archive_of)} if built.has_archives else {}),
    }
    for path, value in lists.items():
        site.write(path, _json(value))
    site.write("index.html", page(built).encode(errors="replace"))
    site.write(".nojekyll", b"")  # hosts that run Jekyll leave out folders that begin with a dot


def _marketplace(built: BuiltSite, source_of: Callable[[Facts], object]) -> dict[str, Any]:
    return {
        "name": built.name,
        "owner": built.owner,
        "metadata": {"description": built.description or f"Skills of {built.name}"},
        "plugins": [{**_select(one, _MANIFEST), "source": source_of(one)} for one in built.current],
    }


def _select(facts: Facts, keys: Iterable[str]) -> dict[str, Any]:
    return {key: facts[key] for key in keys if key in facts}


def _without_empty(facts: Facts) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if value}


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"


def _one_line(text: str) -> str:
    """A description in one line, of so many units of UTF-16 as clients in JavaScript count."""
    text = shown(" ".join(text.split()), _MAX_DESCRIPTION)
    return text.encode("utf-16-le", errors="replace")[: 2 * _MAX_DESCRIPTION].decode("utf-16-le", errors="ignore")
