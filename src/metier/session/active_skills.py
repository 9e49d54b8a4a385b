"""A skill that a session has loaded, as it was at that moment."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from metier.guard import Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard import Ceiling
    from metier.library import Entry
    from metier.session.state import By
    from metier.skill import FileListing, Skill


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveSkill:
    """What a session keeps of a skill: what it said when it was loaded, whatever happens to its files since."""

    skill: Skill
    entry: Entry
    digest: str
    """`sha256:` of the package that was loaded."""
    root: str
    """The folder that its relative paths start from: the verified copy of what was loaded, for every tool."""
    body: str
    """Its instructions, with arguments in their places."""
    arguments: str = ""
    by: By = "host"
    """Who loaded it."""
    ceiling: Ceiling
    listing: FileListing
    hooks_run: bool = False
    """Whether policy lets the hooks that it declares run."""
    is_stale: bool = False
    """Whether its files have changed since; loading it again takes the change over."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.entry.name

    @property
    def folder(self) -> str:
        """The folder that it was loaded from, whose files may have changed since; models are never told of it."""
        return os.path.dirname(self.entry.location)

    @property
    def subject(self) -> Subject:
        """What the guard is told of it."""
        return subject_of(self.entry, self.digest)

    @property
    def label(self) -> str:
        """What records call it: its name, where it comes from, and the beginning of its digest."""
        return f"{self.entry.name}@{self.entry.source}#{self.digest.removeprefix('sha256:')[:12]}"

    def with_body(self, body: str) -> ActiveSkill:
        """The same skill, with its instructions."""
        return replace(self, body=body)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptItem:
    """One active skill on a receipt."""

    name: str
    location: str
    """Where its SKILL.md is, in the verified copy."""
    root_dir: str
    digest: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    """Its frontmatter, without name and description."""
    is_stale: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The item as JSON holds it."""
        found = {
            "name": self.name,
            "location": self.location,
            "root_dir": self.root_dir,
            "digest": self.digest,
            "properties": dict(self.properties),
        }
        return found | ({"stale": True} if self.is_stale else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a session has loaded after a change, in order, the most recent last."""

    active: tuple[ReceiptItem, ...] = ()
    changed: tuple[str, ...] = ()
    """The skills that were loaded or unloaded by it."""
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Skills that the loaded ones build on and that are not loaded."""
    unloaded: tuple[str, ...] = ()
    """The skills that are no longer active because of it: unloaded, replaced, or removed to make room."""
    inline: tuple[str, ...] = ()
    """The loaded skills that ask for an agent of their own (`context: fork`) and are part of this conversation here."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for a model about what a load did beside what was asked for."""
        found = []
        if self.unloaded:
            names = ", ".join(self.unloaded)
            found.append(f"No longer active: {names}. What they say counts no more, until you ask for them again.")
        found += [
            f"Skill {name!r} asks for an agent of its own, and none can be started here: it was loaded into this "
            "conversation. Do what it says as a step of its own, and go on with what comes of it."
            for name in self.inline
        ]
        return tuple(found)

    def as_dict(self) -> dict[str, Any]:
        """The receipt as JSON holds it."""
        found: dict[str, Any] = {"active": [item.as_dict() for item in self.active]}
        if self.requires:
            found["requires"] = {name: list(needed) for name, needed in self.requires.items()}
        if self.unloaded:
            found["unloaded"] = list(self.unloaded)
        if self.inline:
            found["inline"] = list(self.inline)
        return found


def is_same(one: Entry, other: Entry) -> bool:
    """Whether two entries are the same skill in the same place, whatever has become of its content."""
    return one.place is other.place and one.key == other.key


def is_same_load(one: ActiveSkill, other: ActiveSkill) -> bool:
    """Whether two are the same content of the same skill."""
    return one.digest == other.digest and is_same(one.entry, other.entry)


def subject_of(entry: Entry, digest: str = "") -> Subject:
    """What the guard is told of a skill in the library."""
    return Subject(
        name=entry.name,
        digest=digest,
        layer=entry.layer,
        source=entry.source,
        trusted=entry.trusted,
        for_models=not entry.is_hidden_from_models,
        for_people=entry.skill.user_invocable,
        entry=entry,
    )


def script_paths(entry: Entry, root: str, listing: FileListing) -> tuple[str, ...]:
    """The absolute paths of a skill's scripts: in its verified copy, and where it was loaded from."""
    roots = (root, os.path.dirname(entry.location))
    return tuple(os.path.join(root, *file.path.split("/")) for root in roots for file in listing.scripts())


def receipt_item(active: ActiveSkill) -> ReceiptItem:
    """What a receipt says of an active skill."""
    properties = {
        key: value for key, value in active.skill.frontmatter.items() if key.lower() not in ("name", "description")
    }
    return ReceiptItem(
        name=active.name,
        location=os.path.join(active.root, os.path.basename(active.entry.location)),
        root_dir=active.root,
        digest=active.digest,
        properties=properties,
        is_stale=active.is_stale,
    )
