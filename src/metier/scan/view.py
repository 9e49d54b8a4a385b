"""What rules look at: a skill with every file decoded and taken apart, made once."""

from __future__ import annotations

from functools import update_wrapper
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.skill import Skill

_Found = TypeVar("_Found")
_Given = ParamSpec("_Given")
PartKind: TypeAlias = Literal["frontmatter", "prose", "code", "comment"]
OpaqueKind: TypeAlias = Literal[
    "program",
    "bytecode",
    "archive",
    "encrypted",
    "document",
    "media",
    "stowaway",
    "link",
    "unreadable",
    "binary",
    "odd",
]
Role: TypeAlias = Literal["instructions", "markdown", "script", "config", "other"]


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a file of one kind: frontmatter, prose, code in a fence, or an HTML comment.

    Prose is without its comments but with their line ends, so that line numbers hold and words on both sides of a
    comment stand together as a reader sees them. What follows a fence that is never closed is both code and prose.
    """

    kind: PartKind
    text: str
    line: int
    """The line of the file that the text begins on."""
    language: str = ""
    """Of code, by one name for each language: `shell`, `python`, `javascript`, `powershell` ..."""


@dataclass(frozen=True, slots=True)
class ViewFile:
    """A file that can be read as text; all of it, with LF line ends and without control characters."""

    path: str
    role: Role
    text: str
    parts: tuple[Part, ...]
    language: str = ""
    executable: bool = False


@dataclass(frozen=True, slots=True)
class OpaqueFile:
    """A file that rules cannot see into, or not all of it, and why."""

    path: str
    why: str
    """What it is, as the end of a sentence: `is a zip archive`."""
    kind: OpaqueKind = "binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillView:
    """A skill as rules see it."""

    name: str
    description: str
    frontmatter: Mapping[str, Any]
    """As it was read, every scalar a string."""
    files: tuple[ViewFile, ...]
    opaque: tuple[OpaqueFile, ...]
    paths: tuple[str, ...]
    """Of all files, sorted: those that are text and those that are not."""
    skill: Skill | None = None
    """The typed fields; None without a SKILL.md."""
    digest: str = ""
    """The content digest of the package that this is a view of."""
    hashes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The sha256 of every file, in hexadecimal digits."""
    left_out: tuple[OpaqueFile, ...] = ()
    """What lies in the folder on disk but is no part of the package: bytecode, installed modules, version control."""
    control: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The first line with a control character that was dropped, of the files that have one."""

    @property
    def instructions(self) -> ViewFile | None:
        """The SKILL.md."""
        return next((file for file in self.files if file.role == "instructions"), None)


def once_a_skill(
    function: Callable[Concatenate[SkillView, _Given], _Found],
) -> Callable[Concatenate[SkillView, _Given], _Found]:
    """A function of a view whose results for the last view are kept, as one rule after the other asks for them."""
    kept: tuple[SkillView | None, dict[Any, _Found]] = None, {}

    def once(view: SkillView, /, *args: _Given.args, **options: _Given.kwargs) -> _Found:
        nonlocal kept
        of, results = kept
        if of is not view:
            kept = of, results = view, {}
        key = args, tuple(options.items())
        if key not in results:
            results[key] = function(view, *args, **options)
        return results[key]

    return update_wrapper(once, function)
