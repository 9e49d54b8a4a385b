"""Records of content in the store: revisions, and announced replacements.

The files of a skill and the store cannot change in one step. Before the files do, the audit log says which content
takes the place of which. Where the process is killed before the installation is on record, that vouches for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.store import Revision, revision_files

if TYPE_CHECKING:
    from metier.scan.capabilities import Capabilities
    from metier.skill import Skill
    from metier.skill.package import Files
    from metier.store import Install, TenantScope


def keep_revision(
    scope: TenantScope,
    ref: str,
    digest: str,
    files: Files,
    *,
    skill: Skill,
    capabilities: Capabilities,
    parent: str = "",
    is_whole: bool = True,
) -> Revision:
    """Keep a content of a skill, called `name@source`, so that it can be shown and brought back.

    Of files that are not all of it, only what they are called and their hashes are kept.
    """
    revision = Revision(
        digest=digest,
        skill=ref,
        frontmatter=dict(skill.frontmatter),
        capabilities=capabilities.as_dict(),
        declared=tuple(skill.allowed_tools or ()),
        files=revision_files(files),
        parent=parent,
    )
    scope.revisions.put(revision, files if is_whole else None)
    return revision


REPLACING = "skill.replacing"
"""The type of the records that say so: allowed when it begins, denied when it came to nothing."""
_MOST = 50


def announced(scope: TenantScope, install: Install, digest: str) -> dict[str, Any] | None:
    """The record that says of a content that it takes the place of the one that belongs there, if that still holds."""
    for record in scope.audit.search(type=REPLACING, digest=install.digest, limit=_MOST):
        if record.get("path") == install.location:
            holds = record.get("decision") == "allow" and since(install) in record.get("notes", ())
            return record if holds and record.get("new_digest") == digest else None
    return None


def since(install: Install) -> str:
    """A note that ties a record to this one time that a content was put in a place: it may be there again later."""
    return f"in place since {install.at}"
