"""What a skill is: a SKILL.md read into typed fields, with a diagnostic for everything that is not quite right.

This room takes bytes and folders and returns data. It imports nothing of the other rooms but the errors.
"""

from metier.skill.diagnostic import KINDS, Diagnostic, Severity, shown
from metier.skill.document import (
    MAX_SKILL_BYTES,
    Document,
    Draft,
    draft_name,
    interpret,
    parse,
    read_draft,
    shorten,
)
from metier.skill.fields import canonical_field
from metier.skill.files import Listing, Package, PackageFile
from metier.skill.folder import UNSETTLED_INODE, FolderPackage, Identity, IdentityRow, read_skill_file
from metier.skill.memory import MemoryFile, MemoryPackage
from metier.skill.names import is_valid_name, slug
from metier.skill.skill import Argument, Execution, Hook, HookGroup, Hooks, Scope, Skill
from metier.skill.tokens import estimate_tokens

__all__ = [
    "KINDS",
    "MAX_SKILL_BYTES",
    "UNSETTLED_INODE",
    "Argument",
    "Diagnostic",
    "Document",
    "Draft",
    "Execution",
    "FolderPackage",
    "Hook",
    "HookGroup",
    "Hooks",
    "Identity",
    "IdentityRow",
    "Listing",
    "MemoryFile",
    "MemoryPackage",
    "Package",
    "PackageFile",
    "Scope",
    "Severity",
    "Skill",
    "canonical_field",
    "draft_name",
    "estimate_tokens",
    "interpret",
    "is_valid_name",
    "parse",
    "read_draft",
    "read_skill_file",
    "shorten",
    "shown",
    "slug",
]
