"""Which skills a model is told of: not those for people only, nor those that cannot work here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.errors import InvalidArgument
from metier.library import Machine
from metier.library.readiness import readiness
from metier.skill import Requirements

if TYPE_CHECKING:
    from collections.abc import Collection

    from metier.find.index import Row
    from metier.library import Entry


class Listed:
    """Decides for one catalog or search, and remembers why a skill was withheld."""

    def __init__(
        self, machine: Machine | None, only: Collection[str] | None = None, bare: Collection[str] = ()
    ) -> None:
        self._machine = machine or Machine()
        self.bare = frozenset(bare)
        """The names that are shown without a description."""
        self.only = None if only is None else frozenset(only)
        """The names that may be shown at all; None for every one."""
        self._needs: dict[str, str] = {"": ""}
        self.withheld: dict[str, str] = {}
        """Name of a skill to the reason."""

    def __call__(self, entry: Entry, row: Row | None = None) -> bool:
        """Whether a skill may be shown, judged by the index where that is enough, else by the skill itself."""
        if self.only is not None and entry.name not in self.only:
            return False
        if entry.is_undescribed_and_hidden:
            reason = _FOR_PEOPLE
        else:
            reason = self._by_index(row) if row is not None else self._by_skill(entry)
        if reason:
            self.withheld[entry.name] = reason
        return not reason

    def _by_index(self, row: Row) -> str:
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
        found = readiness(requirements, self._machine)
        return "" if found.is_ready else str(found)


_FOR_PEOPLE = "not for models"


def require_several(**arguments: object) -> None:
    """Refuse text where several names are meant: its letters would be taken for them."""
    for name, value in arguments.items():
        if isinstance(value, str | bytes):
            raise InvalidArgument(f"`{name}` is a list of names, not text.", hint=f"Write {name}=[{value!r}].")
