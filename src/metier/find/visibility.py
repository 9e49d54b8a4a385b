"""The skills that a model is told of: not those for people only, nor those that are off or cannot work here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.errors import InvalidArgument
from metier.skill import NO_REQUIREMENTS, Requirements
from metier.skill.listing import ListingRule, Listings

if TYPE_CHECKING:
    from collections.abc import Collection

    from metier.find.search_index import IndexedSkill
    from metier.library import Entry, Machine
    from metier.skill.listing import ListingMode

_FOR_PEOPLE = "not for models"
_DEFAULT = ListingRule(pattern="*", mode="listed")


def listing_rule(entry: Entry, listings: Listings) -> ListingRule:
    """The listing mode of a skill, and what sets it: its own files keep it from models as policy files do."""
    rule = (listings.rule_for(entry.name, entry.source) if listings else None) or _DEFAULT
    if entry.is_hidden_from_models and rule.mode != "off":
        return ListingRule(pattern=entry.name, mode="manual", origin="the skill itself")
    return rule


class Visibility:
    """Decides for one catalog or search, and remembers why a skill was withheld."""

    def __init__(
        self,
        machine: Machine | None,
        only: Collection[str] | None = None,
        listings: Listings | None = None,
    ) -> None:
        require_several(names=only)
        self._machine = machine
        self.listings = listings or Listings()
        self.only = None if only is None else frozenset(only)
        """The names that may be shown at all; None for every one."""
        self._needs: dict[str, str] = {"": ""}
        self.withheld: dict[str, str] = {}
        """Name of a skill to the reason."""

    def __call__(self, entry: Entry, row: IndexedSkill | None = None) -> bool:
        """Whether a skill may be shown, judged by the index where that is enough, else by the skill itself."""
        if self.only is not None and entry.name not in self.only:
            return False
        mode = self.mode(entry)
        if mode == "off":
            reason = "off"
        elif mode == "manual" or entry.is_undescribed_and_hidden:
            reason = _FOR_PEOPLE
        else:
            reason = self._by_index(row) if row is not None else self._by_skill(entry)
        if reason:
            self.withheld[entry.name] = reason
        return not reason

    def mode(self, entry: Entry) -> ListingMode:
        """The mode that listings give a skill, whatever it says itself."""
        return self.listings.mode(entry.name, entry.source) if self.listings else "listed"

    def _by_index(self, row: IndexedSkill) -> str:
        if row.unlisted:
            return _FOR_PEOPLE
        if row.needs not in self._needs:
            try:
                requirements = Requirements.from_text(row.needs)
            except ValueError:
                requirements = Requirements()
            self._needs[row.needs] = self._unmet(requirements)
        return self._needs[row.needs]

    def _by_skill(self, entry: Entry) -> str:
        return _FOR_PEOPLE if entry.is_hidden_from_models else self._unmet(entry.requirements)

    def _unmet(self, requirements: Requirements) -> str:
        if requirements is NO_REQUIREMENTS:
            return ""
        from metier.library.readiness import Machine, readiness

        self._machine = self._machine or Machine()
        found = readiness(requirements, self._machine)
        return "" if found.is_ready else str(found)


def require_several(**arguments: object) -> None:
    """Refuse text where several names are meant: its letters would be taken for them."""
    for name, value in arguments.items():
        if isinstance(value, str | bytes):
            raise InvalidArgument(f"`{name}` is a list of names, not text.", hint=f"Write {name}=[{value!r}].")
