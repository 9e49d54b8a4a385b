"""Snapshots: every skill in every place at one moment, and the skill that answers to each name.

A snapshot never changes. Readers hold one and see one consistent state, whatever a refresh is doing meanwhile; what is
computed on first use (entries, winners, aliases) gives the same answer whoever computes it.
"""

from __future__ import annotations

import os
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from metier._cache import BoundedCache
from metier._suggest import suggestion
from metier.errors import InvalidArgument, LockInvalid, SkillNotFound, SkillUnreadable
from metier.hints import WITHOUT_IT, find_skill, for_people
from metier.library.entry import Entry
from metier.skill import shown, slug
from metier.skill.names import is_plain, readings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.library.index_rows import IndexRows
    from metier.library.places import Caller, Layer, Place


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


_SUGGESTED_AMONG = 4_000
_VIEWS_KEPT = 64


class Snapshot:
    """An immutable state of the library."""

    def __init__(
        self,
        places: tuple[Place, ...],
        all_rows: tuple[IndexRows, ...],
        order: tuple[Layer, ...],
        deployed: tuple[tuple[Place, IndexRows], ...] = (),
    ) -> None:
        self.places = places
        self.rows = all_rows
        self.order = order
        self.deployed = deployed
        """The places that administrators deployed beside it: not in the library, but with reserved names."""
        self._views: BoundedCache[Caller, CallerView] = BoundedCache(_VIEWS_KEPT)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Every skill, strongest first within a name, sorted by name."""
        found = [
            Entry(place, rows, index)
            for place, rows in zip(self.places, self.rows, strict=True)
            for index in range(len(rows))
        ]
        found.sort(key=self._precedence)
        return tuple(found)

    @cached_property
    def enterprise(self) -> tuple[Entry, ...]:
        """The skills that administrators deployed, in the library and beside it, the strongest of a name first."""
        own = self.entries if any(place.layer == "enterprise" for place in self.places) else ()
        beside = (Entry(place, rows, index) for place, rows in self.deployed for index in range(len(rows)))
        return (*(entry for entry in own if entry.place.layer == "enterprise"), *beside)

    def _precedence(self, entry: Entry) -> tuple[str, int, int, int, bool, str]:
        """The layer decides, then priority inside it, then the order of places; never a sum of them."""
        place = self._place_numbers[id(entry.place)]
        if entry.layer == "plugin":
            place = -place  # the last installed wins
        is_copy = bool(entry.place.copies) and entry.folder in entry.place.copies
        return (
            entry.name,
            len(self.order) if is_copy else self.order.index(entry.layer),
            -entry.priority,
            place,
            entry.folder != entry.name,
            entry.key,
        )

    @cached_property
    def _place_numbers(self) -> dict[int, int]:
        return {id(place): number for number, place in enumerate(self.places)}

    def view(self, caller: Caller) -> CallerView:
        """The view of one caller."""
        view = self._views.get(caller)
        if view is None:
            view = CallerView(self, caller)
            self._views[caller] = view
        return view


class CallerView:
    """A snapshot through the eyes of one caller: what its scope hides from them is as good as absent."""

    def __init__(self, snapshot: Snapshot, caller: Caller) -> None:
        self.snapshot = snapshot
        self.active: dict[str, Entry] = {}
        """Name to the skill that answers to it."""
        self.rest: list[Entry] = []
        """Skills that exist but do not answer to their name, with the one that does."""
        self.has_reserved = False
        """Whether there is a skill whose name belongs to one of the enterprise layer."""
        reserved = self._reserved = ReservedNames(entry for entry in snapshot.enterprise if entry.is_visible_to(caller))
        for entry in snapshot.entries:
            if not entry.is_visible_to(caller):
                continue
            is_usable = entry.is_usable
            winner = self.active.get(entry.name) if is_usable else None
            owner = reserved.owner_of(entry, winner) if reserved else None
            if winner is not None or owner is not None:
                entry = entry.below(winner, owner)
                self.has_reserved = self.has_reserved or owner is not None
            if is_usable and winner is None:
                self.active[entry.name] = entry
            else:
                self.rest.append(entry)
        if self.rest:
            self._tell_apart()

    def _tell_apart(self) -> None:
        """Mark the skills in a source that `name@source` does not mean, as it means another there."""
        taken = {(entry.name, id(entry.place)) for entry in self.active.values()}
        rest = sorted(self.rest, key=lambda entry: not entry.is_usable)
        self.rest = []
        for entry in rest:
            named = (entry.name, id(entry.place))
            self.rest.append(entry.beside_another() if named in taken else entry)
            taken.add(named)

    def all(self) -> tuple[Entry, ...]:
        """Every visible skill, shadowed and broken ones included, the active one of a name first."""
        return tuple(sorted([*self.active.values(), *self.rest], key=lambda entry: entry.name))

    @cached_property
    def _folders(self) -> dict[str, list[Entry]]:
        """Folder names to active skills; a folder that two skills share is nobody's alias."""
        folders: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.active.values():
            for word in {entry.folder, entry.folder.lower()}:
                folders[word].append(entry)
        return folders

    def get(self, name: str) -> Entry:
        """The skill that a person or a model means by a name; raises `SkillNotFound` with what they may have meant."""
        entry = self.active.get(name)
        return entry if entry is not None else self._search(name)

    def _search(self, name: str) -> Entry:
        if not isinstance(name, str) or not name.strip():
            raise InvalidArgument("The name of the skill is empty.", hint=find_skill())
        name = name.strip()
        if "@" in name and len(name) <= 4_096:
            wanted, _, source = name.partition("@")
            if wanted and source:
                return self._from_source(wanted, source)
        found = self._plainly(name)
        if found is not None:
            return found
        broken = next((entry for entry in self.rest if entry.is_broken and name in (entry.name, entry.folder)), None)
        if broken is not None:
            raise self._unreadable(broken)
        raise self.not_found(name)

    @staticmethod
    def _unreadable(entry: Entry) -> SkillUnreadable:
        problem = next(note for note in entry.diagnostics if note.severity == "error")
        return SkillUnreadable(
            f"Skill {entry.name!r} cannot be loaded: {problem.message}",
            hint=for_people("{hint} It is {location}.", model=WITHOUT_IT, hint=problem.hint, location=entry.location),
            name=entry.name,
            location=entry.location,
        )

    def _plainly(self, name: str) -> Entry | None:
        """By exact name, by folder, by the name it would have here, and last by folder in any case."""
        if len(name) > 512:
            return None
        if name in self.active:
            return self.active[name]
        for entries in (self._folders.get(name), self._folders.get(name.lower())):
            # A name of the enterprise layer is nobody's alias, also while the skill that has it cannot be read.
            if entries is not None and len(entries) == 1 and self._reserved.may_be_called(entries[0], slug(name)):
                return entries[0]
        # A path is no name: `../deploy` must not find `deploy`.
        return self.active.get(slug(name)) if _is_a_word(name) else None

    def _from_source(self, name: str, source: str) -> Entry:
        for wanted in dict.fromkeys((name, slug(name) if _is_a_word(name) else name)):
            same = [entry for entry in self.all() if entry.name == wanted]
            # The more exact is meant first: a source may be called like a layer, which may have other sources too.
            for is_meant in (_lies_at, _is_of_source, _is_of_layer, _has_version, _is_of_package):
                found = [entry for entry in same if is_meant(entry, source)]
                if found:
                    # One that cannot be used says why: another of the name is not the one that was asked for.
                    return self._usable(next((entry for entry in found if entry.is_usable), found[0]))
        error = self.not_found(f"{name}@{source}")
        known = dict.fromkeys(entry.reference for entry in self.all() if entry.name == slug(name))
        if known:
            versions = dict.fromkeys(
                shown(entry.skill.version) for entry in same if not entry.is_broken and entry.skill.version
            )
            in_version = f", in version {' and '.join(versions)}" if versions else ""
            error.hint = f"It is there as {', '.join(known)}{in_version}."
        raise error

    def _usable(self, entry: Entry) -> Entry:
        if entry.is_broken:
            raise self._unreadable(entry)
        if entry.is_skipped:
            error = self.not_found(entry.reference)
            error.hint = f"{entry.location} has no description, and skills without one are left out there."
            raise error
        return entry

    def not_found(self, name: str) -> SkillNotFound:
        """The error for a name that nothing answers to."""
        meant = self.suggestion(name)
        guess = f" Did you mean {meant!r}?" if meant else ""
        return SkillNotFound(
            f"Skill {shown(name)!r} was not found.{guess}",
            hint=find_skill(len(self.active)),
            name=name,
            suggestion=meant,
        )

    def suggestion(self, name: str) -> str | None:
        """The name most like a mistyped one, if any is like it."""
        wanted = slug(name.partition("@")[0])
        if not wanted:
            return None
        names = list(self.active)
        if len(names) > _SUGGESTED_AMONG:
            # Comparing with every name of a huge library takes seconds; a typo rarely spoils the first two letters.
            names = [other for other in names if other[:2] == wanted[:2]][:_SUGGESTED_AMONG]
        return suggestion(wanted, names)


def _lies_at(entry: Entry, place: str) -> bool:
    return place in (f"{entry.source}/{entry.key.rpartition('/')[0]}", os.path.dirname(entry.location))


def _is_of_source(entry: Entry, source: str) -> bool:
    return entry.source == source


def _is_of_layer(entry: Entry, layer: str) -> bool:
    return entry.layer == layer


def _has_version(entry: Entry, version: str) -> bool:
    """Whether it is this version: `1.2` and `1.2.0` are the same."""
    if not version[:2].lstrip("vV")[:1].isdigit() or entry.is_broken or not entry.skill.version:
        return False
    from metier.skill.skill_requirement import version_of

    wanted = version_of(version)
    return entry.skill.version == version or (wanted is not None and version_of(entry.skill.version) == wanted)


def _is_of_package(entry: Entry, package: str) -> bool:
    """Whether the lock file says that it came from a package, a plugin or a repository."""
    if entry.place.source.root is None:
        return False
    from metier.library.lock_file import locked_skill
    from metier.skill.skill_requirement import comes_from

    try:
        locked = locked_skill(os.path.dirname(entry.location))
    except LockInvalid:
        return False
    return locked is not None and comes_from(package, locked.package, locked.source)


def _is_a_word(name: str) -> bool:
    return not any(c in "/\\@" or not c.isprintable() for c in name) and ".." not in name
