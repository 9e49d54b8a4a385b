"""The receipt of a load or unload: what is loaded after it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.session.active_skills import ActiveSkill


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
