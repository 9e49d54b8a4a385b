"""The skill format: a SKILL.md read into typed fields, with a diagnostic for everything that is not quite right.

This room takes bytes and folders and returns data. It imports nothing of the other rooms but the errors.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.skill.diagnostic import DIAGNOSTIC_KINDS as DIAGNOSTIC_KINDS
    from metier.skill.diagnostic import Diagnostic as Diagnostic
    from metier.skill.diagnostic import Severity as Severity
    from metier.skill.document import Document as Document
    from metier.skill.document import parse as parse
    from metier.skill.document import write_skill as write_skill
    from metier.skill.fields import canonical_field as canonical_field
    from metier.skill.fields import interpret as interpret
    from metier.skill.folder import UNSETTLED_INODE as UNSETTLED_INODE
    from metier.skill.folder import FolderPackage as FolderPackage
    from metier.skill.folder import Identity as Identity
    from metier.skill.folder import IdentityRow as IdentityRow
    from metier.skill.folder import read_skill_file as read_skill_file
    from metier.skill.frontmatter import MAX_SKILL_BYTES as MAX_SKILL_BYTES
    from metier.skill.frontmatter import Frontmatter as Frontmatter
    from metier.skill.frontmatter import UnparsedFrontmatter as UnparsedFrontmatter
    from metier.skill.frontmatter import estimate_tokens as estimate_tokens
    from metier.skill.frontmatter import frontmatter_name as frontmatter_name
    from metier.skill.frontmatter import parse_frontmatter as parse_frontmatter
    from metier.skill.frontmatter import read_frontmatter as read_frontmatter
    from metier.skill.frontmatter import read_name_only as read_name_only
    from metier.skill.frontmatter import shorten as shorten
    from metier.skill.names import is_valid_name as is_valid_name
    from metier.skill.names import slug as slug
    from metier.skill.openai_yaml import NO_OPENAI_METADATA as NO_OPENAI_METADATA
    from metier.skill.openai_yaml import OpenAIMetadata as OpenAIMetadata
    from metier.skill.openai_yaml import read_openai_yaml as read_openai_yaml
    from metier.skill.package import MemoryFile as MemoryFile
    from metier.skill.package import MemoryPackage as MemoryPackage
    from metier.skill.package import Package as Package
    from metier.skill.package import PackageFile as PackageFile
    from metier.skill.package import PackageListing as PackageListing
    from metier.skill.requirements import NO_REQUIREMENTS as NO_REQUIREMENTS
    from metier.skill.requirements import Requirements as Requirements
    from metier.skill.requirements import may_require as may_require
    from metier.skill.requirements import requirements_in as requirements_in
    from metier.skill.requirements import requirements_of as requirements_of
    from metier.skill.skill import Argument as Argument
    from metier.skill.skill import Execution as Execution
    from metier.skill.skill import Hook as Hook
    from metier.skill.skill import HookGroup as HookGroup
    from metier.skill.skill import Hooks as Hooks
    from metier.skill.skill import Scope as Scope
    from metier.skill.skill import Skill as Skill
    from metier.skill.untrusted_text import shown as shown

__getattr__, __dir__, __all__ = lazy_names(__name__)
