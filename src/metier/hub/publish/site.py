"""A registry as a static site, for any web server: one content in every form that clients look for.

- `/.well-known/agent-skills/index.json` (discovery 0.2.0) with an archive of each release,
- `/.well-known/skills/index.json` (0.1.0) with the files of the newest,
- `/.claude-plugin/marketplace.json` for Claude Code, with plugins below `/plugins`, which are Agent Plugins 1.0 too,
- `/marketplace.json`, the same with archives, for a site whose address is known,
- `/index.html` for people.

What those formats have no word for (content digests, capabilities, versions, withdrawals) is in `extensions`, under a
key of our own.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.errors import IntegrityFailed, InvalidArgument
from metier.guard import Action, Guard
from metier.hub.publish.pack import pack
from metier.hub.publish.registry_folder import RegistryFolder
from metier.hub.publish.site_folder import SiteFolder
from metier.hub.publish.site_page import page
from metier.hub.skill_location import SkillLocation, subject_in
from metier.hub.sources.discovery_index import EXTENSION, OLD_SCHEMA, SCHEMA
from metier.hub.sources.plugin_manifest import AGENT_PLUGIN_SCHEMA
from metier.library.skills_lock import computed_hash
from metier.skill import shown
from metier.skill.names import is_valid_name, slug

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.hub.publish.registry_folder import RegistryRecord
    from metier.hub.publish.release import Release
    from metier.skill.package import Files

INDEX, OLD_INDEX = ".well-known/agent-skills", ".well-known/skills"
_MAX_DESCRIPTION = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRelease:
    """A release as a site has it."""

    name: str
    version: str
    description: str
    license: str
    tags: tuple[str, ...]
    url: str
    """The path of its archive below the site."""
    sha256: str
    """Of the archive."""
    digest: str
    """Of the content."""
    details: Mapping[str, Any]
    """The other things to know about it."""
    yanked: str
    """The reason why it was withdrawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltSite:
    """The result of a build."""

    path: str
    name: str
    url: str
    releases: tuple[PublishedRelease, ...]
    """All of them, by name, the newest first."""
    current: tuple[PublishedRelease, ...]
    """The newest of each skill that was not yanked."""
    deprecated: Mapping[str, Mapping[str, Any]]


def build_site(
    source: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    url: str = "",
    accept_findings: str = "",
    guard: Guard | None = None,
) -> BuiltSite:
    """Write the static site of a registry's folder; whoever looks meanwhile finds the site of before, whole.

    Every release passes strict validation, the scanner and the rules of policy for `publish`. Raises `IntegrityFailed`
    where a version has another content than it had in the site of before.
    """
    folder, site = RegistryFolder(source), SiteFolder(to)
    record = folder.record()
    builder = _Builder(folder, site, record, (url or record.texts.get("url", "")).rstrip("/"))
    with site.replacing() as notes:
        before = notes.get("releases")
        for name, folders in folder.releases():
            builder.add(name, folders, before if isinstance(before, dict) else {}, accept_findings, guard or Guard())
        built = builder.finish()
        notes.clear()
        notes["releases"] = builder.digests
    return built


class _Builder:
    def __init__(self, folder: RegistryFolder, site: SiteFolder, record: RegistryRecord, url: str) -> None:
        self._folder, self._site, self._record, self._url = folder, site, record, url
        if url and not url.startswith(("https://", "http://")):
            raise InvalidArgument(f"{shown(url)!r} is no address of a site.", hint="Write https://skills.example.com.")
        given = record.texts.get("name") or slug(os.path.basename(folder.path)) or "skills"
        if not is_valid_name(given):
            raise InvalidArgument(
                f"{shown(given)!r} is no name of a registry.", hint="Use a-z, 0-9 and single hyphens in registry.json."
            )
        self._name = given
        texts = record.texts
        self._owner = {"name": texts.get("owner") or given} | ({"email": texts["email"]} if "email" in texts else {})
        self._releases: list[PublishedRelease] = []
        self._current: list[PublishedRelease] = []
        self._old_entries: list[dict[str, Any]] = []
        self._archives: dict[str, str] = {}
        """The SHA-256 of the archive of each plugin."""
        self.digests: dict[str, dict[str, str]] = {}
        """The content digest of each release, by name and version."""

    def add(self, name: str, folders: list[str], before: Mapping[str, Any], accept_findings: str, guard: Guard) -> None:
        """Write the releases of one skill."""
        from packaging.version import Version

        added: list[PublishedRelease] = []
        newest: Release | None = None
        for path in folders:
            release = self._folder.read(name, path)
            self._record.require_unchanged(release)
            known = before.get(name)
            earlier = known.get(release.version) if isinstance(known, dict) else None
            if release.version and earlier not in (None, release.digest):
                raise IntegrityFailed(
                    f"{shown(release.label)} is in the site with another content: {shown(str(earlier))}.",
                    hint="A version never changes. Publish the change under a new one.",
                )
            if any(one.version and Version(one.version) == Version(release.version) for one in added):
                raise IntegrityFailed(
                    f"{shown(release.label)} is there twice under two spellings.", hint="Remove one of the folders."
                )
            release.require_clean(accept_findings)
            _require_allowed(release, self._site.path, guard)
            added.append(self._write_archive(release))
            is_newer = newest is None or Version(release.version or "0") > Version(newest.version or "0")
            if is_newer and not added[-1].yanked:
                newest = release
        added.sort(key=lambda one: Version(one.version or "0"), reverse=True)
        self._releases += added
        self.digests[name] = {one.version: one.digest for one in added}
        if newest is not None:
            self._current.append(next(one for one in added if one.version == newest.version))
            self._write_files(newest)

    def _write_archive(self, release: Release) -> PublishedRelease:
        data = pack(release.files)
        url = f"{INDEX}/{release.name}/{release.label}.zip"
        self._site.write(url, data)
        skill = release.skill
        published = self._record.published.get(release.name, {}).get(release.version, {})
        origin = {key: str(published[key]) for key in ("at", "by") if key in published}
        details = {
            "permissions": {
                "capabilities": list(release.capabilities),
                "allowed-tools": None if skill.allowed_tools is None else list(skill.allowed_tools),
            },
            "requires": list(skill.requires),
            "compatibility": skill.compatibility,
            "provenance": origin or None,
            "signature": "oms" if "skill.oms.sig" in release.files else None,
            "computedHash": computed_hash(release.files),
        }
        return PublishedRelease(
            name=release.name,
            version=release.version,
            description=_description(skill.description),
            license=shown(skill.license or "", 200),
            tags=tuple(shown(tag) for tag in skill.tags),
            url=url,
            sha256=hashlib.sha256(data).hexdigest(),
            digest=release.digest,
            details={key: value for key, value in details.items() if value not in (None, [])},
            yanked=self._record.reason_against(release.name, release.version),
        )

    def _write_files(self, release: Release) -> None:
        entry = self._current[-1]
        for path, (_, data) in release.files.items():
            self._site.write(f"{OLD_INDEX}/{release.name}/{path}", data)
        paths = ["SKILL.md", *sorted(path for path in release.files if path != "SKILL.md")]
        self._old_entries.append({"name": entry.name, "description": entry.description, "files": paths})
        plugin = _plugin(entry, release.files, self._owner["name"])
        for path, (mode, data) in plugin.items():
            self._site.write(f"plugins/{release.name}/{path}", data, executable=mode == "exec")
        if self._url.startswith("https://"):
            data = pack(plugin)
            self._site.write(f"plugins/{release.label}.zip", data)
            self._archives[release.name] = hashlib.sha256(data).hexdigest()

    def finish(self) -> BuiltSite:
        """Write what lists them all."""
        if not self._releases:
            raise InvalidArgument(
                f"There is no skill in {shown(self._folder.path, 300)}.", hint="Each lies in NAME/ or NAME/VERSION/."
            )
        deprecated = {name: dict(said) for name, said in sorted(self._record.deprecated.items())}
        built = BuiltSite(
            path=self._site.path,
            name=self._name,
            url=self._url,
            releases=tuple(self._releases),
            current=tuple(self._current),
            deprecated=deprecated,
        )
        self._write_json(f"{INDEX}/index.json", _index(built))
        # Clients of 0.1.0 look at no schema. Those of 0.2.0 pass over an index that has another one than theirs:
        # without it, they would take from the index without digests what has the wrong digest in the other one.
        self._write_json(f"{OLD_INDEX}/index.json", {"$schema": OLD_SCHEMA, "skills": self._old_entries})
        sources: dict[str, Any] = {one.name: f"./plugins/{one.name}" for one in self._current}
        self._write_json(".claude-plugin/marketplace.json", self._marketplace(sources))
        if self._archives:
            sources = {
                one.name: {
                    "source": "archive",
                    "url": f"{self._url}/plugins/{one.name}{f'-{one.version}' if one.version else ''}.zip",
                    "sha256": self._archives[one.name],
                }
                for one in self._current
            }
            self._write_json("marketplace.json", self._marketplace(sources))
        self._site.write("index.html", page(built, self._record.texts.get("description", "")).encode(errors="replace"))
        self._site.write(".nojekyll", b"")  # hosts that run Jekyll leave out folders that begin with a dot
        return built

    def _marketplace(self, sources: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "name": self._name,
            "owner": self._owner,
            "metadata": {"description": self._record.texts.get("description") or f"Skills of {self._name}"},
            "plugins": [{**_manifest(one), "source": sources[one.name]} for one in self._current],
        }

    def _write_json(self, path: str, value: Any) -> None:
        self._site.write(path, json.dumps(value, indent=2).encode() + b"\n")


def _index(built: BuiltSite) -> dict[str, Any]:
    releases: dict[str, list[dict[str, Any]]] = {}
    for one in built.releases:
        told: dict[str, Any] = {"version": one.version, "url": _relative(one), "digest": f"sha256:{one.sha256}"}
        told["content"] = one.digest
        releases.setdefault(one.name, []).append(told | ({"yanked": one.yanked} if one.yanked else {}))
    return {
        "$schema": SCHEMA,
        "skills": [
            {
                "name": one.name,
                "type": "archive",
                "description": one.description,
                "url": _relative(one),
                "digest": f"sha256:{one.sha256}",
                "extensions": {EXTENSION: _extension(one, built.deprecated.get(one.name))},
            }
            for one in built.current
        ],
        "extensions": {EXTENSION: {"name": built.name, "releases": releases, "deprecated": dict(built.deprecated)}},
    }


def _relative(one: PublishedRelease) -> str:
    return one.url.removeprefix(f"{INDEX}/")


def _extension(one: PublishedRelease, deprecated: Mapping[str, Any] | None = None) -> dict[str, Any]:
    told = {"version": one.version or None, "content": one.digest, "license": one.license or None, **one.details}
    return {key: value for key, value in {**told, "deprecated": deprecated}.items() if value}


def _manifest(one: PublishedRelease) -> dict[str, Any]:
    told = {
        "name": one.name,
        "version": one.version,
        "description": one.description,
        "license": one.license,
        "keywords": list(one.tags),
    }
    return {key: value for key, value in told.items() if value}


def _plugin(one: PublishedRelease, files: Files, author: str) -> dict[str, tuple[Any, bytes]]:
    """A skill as a plugin: for Agent Plugins by its root `plugin.json`, for Claude Code by that of `.claude-plugin`."""
    manifest = {**_manifest(one), "author": {"name": author}}
    portable = {"$schema": AGENT_PLUGIN_SCHEMA, **manifest, "extensions": {EXTENSION: _extension(one)}}
    manifests = {"plugin.json": portable, ".claude-plugin/plugin.json": manifest}
    found: dict[str, tuple[Any, bytes]] = {
        path: ("file", json.dumps(value, indent=2).encode() + b"\n") for path, value in manifests.items()
    }
    return found | {f"skills/{one.name}/{path}": entry for path, entry in files.items()}


def _description(text: str) -> str:
    """A description in one line, of so many units of UTF-16 as clients in JavaScript count."""
    text = shown(" ".join(text.split()), _MAX_DESCRIPTION)
    return text.encode("utf-16-le", errors="replace")[: 2 * _MAX_DESCRIPTION].decode("utf-16-le", errors="ignore")


def _require_allowed(release: Release, site: str, guard: Guard) -> None:
    decision = guard.settle(publish_action(release, f"dir:{site}"))
    if not decision.is_allowed:
        raise decision.as_error()


def publish_action(release: Release, target: str) -> Action:
    """The action that the guard decides about where a release is given to others; `target` is called as sources are."""
    home = SkillLocation(location="", name=release.name, source="release", layer="project")
    subject = subject_in(home, release.files, release.digest)
    return Action(point="publish", skill=subject, by="user", source=target)
