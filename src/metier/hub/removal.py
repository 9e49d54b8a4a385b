"""Skills that are removed: the folder, the lock, the record of the installation. The history stays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier.guard.audit.governance_events import actor_of, record_event
from metier.hub.folder_replacement import digest_at, remove_folder
from metier.hub.skill_files import keep_files
from metier.hub.skill_location import location_at
from metier.library.lock_file import change_lock
from metier.library.places import TrustStore
from metier.library.skills_lock import change_skills_lock
from metier.skill import FolderPackage
from metier.skill.package import files_of

if TYPE_CHECKING:
    from metier.guard.policy.effective import EffectivePolicy
    from metier.hub.updates import InstalledSkill
    from metier.store import Person, TenantScope


def remove_skill(scope: TenantScope, effective: EffectivePolicy, person: Person, one: InstalledSkill) -> str | None:
    """Remove an installed skill; the digest of what lay there, which can be brought back, or None for nothing."""
    home = location_at(one.location, one.locked.name)
    there = digest_at(home.folder) if os.path.lexists(one.location) else None
    if there is not None:
        if not scope.revisions.has(there):
            keep_files(scope, effective, home.ref, files_of(FolderPackage(home.folder)))
        remove_folder(one.location)
    with scope.transaction():
        scope.installs.remove(home.location)
        record_event(
            scope,
            "skill.removed",
            actor_of(person, scope),
            home.ref,
            digest=there or one.locked.digest,
            path=home.location,
            reason=f"Removed; it came from {one.locked.source}.",
        )
    after = change_lock(one.lock.path, lambda lock: lock.without(one.locked.folder))
    if home.layer == "project" and all(skill.name != one.locked.name for skill in after.skills):
        change_skills_lock(one.lock.root, {one.locked.name: None})
    TrustStore().untrust(home.location)
    return there
