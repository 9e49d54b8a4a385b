"""One skill in the library: the skill, and where it stands."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import replace
from metier.errors import MetierError
from metier.library.index_rows import BROKEN, DERIVED, SPECIAL, STALE, broken_frontmatter, special_of
from metier.library.places import admits
from metier.library.readiness import Machine, readiness
from metier.skill import (
    NO_OPENAI_METADATA,
    NO_REQUIREMENTS,
    Diagnostic,
    may_require,
    read_frontmatter,
    read_openai_yaml,
    requirements_in,
    requirements_of,
)
from metier.skill.requirements import FIELDS_WITHOUT_REQUIREMENTS
from metier.source.source import SkillFileError, read_skill

if TYPE_CHECKING:
    from metier.library.index_rows import IndexRows
    from metier.library.places import Caller, Layer, Place
    from metier.library.readiness import Readiness
    from metier.skill import Frontmatter, IdentityRow, OpenAIMetadata, Package, Requirements, Scope, Skill
    from metier.source import Source

Status: TypeAlias = Literal["active", "shadowed", "broken", "skipped"]


class Entry:
    """A skill in its place. Cheap to make; the skill itself is interpreted when somebody looks at it.

    >>> from metier import Library
    >>> entry = Library.from_files({"SKILL.md": "---\\nname: a\\ndescription: Does a.\\n---\\nDo."}).get("a")
    >>> entry.name, entry.layer, entry.description
    ('a', 'project', 'Does a.')
    """

    __slots__ = (
        *("_frontmatter", "_rows", "_skill", "_special"),
        *("index", "is_beside_another", "key", "name", "place", "reserved_by", "shadowed_by"),
    )

    def __init__(self, place: Place, rows: IndexRows, index: int) -> None:
        self.place = place
        self.index = index
        self.key = rows.keys[index]
        """The path of the SKILL.md within the source."""
        self.name = rows.names[index]
        self.shadowed_by: Entry | None = None
        """The skill that answers to this one's name instead."""
        self.reserved_by: Entry | None = None
        """The skill of the enterprise layer that this one's name belongs to, as it is that name or looks like it."""
        self.is_beside_another = False
        """Whether `name@source` means another skill of the same source."""
        self._rows = rows
        self._frontmatter: Frontmatter | None = None
        self._skill: Skill | None = None
        self._special: tuple[int, Scope | None] | None = None

    def below(self, winner: Entry | None, owner: Entry | None) -> Entry:
        """The same skill as somebody sees it for whom `winner` answers to its name, which belongs to `owner`."""
        other = Entry(self.place, self._rows, self.index)
        other._frontmatter, other._skill, other._special = self._frontmatter, self._skill, self._special
        other.shadowed_by, other.reserved_by = winner, owner
        return other

    def beside_another(self) -> Entry:
        """The same skill as somebody sees it for whom `name@source` means another one of its source."""
        other = self.below(self.shadowed_by, self.reserved_by)
        other.is_beside_another = True
        return other

    def __repr__(self) -> str:
        return f"Entry({self.name!r}, {self.layer!r}, {self.location!r})"

    @property
    def layer(self) -> Layer:
        """The layer of its place."""
        return self.place.layer

    @property
    def source(self) -> str:
        """The name of the source it comes from."""
        return self.place.name or self.place.source.name

    @property
    def selector(self) -> str:
        """The part after the `@` that selects it: its source, with its folder there where two share a name."""
        return f"{self.source}/{self.key.rpartition('/')[0]}" if self.is_beside_another else self.source

    @property
    def reference(self) -> str:
        """The name that reaches it, also while another skill answers to its name: `name@source`."""
        return f"{self.name}@{self.selector}"

    @property
    def trusted(self) -> bool:
        """Whether anybody vouches for it, or for the place it comes from."""
        return self.place.trusted or self.key.rpartition("/")[0] in self.place.vouched

    @property
    def location(self) -> str:
        """The location of its SKILL.md."""
        return self.place.source.location(self.key)

    @property
    def folder(self) -> str:
        """The name of its folder, which is accepted as an alias when it is free."""
        return self.place.source.folder(self.key)

    @property
    def identity(self) -> IdentityRow:
        """The identity of its file when it was read."""
        return self._rows.identities[self.index]

    @property
    def _marks(self) -> int:
        return self._rows.marks[self.index]

    @property
    def is_broken(self) -> bool:
        """Whether it cannot be loaded."""
        return bool(self._marks & BROKEN)

    @property
    def is_usable(self) -> bool:
        """Whether it can be loaded where no other answers to its name."""
        return not self.is_broken and not self.is_skipped

    @property
    def is_stale(self) -> bool:
        """Whether its file became unusable and the last good version is served."""
        return bool(self._marks & STALE)

    @property
    def is_hidden_from_models(self) -> bool:
        """Whether models are not shown it: its author says so, or it is undescribed in a place nobody trusts."""
        if self.is_undescribed_and_hidden:
            return True
        # Nearly all skills have fields alone that say nothing of it, and need not be interpreted for that.
        if not self.frontmatter.mapping.keys() <= FIELDS_WITHOUT_REQUIREMENTS:
            skill = self.skill
            # What is inserted as a message of the user's is not a model's to load.
            if skill.disable_model_invocation or skill.insert == "user-message":
                return True
        return self.openai_metadata.is_for_people_only

    @property
    def is_undescribed_and_hidden(self) -> bool:
        """Whether it has no description of its own, in a place where such skills are hidden from models."""
        return bool(self._marks & DERIVED) and self.place.on_missing_description == "hide"

    @property
    def openai_metadata(self) -> OpenAIMetadata:
        """The metadata in its `agents/openai.yaml`, read each time: a refresh does not look at that file."""
        # Nearly every skill has none, and to see that is much cheaper than to look for the file safely.
        if self.place.source.root is not None and not os.path.lexists(f"{os.path.dirname(self.location)}/agents"):
            return NO_OPENAI_METADATA
        try:
            package = self.package
        except MetierError:
            return NO_OPENAI_METADATA  # an archive that is gone
        return read_openai_yaml(package)

    @property
    def requirements(self) -> Requirements:
        """The requirements that its frontmatter and its `agents/openai.yaml` declare."""
        declared, beside = self.declared_requirements, self.openai_metadata.mcp
        return replace(declared, mcp=tuple(dict.fromkeys((*declared.mcp, *beside)))) if beside else declared

    @property
    def declared_requirements(self) -> Requirements:
        """The requirements that its frontmatter declares; `agents/openai.yaml` adds MCP servers only."""
        mapping = self.frontmatter.mapping
        if mapping.keys() <= FIELDS_WITHOUT_REQUIREMENTS:
            return NO_REQUIREMENTS
        metadata = mapping.get("metadata", {})
        if isinstance(metadata, dict) and metadata:
            return requirements_in(mapping, metadata)
        # It may be JSON, or spelled otherwise.
        return requirements_of(self.skill) if may_require(mapping) else NO_REQUIREMENTS

    def readiness(self, machine: Machine | None = None) -> Readiness:
        """The readiness of this machine for it."""
        return readiness(self.requirements, machine or Machine())

    @property
    def status(self) -> Status:
        """The status: active when it answers to its name, else the reason."""
        if self.is_broken:
            return "broken"
        if self.is_skipped:
            return "skipped"
        return "shadowed" if self.shadowed_by is not None else "active"

    @property
    def is_skipped(self) -> bool:
        """Whether it is left out because it has no description."""
        return bool(self._marks & DERIVED) and self.place.on_missing_description == "skip"

    @property
    def skill(self) -> Skill:
        """The skill as its SKILL.md describes it."""
        if self._skill is None:
            from metier.skill.fields import interpret

            frontmatter = self.frontmatter
            forced = self.place.source.forced_name(self.key)
            if forced is not None:
                frontmatter = _renamed(frontmatter, forced)
            self._skill = interpret(frontmatter, self.folder, self.key.rpartition("/")[2])
        return self._skill

    @property
    def frontmatter(self) -> Frontmatter:
        """The frontmatter of its file, read again when the cache that it came from was damaged."""
        if self._frontmatter is None:
            try:
                self._frontmatter = self._rows.frontmatter(self.index)
                self._rows.remember(self.index, self._frontmatter)
            except ValueError:
                self._frontmatter = _read_again(self.place.source, self.key)
        return self._frontmatter

    @property
    def description(self) -> str:
        """The purpose of the skill and when to use it."""
        # What `interpret` would say, without the rest of it: listing a thousand skills asks for nothing else.
        frontmatter = self.frontmatter
        written = frontmatter.mapping.get("description")
        if type(written) is str and (text := written.strip()):
            return text
        return frontmatter.derived or self.skill.description

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of its file and of its place."""
        notes = self.skill.diagnostics
        if self.is_undescribed_and_hidden:
            notes += (Diagnostic("description-hidden", 1),)
        if self.shadowed_by is not None:
            other = self.shadowed_by
            notes += (Diagnostic("shadowed", None, (self.name, f"{other.layer} {other.location}", self.selector)),)
        return notes

    @property
    def package(self) -> Package:
        """Its files."""
        return self.place.source.package(self.key)

    @property
    def priority(self) -> int:
        """Its weight inside its layer."""
        return self._rare()[0]

    @property
    def scope(self) -> Scope | None:
        """The callers that may see it; None for anyone."""
        return self._rare()[1]

    def _rare(self) -> tuple[int, Scope | None]:
        if not self._marks & SPECIAL:
            return (0, None)
        if self._special is None:
            self._special = special_of(self.frontmatter, self.folder)
        return self._special

    def is_visible_to(self, caller: Caller) -> bool:
        """Whether its scope admits a caller."""
        return admits(self.scope, caller)


def _read_again(source: Source, key: str) -> Frontmatter:
    try:
        return read_frontmatter(read_skill(source, key)[0])
    except SkillFileError as problem:
        return broken_frontmatter(problem.diagnostic)


def _renamed(frontmatter: Frontmatter, name: str) -> Frontmatter:
    """The frontmatter as if its file gave this name."""
    from metier.skill.fields import canonical_field

    mapping = {key: value for key, value in frontmatter.mapping.items() if canonical_field(key) != "name"}
    lines = [line for key, line in zip(frontmatter.mapping, frontmatter.lines, strict=True) if key in mapping]
    return frontmatter._replace(mapping={"name": name, **mapping}, lines=[1, *lines])
