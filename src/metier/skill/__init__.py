"""What a skill is: a SKILL.md read into typed fields, with a diagnostic for everything that is not quite right.

This room takes bytes and folders and returns data. It imports nothing of the other rooms but the errors.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.skill.diagnostic import KINDS as KINDS
    from metier.skill.diagnostic import Diagnostic as Diagnostic
    from metier.skill.diagnostic import Severity as Severity
    from metier.skill.diagnostic import shown as shown
    from metier.skill.document import Document as Document
    from metier.skill.document import interpret as interpret
    from metier.skill.document import parse as parse
    from metier.skill.draft import MAX_SKILL_BYTES as MAX_SKILL_BYTES
    from metier.skill.draft import Draft as Draft
    from metier.skill.draft import Header as Header
    from metier.skill.draft import draft_name as draft_name
    from metier.skill.draft import draft_of_header as draft_of_header
    from metier.skill.draft import read_draft as read_draft
    from metier.skill.draft import read_header as read_header
    from metier.skill.draft import shorten as shorten
    from metier.skill.fields import canonical_field as canonical_field
    from metier.skill.files import Listing as Listing
    from metier.skill.files import Package as Package
    from metier.skill.files import PackageFile as PackageFile
    from metier.skill.folder import UNSETTLED_INODE as UNSETTLED_INODE
    from metier.skill.folder import FolderPackage as FolderPackage
    from metier.skill.folder import Identity as Identity
    from metier.skill.folder import IdentityRow as IdentityRow
    from metier.skill.folder import read_skill_file as read_skill_file
    from metier.skill.memory import MemoryFile as MemoryFile
    from metier.skill.memory import MemoryPackage as MemoryPackage
    from metier.skill.names import is_valid_name as is_valid_name
    from metier.skill.names import slug as slug
    from metier.skill.requirements import NO_REQUIREMENTS as NO_REQUIREMENTS
    from metier.skill.requirements import Requirements as Requirements
    from metier.skill.requirements import may_require as may_require
    from metier.skill.requirements import requirements_in as requirements_in
    from metier.skill.requirements import requirements_of as requirements_of
    from metier.skill.side_file import NOTHING_BESIDE as NOTHING_BESIDE
    from metier.skill.side_file import SideFile as SideFile
    from metier.skill.side_file import read_side_file as read_side_file
    from metier.skill.skill import Argument as Argument
    from metier.skill.skill import Execution as Execution
    from metier.skill.skill import Hook as Hook
    from metier.skill.skill import HookGroup as HookGroup
    from metier.skill.skill import Hooks as Hooks
    from metier.skill.skill import Scope as Scope
    from metier.skill.skill import Skill as Skill
    from metier.skill.tokens import estimate_tokens as estimate_tokens
    from metier.skill.writing import write_skill as write_skill

__getattr__, __dir__, __all__ = lazy_names(__name__)
