"""What a skill is: a SKILL.md read into typed fields, with a diagnostic for everything that is not quite right.

This room takes bytes and folders and returns data. It imports nothing of the other rooms but the errors.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.skill.diagnostic import KINDS, Diagnostic, Severity, shown
    from metier.skill.document import Document, interpret, parse
    from metier.skill.draft import (
        MAX_SKILL_BYTES,
        Draft,
        Header,
        draft_name,
        draft_of_header,
        read_draft,
        read_header,
        shorten,
    )
    from metier.skill.fields import canonical_field
    from metier.skill.files import Listing, Package, PackageFile
    from metier.skill.folder import UNSETTLED_INODE, FolderPackage, Identity, IdentityRow, read_skill_file
    from metier.skill.memory import MemoryFile, MemoryPackage
    from metier.skill.names import is_valid_name, slug
    from metier.skill.requirements import NO_REQUIREMENTS, Requirements, may_require, requirements_in, requirements_of
    from metier.skill.side_file import NOTHING_BESIDE, SideFile, read_side_file
    from metier.skill.skill import Argument, Execution, Hook, HookGroup, Hooks, Scope, Skill
    from metier.skill.tokens import estimate_tokens
    from metier.skill.writing import write_skill

_NAMES = {
    "KINDS": "metier.skill.diagnostic",
    "MAX_SKILL_BYTES": "metier.skill.draft",
    "NOTHING_BESIDE": "metier.skill.side_file",
    "NO_REQUIREMENTS": "metier.skill.requirements",
    "UNSETTLED_INODE": "metier.skill.folder",
    "Argument": "metier.skill.skill",
    "Diagnostic": "metier.skill.diagnostic",
    "Document": "metier.skill.document",
    "Draft": "metier.skill.draft",
    "Execution": "metier.skill.skill",
    "FolderPackage": "metier.skill.folder",
    "Header": "metier.skill.draft",
    "Hook": "metier.skill.skill",
    "HookGroup": "metier.skill.skill",
    "Hooks": "metier.skill.skill",
    "Identity": "metier.skill.folder",
    "IdentityRow": "metier.skill.folder",
    "Listing": "metier.skill.files",
    "MemoryFile": "metier.skill.memory",
    "MemoryPackage": "metier.skill.memory",
    "Package": "metier.skill.files",
    "PackageFile": "metier.skill.files",
    "Requirements": "metier.skill.requirements",
    "Scope": "metier.skill.skill",
    "Severity": "metier.skill.diagnostic",
    "SideFile": "metier.skill.side_file",
    "Skill": "metier.skill.skill",
    "canonical_field": "metier.skill.fields",
    "draft_name": "metier.skill.draft",
    "draft_of_header": "metier.skill.draft",
    "estimate_tokens": "metier.skill.tokens",
    "interpret": "metier.skill.document",
    "is_valid_name": "metier.skill.names",
    "may_require": "metier.skill.requirements",
    "parse": "metier.skill.document",
    "read_draft": "metier.skill.draft",
    "read_header": "metier.skill.draft",
    "read_side_file": "metier.skill.side_file",
    "read_skill_file": "metier.skill.folder",
    "requirements_in": "metier.skill.requirements",
    "requirements_of": "metier.skill.requirements",
    "shorten": "metier.skill.draft",
    "shown": "metier.skill.diagnostic",
    "slug": "metier.skill.names",
    "write_skill": "metier.skill.writing",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "KINDS",
    "MAX_SKILL_BYTES",
    "NOTHING_BESIDE",
    "NO_REQUIREMENTS",
    "UNSETTLED_INODE",
    "Argument",
    "Diagnostic",
    "Document",
    "Draft",
    "Execution",
    "FolderPackage",
    "Header",
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
    "Requirements",
    "Scope",
    "Severity",
    "SideFile",
    "Skill",
    "canonical_field",
    "draft_name",
    "draft_of_header",
    "estimate_tokens",
    "interpret",
    "is_valid_name",
    "may_require",
    "parse",
    "read_draft",
    "read_header",
    "read_side_file",
    "read_skill_file",
    "requirements_in",
    "requirements_of",
    "shorten",
    "shown",
    "slug",
    "write_skill",
]
