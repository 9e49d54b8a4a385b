"""What is indexed of a skill: its fields and its body as plain text."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from metier.find.content import SkillText
from metier.library.reading import Unreadable, read_file
from metier.skill import Scope
from metier.skill.document import parse
from metier.skill.side_file import SIDE_FILE
from metier.source import FolderSource

if TYPE_CHECKING:
    from metier.library import Entry, Place
    from metier.library.snapshot import View
    from metier.skill import Skill

_SEARCHED_EXTRAS = ("category", "title", "summary", "short-description", "short_description")


def stamp_of(entry: Entry) -> str:
    """What a skill's file was, and the side file beside it, as text that can be compared."""
    return ",".join(map(str, (*entry.identity, *_beside(entry))))


def _beside(entry: Entry) -> tuple[int, ...]:
    if not isinstance(entry.place.source, FolderSource):
        return ()
    try:
        status = os.stat(f"{os.path.dirname(entry.location)}/{SIDE_FILE}")
    except (OSError, ValueError):
        return ()
    return (status.st_size, status.st_mtime_ns)


def key_of(entry: Entry) -> str:
    """The key of a skill as text that a database can keep: file names need not be valid Unicode."""
    return storable(entry.key)


def storable(text: str) -> str:
    """Text that can be encoded, another one for each text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "\0" + text.encode(errors="backslashreplace").decode()  # no file name begins like this
    return text


def text_of(entry: Entry) -> SkillText:
    """What is to be indexed of a skill; without its body when that cannot be read just now."""
    skill, body, stamp = entry.skill, "", stamp_of(entry)
    try:
        data, _ = read_file(entry.place.source, entry.key)
    except Unreadable:
        stamp = ""  # no file's: it is tried again
    else:
        body = parse(data, folder=entry.folder).body
    return SkillText(
        key=key_of(entry),
        stamp=stamp,
        name=storable(entry.name),
        about=about_of(skill),
        body=body,
        tags=tuple(storable(tag) for tag in skill.tags),
        scope=scope_text(skill.scope),
        unlisted=skill.disable_model_invocation or skill.insert == "user-message" or entry.side_file.is_for_people_only,
        needs=entry.requirements.as_text(),
    )


def about_of(skill: Skill) -> str:
    """Everything a skill says of itself in its frontmatter that somebody may search for."""
    written = skill.declared_name if skill.declared_name != skill.name else None
    parts = [skill.description, skill.when_to_use, *skill.tags, *skill.triggers, written]
    for fields in (skill.extra, skill.metadata):
        parts.extend(str(fields[key]) for key in _SEARCHED_EXTRAS if isinstance(fields.get(key), str))
    return "\n".join(dict.fromkeys(part for part in parts if part))


def scope_text(scope: Scope | None) -> str:
    """A scope as text, the same for the same scope."""
    if scope is None:
        return ""
    parts = (scope.agents, scope.tenants, scope.environments)
    return json.dumps([None if part is None else sorted(set(part)) for part in parts])


def scope_of(text: str) -> Scope | None:
    """The scope of such a text; raises ValueError for any other."""
    if not text:
        return None
    agents, tenants, environments = (None if part is None else tuple(part) for part in json.loads(text))
    return Scope(agents=agents, tenants=tenants, environments=environments)


def meant(view: View, place: Place, name: str, key: str) -> Entry | None:
    """The skill that a row of an index stands for, if it is the one that answers to its name for the caller."""
    entry = view.active.get(name)
    return entry if entry is not None and entry.place is place and key_of(entry) == key else None
