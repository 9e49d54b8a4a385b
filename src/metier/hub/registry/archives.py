"""The archives of a registry: those that clients fetch, and those that are uploaded.

The archive of a release is kept as it was made: another version of the compression would give other bytes, and clients
hold a release to the digest that they have seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.errors import FileMissing, IntegrityFailed, SkillInvalid
from metier.hub.publish.listing import plugin_files, release_facts
from metier.hub.publish.pack import pack
from metier.hub.publish.release import read_release
from metier.hub.skill_files import keep_files
from metier.hub.sources.http import sha256_of
from metier.hub.sources.tree import archive_tree, candidates_of, files_of_archive
from metier.skill import parse
from metier.skill.package import digest_of_files
from metier.source.unpack import unpack

if TYPE_CHECKING:
    from metier.guard.policy.effective import EffectivePolicy
    from metier.hub.publish.release import Release
    from metier.skill.package import Files
    from metier.store import RegistryRelease, TenantScope

_OWN_COLUMNS = ("name", "version", "description", "content", "url")


def keep_archives(scope: TenantScope, release: Release, namespace: str) -> dict[str, Any]:
    """Keep the archives of a release; returns the fields of its row that follow from its files."""
    facts = release_facts(release)
    archive, plugin = pack(release.files), pack(plugin_files(release, facts, namespace))
    scope.store.blobs.put(sorted([archive, plugin]))
    more = {key: value for key, value in facts.items() if key not in _OWN_COLUMNS}
    return {
        "archive_digest": sha256_of(archive),
        "archive_size": len(archive),
        "description": facts.get("description", ""),
        "facts": {**more, "plugin": sha256_of(plugin)},
    }


def archive_of(scope: TenantScope, release: RegistryRelease, *, as_plugin: bool = False) -> bytes:
    """The archive of a release, exactly as it was announced; made again where it was lost, as after a restore."""
    digest = str(release.facts["plugin"]) if as_plugin else release.archive_digest
    try:
        return scope.store.blobs.get(digest.removeprefix("sha256:"))
    except (FileMissing, IntegrityFailed):
        kept = read_release(scope.revisions.files(release.digest), version=release.version)
        files = plugin_files(kept, release_facts(kept), release.namespace) if as_plugin else kept.files
        data = pack(files)
        if sha256_of(data) != digest:
            raise
        scope.store.blobs.put([data])
        return data


def files_of_upload(data: bytes) -> Files:
    """The files of the one skill in an archive: at its root, or in a folder below, as packages of APM have it.

    Raises `ArchiveRefused` for a hostile archive, and `SkillInvalid` for one that has no skill, or several.
    """
    tree = archive_tree(data)
    found = candidates_of(tree)
    if len(found) != 1:
        raise SkillInvalid(
            f"The archive has {len(found)} skills; a release is one.", hint="Let it have one folder with a SKILL.md."
        )
    return found[0].files()


def keep_upload(scope: TenantScope, effective: EffectivePolicy, digest: str, data: bytes) -> bool:
    """Keep the content of an archive with SKILL.md at its root; False where it is kept already.

    Raises `ArchiveRefused` for a hostile archive, and `IntegrityFailed` for one that has not exactly this content.
    """
    files = files_of_archive(unpack(data))
    if digest_of_files(files) != digest:
        raise IntegrityFailed(
            f"The archive has another content than {digest:.20}….",
            hint="Send what the digest was made of.",
            digest=digest,
        )
    if scope.revisions.has(digest):
        return False
    _, text = files.get("SKILL.md", ("file", b""))
    keep_files(scope, effective, f"{parse(text, folder='upload').skill.name}@upload", files)
    return True
