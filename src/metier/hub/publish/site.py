"""A registry as a static site, for any web server: one content in every form that clients look for.

- `/.well-known/agent-skills/index.json` (discovery 0.2.0) with an archive of each release,
- `/.well-known/skills/index.json` (0.1.0) with the files of the newest,
- `/.claude-plugin/marketplace.json` for Claude Code, with plugins below `/plugins`, which are Agent Plugins 1.0 too,
- `/marketplace.json`, the same with archives, for a site whose address is known,
- `/index.html` for people.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.errors import IntegrityFailed, InvalidArgument
from metier.guard import Actor, Guard
from metier.hub.publish.listing import (
    INDEX,
    OLD_INDEX,
    Listing,
    as_json,
    index,
    marketplace,
    old_index,
    plugin_files,
    release_facts,
    select,
    without_empty,
)
from metier.hub.publish.pack import pack
from metier.hub.publish.registry_folder import RegistryFolder
from metier.hub.publish.release import judge_release, record_made
from metier.hub.publish.site_folder import SiteFolder
from metier.hub.publish.site_page import page
from metier.hub.sources.http import sha256_of
from metier.skill import shown
from metier.skill.names import slug

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.hub.publish.listing import Facts
    from metier.hub.publish.release import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltSite(Listing):
    """The result of a build."""

    path: str


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
    owner = without_empty({"name": record.get("owner") or own_name, "email": record.get("email")})
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
    more = {
        "provenance": select(published, ("at", "by")),
        "yanked": record["yanked"].get(release.name, {}).get(release.version),
        "deprecated": record["deprecated"].get(release.name),
    }
    return {**release_facts(release), **without_empty(more)}


def _write_files(site: SiteFolder, release: Release, facts: Facts, built: BuiltSite) -> None:
    """Write a release as files, for 0.1.0, and as a plugin."""
    plugin = plugin_files(release, facts, built.owner["name"])
    for path, (_, data) in release.files.items():
        site.write(f"{OLD_INDEX}/{release.name}/{path}", data)
    for path, (mode, data) in plugin.items():
        site.write(f"plugins/{release.name}/{path}", data, executable=mode == "exec")
    if built.has_archives:
        site.write(f"plugins/{release.label}.zip", pack(plugin))


def _write_lists(site: SiteFolder, built: BuiltSite) -> None:
    """Write what lists all skills."""

    def archive_of(one: Facts) -> dict[str, str]:
        path = f"plugins/{os.path.basename(one['url'])}"
        return {"source": "archive", "url": f"{built.url}/{path}", "sha256": site.written[path]}

    lists = {
        f"{INDEX}/index.json": index(built),
        f"{OLD_INDEX}/index.json": old_index(built),
        ".claude-plugin/marketplace.json": marketplace(built, lambda one: f"./plugins/{one['name']}"),
        **({"marketplace.json": marketplace(built, archive_of)} if built.has_archives else {}),
    }
    for path, value in lists.items():
        site.write(path, as_json(value))
    site.write("index.html", page(built).encode(errors="replace"))
    site.write(".nojekyll", b"")  # hosts that run Jekyll leave out folders that begin with a dot
