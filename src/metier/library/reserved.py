"""The names that skills of the enterprise layer have, and whose they are."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from metier.skill import slug
from metier.skill.lookalikes import is_plain, readings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.library.entry import Entry


class ReservedNames:
    """The names and folders of the skills that administrators deployed, as one caller sees them.

    A skill that cannot be read keeps its name: it must not open the way for another.
    """

    def __init__(self, enterprise: Iterable[Entry]) -> None:
        """The skills of the enterprise layer, the strongest of a name first."""
        self._owners: dict[str, Entry] = {}
        for entry in enterprise:
            self._owners.setdefault(entry.name, entry)
        for entry in list(self._owners.values()):
            if entry.name.isascii():
                # `v1` is taken for `vl`, and that for `v1`.
                for reading in readings(entry.name):
                    self._owners.setdefault(reading, entry)
            # A folder is an alias, which another skill's name must not take over.
            if entry.folder != entry.name and (alias := slug(entry.folder)):
                self._owners.setdefault(alias, entry)

    def __bool__(self) -> bool:
        return bool(self._owners)

    def owner_of(self, entry: Entry, winner: Entry | None) -> Entry | None:
        """The skill that an entry's name belongs to, unless it is its own; `winner` answers to that name already."""
        owner = self._owner(entry.name)
        if owner is None:
            return None
        if entry.layer == "enterprise":
            # Administrators may call several skills as they like; of one name the strongest counts.
            return winner
        # Whoever names a deployed skill's own folder means that very skill.
        return None if os.path.realpath(owner.location) == os.path.realpath(entry.location) else owner

    def may_be_called(self, entry: Entry, alias: str) -> bool:
        """Whether an alias leads to a skill: it may be its folder and the name of an enterprise skill at once."""
        return entry.layer == "enterprise" or self._owner(alias) is None

    def _owner(self, name: str) -> Entry | None:
        owner = self._owners.get(name)
        if owner is not None or is_plain(name):
            return owner
        return next((self._imitated[one] for one in readings(name) if one in self._imitated), None)

    @cached_property
    def _imitated(self) -> dict[str, Entry]:
        """The owners by all that their names may be read as: one may be written in letters of another script itself."""
        return {one: owner for name, owner in self._owners.items() for one in readings(name)}
