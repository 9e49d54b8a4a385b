"""A skill's content as the store keeps it: every file, and what is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.store import Revision, revision_files

if TYPE_CHECKING:
    from metier.scan.capabilities import Capabilities
    from metier.skill import Skill
    from metier.skill.contents import Files
    from metier.store import Scope


def keep_revision(
    scope: Scope,
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
