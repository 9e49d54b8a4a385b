"""The location of a skill whose content is changed: its folder and its name there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier._lazy import dataclass, replace
from metier._paths import is_inside
from metier.errors import FileRefused, SkillNotFound
from metier.hub.skill_files import package_of
from metier.library import SkillIndex
from metier.library.places import Place, default_places, named_apart, named_enterprise_places
from metier.session.active_skills import subject_of
from metier.skill import FolderPackage, shown
from metier.source import FolderSource
from metier.source.memory import MemorySource
from metier.source.source import absolute, expanded

if TYPE_CHECKING:
    from metier.guard import Subject
    from metier.library import Entry, SkillLookup
    from metier.library.places import Layer
    from metier.skill.package import Files
    from metier.store import TenantScope


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillLocation:
    """A skill in its place.

    >>> SkillLocation(location="/skills/pdf", name="pdf", source="personal", layer="personal").ref
    'pdf@personal'
    """

    location: str
    """The folder, as a library says where it is."""
    name: str
    source: str
    layer: Layer
    trusted: bool = True
    """Whether anybody vouches for the place."""

    @property
    def ref(self) -> str:
        """The full name of the skill: `name@source`."""
        return f"{self.name}@{self.source}"

    @property
    def folder(self) -> str:
        """The folder itself, wherever links on the way to it lead: what is replaced is never a link."""
        return os.path.realpath(self.location)


def location_of(entry: Entry) -> SkillLocation:
    """The place of a skill of a library; raises `FileRefused` for one that is in no folder of its own."""
    if not isinstance(entry.package, FolderPackage):
        raise FileRefused(
            f"Skill {shown(entry.name)!r} is not in a folder that could be changed: {shown(entry.location, 300)}.",
            hint="Propose it as a new skill.",
            path=entry.location,
        )
    return SkillLocation(
        location=os.path.dirname(entry.location),
        name=entry.name,
        source=entry.source,
        layer=entry.layer,
        trusted=entry.trusted,
    )


def location_at(location: str, skill: str = "") -> SkillLocation:
    """The place of a folder, by the folders for skills that there are here; `skill` says what it is called already.

    >>> location_at("/somewhere/skills/pdf").ref
    'pdf@skills'
    """
    folder, own = os.path.split(location)
    name, _, source = skill.partition("@")
    # A folder that somebody names in a program, or with --skills, is one of a project.
    home = SkillLocation(
        location=location, name=name or own, source=source or os.path.basename(folder) or "root", layer="project"
    )
    for place in named_apart(default_places()[0]):
        if isinstance(place.source, FolderSource) and is_inside(location, place.source.root):
            return replace(home, source=source or place.name, layer=place.layer, trusted=place.trusted)
    # A folder that an administrator named is everybody's from the first skill on, which it may be made for.
    named = (absolute(expanded(place)) for place in named_enterprise_places())
    return replace(home, layer="enterprise") if any(is_inside(location, place) for place in named) else home


def location_in(library: SkillLookup | None, location: str, skill: str) -> SkillLocation:
    """The place of a folder as a library has it, which may have places of its own; else as `location_at` has it."""
    for entry in library.entries() if library is not None else ():
        if os.path.dirname(entry.location) == location and isinstance(entry.package, FolderPackage):
            return location_of(entry)
    return location_at(location, skill)


def new_location(into: str | os.PathLike[str], name: str) -> SkillLocation:
    """The place that a skill has once it lies in a folder for skills."""
    return location_at(os.path.join(absolute(expanded(os.fspath(into))), name))


def require_unlinked(home: SkillLocation, root: str) -> None:
    """Raise `FileRefused` where a link below `root` leads elsewhere: whoever made a project may have put it there.

    A user's own folder of skills may be a link, and the folder of a skill never is one.
    """
    parent, name = os.path.split(home.location)
    start = root if home.layer == "project" else parent
    expected = os.path.join(os.path.realpath(start), os.path.relpath(parent, start), name)
    if home.folder != os.path.normpath(expected):
        raise FileRefused(
            f"{shown(home.location, 300)} leads through a link, and nothing is installed through one.",
            hint=f"Make a folder of the link, or remove it. It leads to {shown(home.folder, 300)}.",
            path=home.location,
        )


def find_location(library: SkillLookup, scope: TenantScope, name: str) -> SkillLocation:
    """The place of a skill by its name: one of the library, or else one on record that is not to be seen any more."""
    try:
        return location_of(library.get(name))
    except SkillNotFound:
        for one in scope.installs.all():
            if name in (one.skill, f"{one.skill}@{one.source}"):
                return location_at(one.location, f"{one.skill}@{one.source}")
        for record in scope.audit.search(type="skill.removed", skill=name, limit=1):
            return location_at(record["path"], f"{record['skill']}@{record['source']}")
        raise


def removal_of(scope: TenantScope, home: SkillLocation) -> str:
    """The command that brings a skill again which `metier remove` took away; empty for one that it did not."""
    if scope.installs.get(home.location) is None and not os.path.lexists(home.location):
        for record in scope.audit.search(type="skill.removed", skill=home.ref, limit=1):
            return str(next(iter(record.get("notes", ())), ""))
    return ""


def find_skill(library: SkillLookup, scope: TenantScope, name: str) -> tuple[SkillLookup, Entry]:
    """A skill by its name: one of the library, or else one on record, with a library of the folder that it lies in."""
    try:
        return library, library.get(name)
    except SkillNotFound:
        home = find_location(library, scope, name)
        place = Place(
            layer=home.layer,
            source=FolderSource(os.path.dirname(home.location), name=home.source, whole_root=False),
            trusted=home.trusted,
        )
        of_it = SkillIndex([place], cache=False).as_caller(environment=library.caller.environment)
        # Whoever names a skill on record need not be among those that its scope names.
        found = (one for one in of_it.snapshot.entries if os.path.dirname(one.location) == home.location)
        entry = next(found, None)
        if entry is None or entry.is_broken:
            raise
        return of_it, entry


def subject_in(home: SkillLocation, files: Files, digest: str) -> Subject:
    """The subject of a decision about a content that is not in its place yet."""
    source = MemorySource({home.name: package_of(files)}, name=home.source)
    library = SkillIndex([Place(layer=home.layer, source=source, trusted=home.trusted)], cache=False)
    # Whatever its scope: this is not about whom it is there for.
    return subject_of(library.snapshot.entries[0], digest)
